"""corpus.py -- 200 files for `ai custom-jobs create --config`, as people write them.

A row is (name, text). Most are one small job with one thing about it that is worth trying; the helpers below write
the part that is not, so that a row shows its point:

    job("timeout: 3600s", at="scheduling")    the plain job with that line under `scheduling`
    pool("replicaCount: 2")                   the plain pool with that line in place of its own
    spec("args: [1]")                         the plain containerSpec with that line added
"""

PLAIN = """\
workerPoolSpecs:
- machineSpec:
    machineType: n1-standard-4
  replicaCount: 1
  containerSpec:
    imageUri: host
    command: ["true"]
"""
FLOW = "[{machineSpec: {machineType: n1-standard-4}, replicaCount: 1, containerSpec: {imageUri: host, command: [echo]}}]"


def indent(text, by):
    return "".join(" " * by + line + "\n" for line in text.splitlines())


def job(lines, at=None):
    return PLAIN + (f"{at}:\n{indent(lines, 2)}" if at else lines + "\n")


def pool(lines):
    """The plain pool, where `lines` take the place of keys it has already."""
    keys = {line.split(":")[0] for line in lines.splitlines() if line[:1] not in " -#"}
    kept = [line for line in PLAIN.splitlines(True) if "replicaCount" not in keys or "replicaCount" not in line]
    return "".join(kept) + indent(lines, 2)


def workers(lines):
    """A plain chief and a pool of workers, whose replicaCount is free, with these lines."""
    return PLAIN + "- machineSpec: {machineType: n1-standard-4}\n  containerSpec: {imageUri: host, command: ['true']}\n" \
        + indent(lines, 2)


def spec(lines):
    return PLAIN + indent(lines, 4)


def command(text):
    return PLAIN.replace('["true"]', text)


def machine(lines):
    return PLAIN.replace("    machineType: n1-standard-4\n", indent(lines, 4))


STYLES = [
    ("block", PLAIN),
    ("flow-pools", f"workerPoolSpecs: {FLOW}\n"),
    ("flow-whole", "{workerPoolSpecs: " + FLOW + "}"),
    ("json", '{"workerPoolSpecs": [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1", '
             '"containerSpec": {"imageUri": "host", "command": ["echo", "a\\u00e9\\n"]}}]}'),
    ("json-with-tabs", '{\n\t"workerPoolSpecs": [\n\t\t{"machineSpec": {"machineType": "n1-standard-4"},\n'
                       '\t\t"replicaCount": 1, "containerSpec": {"imageUri": "host", "command": ["ls"]}}]\n}\n'),
    ("json-trailing-comma", '{"workerPoolSpecs": [{"replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4"}, '
                            '"containerSpec": {"imageUri": "host", "command": ["ls"],}},],}'),
    ("list-indented", PLAIN.replace("\n", "\n  ").rstrip() + "\n"),
    ("four-spaces", PLAIN.replace("  ", "    ").replace("- ", "-   ")),
    ("document-start", "---\n" + PLAIN),
    ("document-start-and-end", "---\n" + PLAIN + "...\n"),
    ("yaml-directive-1.1", "%YAML 1.1\n---\n" + PLAIN),
    ("yaml-directive-1.2", "%YAML 1.2\n---\n" + PLAIN),
    ("two-documents", PLAIN + "---\n" + PLAIN),
    ("second-document-empty", PLAIN + "---\n"),
    ("crlf", PLAIN.replace("\n", "\r\n")),
    ("cr-only", PLAIN.replace("\n", "\r")),
    ("no-last-newline", PLAIN.rstrip("\n")),
    ("byte-order-mark", "\ufeff" + PLAIN),
    ("comments", "# a job\n" + PLAIN.replace("replicaCount: 1", "replicaCount: 1 # one") + "# end\n"),
    ("comment-after-key", PLAIN.replace("workerPoolSpecs:", "workerPoolSpecs:   # pools")),
    ("comment-without-space", PLAIN.replace("replicaCount: 1", "replicaCount: 1#one")),
    ("blank-lines", PLAIN.replace("\n", "\n\n")),
    ("trailing-spaces", PLAIN.replace("\n", "  \n")),
    ("tab-indent", PLAIN.replace("    machineType", "\tmachineType")),
    ("tab-after-colon", PLAIN.replace("replicaCount: 1", "replicaCount:\t1")),
    ("tab-after-value", PLAIN.replace("replicaCount: 1", "replicaCount: 1\t")),
    ("tab-in-flow", command('["true",\t"x"]')),
    ("tab-only-line", PLAIN + "\t\n"),
    ("space-before-colon", PLAIN.replace("replicaCount: 1", "replicaCount : 1")),
    ("no-space-after-colon", PLAIN.replace("replicaCount: 1", "replicaCount:1")),
    ("quoted-keys", PLAIN.replace("replicaCount", '"replicaCount"').replace("imageUri", "'imageUri'")),
    ("explicit-key", "? workerPoolSpecs\n: " + FLOW + "\n"),
    ("bad-indent", PLAIN.replace("  replicaCount", "   replicaCount")),
    ("unclosed-bracket", command('["true"')),
    ("unclosed-quote", command('"true')),
    ("non-ascii-text", spec('args: ["größe", 日本, "🚂"]')),
    ("non-breaking-space", PLAIN.replace("replicaCount: 1", "replicaCount:\u00a01")),
    ("control-character", spec('args: ["a\x01"]')),
    ("escaped-control-character", spec('args: ["a\\x01\\t"]')),
    ("nul-escape", spec('args: ["a\\0b"]')),
    ("next-line-character", spec('args: ["a\u0085b"]')),
]

WHOLE = [
    ("empty", ""),
    ("only-comment", "# nothing yet\n"),
    ("only-newlines", "\n\n\n"),
    ("only-document-start", "---\n"),
    ("null", "null\n"),
    ("number", "3\n"),
    ("text", "hello\n"),
    ("list", "- " + PLAIN.replace("\n", "\n  ").rstrip() + "\n"),
    ("empty-mapping", "{}\n"),
    ("empty-list", "[]\n"),
    ("job-spec-wrapped", "displayName: x\njobSpec:\n" + indent(PLAIN, 2)),
    ("job-spec-wrapped-alone", "jobSpec:\n" + indent(PLAIN, 2)),
    ("job-spec-wrapped-snake", "job_spec:\n" + indent(PLAIN, 2)),
    ("display-name-inside", job("displayName: x")),
    ("labels-inside", job("labels: {a: b}")),
    ("legacy-training-input", "trainingInput:\n  scaleTier: CUSTOM\n  masterType: n1-standard-4\n"),
    ("kubernetes", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\n"),
    ("tuning-job", "studySpec:\n  metrics: [{metricId: a, goal: MAXIMIZE}]\ntrialJobSpec:\n" + indent(PLAIN, 2)),
    ("python-dict", "{'workerPoolSpecs': [{'machineSpec': {'machineType': 'n1-standard-4'}, 'replicaCount': 1, "
                    "'containerSpec': {'imageUri': 'host', 'command': ['true']}}]}"),
    ("python-none", job("serviceAccount: None")),
    ("binary", "\x89PNG\r\n"),
]

POOLS = [
    ("single-mapping", PLAIN.replace("- ", "  ")),
    ("single-mapping-flow", f"workerPoolSpecs: {FLOW[1:-1]}\n"),
    ("no-pools", "serviceAccount: a@b.c\n"),
    ("pools-empty", "workerPoolSpecs: []\n"),
    ("pools-null", "workerPoolSpecs:\n"),
    ("pools-text", "workerPoolSpecs: chief\n"),
    ("pools-number", "workerPoolSpecs: 1\n"),
    ("pools-of-text", "workerPoolSpecs: [chief]\n"),
    ("pools-with-null", PLAIN + "- \n"),
    ("pools-with-empty", PLAIN + "- {}\n"),
    ("pools-first-empty", "workerPoolSpecs:\n- {}\n" + PLAIN.split("\n", 1)[1]),
    ("pools-two", PLAIN + PLAIN.split("\n", 1)[1]),
    ("pools-four", PLAIN + 3 * PLAIN.split("\n", 1)[1]),
    ("pools-five", PLAIN + 4 * PLAIN.split("\n", 1)[1]),
    ("pools-as-map-of-pools", "workerPoolSpecs:\n  chief:\n    replicaCount: 1\n"),
    ("pools-singular", PLAIN.replace("workerPoolSpecs", "workerPoolSpec")),
    ("pools-typo", PLAIN.replace("workerPoolSpecs", "workerpoolspecs")),
    ("pools-capital", PLAIN.replace("workerPoolSpecs", "WorkerPoolSpecs")),
    ("pools-kebab", PLAIN.replace("workerPoolSpecs", "worker-pool-specs")),
    ("both-specs", pool("pythonPackageSpec:\n  executorImageUri: x\n  pythonModule: a.b")),
    ("both-specs-one-empty", pool("pythonPackageSpec: {}")),
    ("both-specs-one-null", pool("pythonPackageSpec:")),
    ("no-spec", "workerPoolSpecs:\n- machineSpec: {machineType: n1-standard-4}\n  replicaCount: 1\n"),
    ("container-without-image", PLAIN.replace("    imageUri: host\n", "")),
    ("container-image-empty", PLAIN.replace("imageUri: host", 'imageUri: ""')),
    ("container-image-null", PLAIN.replace("imageUri: host", "imageUri:")),
    ("container-image-number", PLAIN.replace("imageUri: host", "imageUri: 3")),
    ("container-as-text", PLAIN.split("  containerSpec")[0] + "  containerSpec: host\n"),
    ("container-as-list", PLAIN.split("  containerSpec")[0] + "  containerSpec: [host]\n"),
    ("image-misspelt", PLAIN.replace("imageUri", "image")),
    ("image-url", PLAIN.replace("imageUri", "imageURI")),
    ("python-without-module", PLAIN.split("  containerSpec")[0] + "  pythonPackageSpec: {executorImageUri: x}\n"),
    ("python-without-image", PLAIN.split("  containerSpec")[0] + "  pythonPackageSpec: {pythonModule: a.b}\n"),
    ("python-without-packages", PLAIN.split("  containerSpec")[0]
        + "  pythonPackageSpec: {executorImageUri: x, pythonModule: a.b}\n"),
    ("no-machine-spec", PLAIN.replace("- machineSpec:\n    machineType: n1-standard-4\n  replicaCount", "- replicaCount")),
    ("machine-spec-empty", machine("")),
    ("machine-type-at-pool", PLAIN.replace("- machineSpec:\n    machineType", "- machineType")),
    ("machine-type-in-container", spec("machineType: n1-standard-4")),
    ("machine-type-number", machine("machineType: 4")),
    ("machine-type-list", machine("machineType: [n1-standard-4]")),
    ("no-replica-count", PLAIN.replace("  replicaCount: 1\n", "")),
    ("disk", pool("diskSpec:\n  bootDiskType: pd-ssd\n  bootDiskSizeGb: 200")),
    ("disk-size-text", pool("diskSpec: {bootDiskSizeGb: '200'}")),
    ("disk-size-unit", pool("diskSpec: {bootDiskSizeGb: 200Gi}")),
    ("nfs", pool("nfsMounts:\n- server: 10.0.0.1\n  path: /data\n  mountPoint: /mnt/nfs/data")),
]

NUMBERS = [
    (f"replica-count {value!r}", workers(f"replicaCount: {value}")) for value in (
        "2", "'2'", '"2"', "0", "-1", "1.0", "1.5", "'1.0'", "1e0", "1e1", "01", "08", "010", "0o10", "0x2", "0b10", "1_0",
        "+1", "1:30", "two", "true", "yes", "null", "~", "", "[1]", "{a: 1}", "9223372036854775807",
        "9223372036854775808", "'9223372036854775808'", "' 2 '", "!!int '2'", "!!str 2", "!mine 2", "2024-01-01", ".inf",
        ".nan", "1,000")
] + [
    ("accelerator", machine("machineType: n1-standard-4\nacceleratorType: NVIDIA_TESLA_T4\nacceleratorCount: 1")),
    ("accelerator-count-text", machine("machineType: n1-standard-4\nacceleratorType: NVIDIA_TESLA_T4\nacceleratorCount: '1'")),
    ("accelerator-lower-case", machine("machineType: n1-standard-4\nacceleratorType: nvidia-tesla-t4\nacceleratorCount: 1")),
    ("accelerator-by-number", machine("machineType: n1-standard-4\nacceleratorType: 5\nacceleratorCount: 1")),
    ("accelerator-unknown", machine("machineType: n1-standard-4\nacceleratorType: NVIDIA_MINE\nacceleratorCount: 1")),
    ("accelerator-count-alone", machine("machineType: n1-standard-4\nacceleratorCount: 1")),
    ("accelerator-null", machine("machineType: n1-standard-4\nacceleratorType:\nacceleratorCount:")),
]

ARGUMENTS = [
    (f"args {value!r}", spec(f"args: {value}")) for value in (
        "[a, b]", "[1]", "[1.5]", "[1.0]", "[1e3]", "[true]", "[yes]", "['yes']", "[no, on, off, y, n]", "[null]", "[~]",
        "[]", "", "--epochs=3", "'--epochs=3'", "[--epochs, 3]", "[--epochs, '3']", "[--lr=0.1]", "[--lr, 0.1]", "[[a]]",
        "[{a: b}]", "[--a: b]", "{--epochs: 3}", "[2024-01-01]", "['2024-01-01']", "[2024-01-01T10:00:00Z]", "[12:30:45]",
        "[12:30]", "[010]", "[0x1F]", "[1_000]", "[=]", "[<<]", "[-]", "[-1]", "[.5]", "[0o17]", "[-.5]", "[1e400]", "[a:b]",
        "[\"a\\tb\"]", "['it''s']", "[!!binary aGk=]", "[a b , c]", "[,a]", "[*x]", "[@x]", "[%x]", "[`x]", "[|x]", "[a#b]",
        "[gs://b/o]", "[--data=gs://b/*.csv]", "[--x={a}]", "[{a}]", "[\"\"]")
] + [
    ("args-block", spec("args:\n- --epochs\n- '3'\n- --name=a b")),
    ("args-block-same-indent-dashes", spec("args:\n  - --epochs=3\n  - --lr=0.1")),
    ("args-folded", spec("args:\n- >\n  a\n  b")),
    ("args-literal", spec("args:\n- |\n  a\n  b")),
    ("args-literal-strip", spec("args:\n- |-\n  a\n   b\n")),
    ("args-literal-keep", spec("args:\n- |+\n  a\n\n")),
    ("args-literal-indent", spec("args:\n- |2\n    a\n")),
    ("args-plain-two-lines", spec("args:\n- a\n  b")),
    ("args-dash-dash", spec("args:\n- --\n- -x")),
    ("command-text", command("echo hello")),
    ("command-block", PLAIN.replace('command: ["true"]', "command:\n    - sh\n    - -c\n    - 'echo $HOME: done'")),
    ("command-plain-true", command("[true]")),
    ("env-list", spec("env:\n- name: A\n  value: b")),
    ("env-number-value", spec("env: [{name: A, value: 1}]")),
    ("env-boolean-value", spec("env: [{name: A, value: true}]")),
    ("env-quoted-value", spec("env: [{name: A, value: '1'}]")),
    ("env-no-value", spec("env: [{name: A}]")),
    ("env-empty-value", spec("env: [{name: A, value: ''}]")),
    ("env-null-value", spec("env: [{name: A, value: }]")),
    ("env-mapping", spec("env: {A: b}")),
    ("env-pairs", spec("env: [A=b]")),
    ("env-key-value", spec("env: [{key: A, value: b}]")),
]

FIELDS = [
    ("timeout", job("timeout: 3600s", at="scheduling")),
    ("timeout-fraction", job("timeout: 3600.5s", at="scheduling")),
    ("timeout-number", job("timeout: 3600", at="scheduling")),
    ("timeout-number-text", job("timeout: '3600'", at="scheduling")),
    ("timeout-minutes", job("timeout: 60m", at="scheduling")),
    ("timeout-clock", job("timeout: 1:00:00", at="scheduling")),
    ("timeout-words", job("timeout: 1 hour", at="scheduling")),
    ("timeout-mapping", job("timeout: {seconds: 3600}", at="scheduling")),
    ("timeout-negative", job("timeout: -1s", at="scheduling")),
    ("timeout-null", job("timeout:", at="scheduling")),
    ("restart-true", job("restartJobOnWorkerRestart: true", at="scheduling")),
    ("restart-yes", job("restartJobOnWorkerRestart: yes", at="scheduling")),
    ("restart-no", job("restartJobOnWorkerRestart: no", at="scheduling")),
    ("restart-On", job("restartJobOnWorkerRestart: On", at="scheduling")),
    ("restart-text", job("restartJobOnWorkerRestart: 'true'", at="scheduling")),
    ("restart-number", job("restartJobOnWorkerRestart: 1", at="scheduling")),
    ("restart-null", job("restartJobOnWorkerRestart: null", at="scheduling")),
    ("restart-snake", job("restart_job_on_worker_restart: true", at="scheduling")),
    ("strategy", job("strategy: SPOT", at="scheduling")),
    ("strategy-lower-case", job("strategy: spot", at="scheduling")),
    ("strategy-number", job("strategy: 1", at="scheduling")),
    ("max-wait", job("maxWaitDuration: 60s", at="scheduling")),
    ("scheduling-null", job("scheduling:")),
    ("scheduling-list", job("scheduling: [timeout]")),
    ("scheduling-text", job("scheduling: 3600s")),
    ("base-output", job("outputUriPrefix: gs://b/o", at="baseOutputDirectory")),
    ("base-output-text", job("baseOutputDirectory: gs://b/o")),
    ("service-account", job("serviceAccount: a@b.iam.gserviceaccount.com")),
    ("service-account-number", job("serviceAccount: 3")),
    ("network", job("network: projects/1/global/networks/x")),
    ("web-access", job("enableWebAccess: true")),
    ("web-access-off", job("enableWebAccess: off")),
    ("web-access-text", job("enableWebAccess: 'no'")),
    ("web-access-Y", job("enableWebAccess: Y")),
    ("experiment", job("experiment: projects/p/locations/us-central1/metadataStores/default/contexts/x")),
    ("reserved-ranges", job("reservedIpRanges: [a, b]")),
    ("unknown-key", job("bogus: 3")),
    ("unknown-key-in-pool", pool("bogus: 3")),
    ("unknown-key-in-container", spec("bogus: [1]")),
    ("unknown-key-null", job("bogus:")),
    ("numeric-key", job("3: x")),
    ("boolean-key", job("on: x")),
    ("null-key", job("~: x")),
    ("empty-key", job("'': x")),
    ("list-key", job("[a]: x")),
    ("duplicate-key", job("serviceAccount: a@b.c\nserviceAccount: d@e.f")),
    ("duplicate-key-in-pool", pool("machineSpec: {machineType: n1-standard-8}")),
    ("camel-and-snake-of-one-key", pool("replica_count: 2")),
    ("snake-all", "worker_pool_specs:\n- machine_spec: {machine_type: n1-standard-4}\n  replica_count: 1\n"
                  "  container_spec: {image_uri: host, command: ['true']}\n"),
    ("snake-inside-camel", "workerPoolSpecs:\n- machine_spec: {machine_type: n1-standard-4}\n  replica_count: 1\n"
                           "  container_spec: {image_uri: host, command: ['true']}\n"),
    ("snake-single-mapping", "worker_pool_specs:\n  machine_spec: {machine_type: n1-standard-4}\n  replica_count: 1\n"
                             "  container_spec: {image_uri: host}\n"),
    ("snake-machine-only", PLAIN.replace("machineType", "machine_type")),
    ("snake-image-only", PLAIN.replace("imageUri", "image_uri")),
    ("snake-numbers-as-text", "worker_pool_specs:\n- machine_spec: {machine_type: n1-standard-4}\n  replica_count: '1'\n"
                              "  container_spec: {image_uri: host}\n"),
    ("snake-date", "worker_pool_specs:\n- machine_spec: {machine_type: n1-standard-4}\n  replica_count: 1\n"
                   "  container_spec: {image_uri: host, args: [2024-01-01]}\n"),
]

REUSE = [
    ("anchor-and-alias", "workerPoolSpecs:\n- &chief\n" + indent(PLAIN.split("\n", 1)[1], 0).replace("- ", "  ", 1)
     + "- *chief\n"),
    ("anchor-scalar", PLAIN.replace("replicaCount: 1", "replicaCount: &n 1") + "  # again\n- machineSpec: {machineType: e2-standard-4}\n"
     "  replicaCount: *n\n  containerSpec: {imageUri: host, command: [ls]}\n"),
    ("anchor-machine", PLAIN.replace("machineSpec:\n", "machineSpec: &m\n")
     + "- machineSpec: *m\n  replicaCount: 2\n  containerSpec: {imageUri: host, command: [ls]}\n"),
    ("merge-key", "workerPoolSpecs:\n- &p {machineSpec: {machineType: n1-standard-4}, replicaCount: 1, "
     "containerSpec: {imageUri: host, command: [ls]}}\n- <<: *p\n  replicaCount: 3\n"),
    ("merge-key-first-wins", "workerPoolSpecs:\n- &p {machineSpec: {machineType: n1-standard-4}, replicaCount: 1, "
     "containerSpec: {imageUri: host, command: [ls]}}\n- replicaCount: 2\n  <<: *p\n"),
    ("merge-list", "workerPoolSpecs:\n- &a {machineSpec: &m {machineType: n1-standard-4}, replicaCount: 1, containerSpec: &c "
     "{imageUri: host, command: [ls]}}\n- <<: [{replicaCount: 2}, *a]\n"),
    ("merge-inline", pool("<<: {diskSpec: {bootDiskSizeGb: 100}}")),
    ("merge-text", pool("<<: x")),
    ("merge-quoted", pool("'<<': {diskSpec: {bootDiskSizeGb: 100}}")),
    ("template-at-top", "x-pool: &p\n  machineSpec: {machineType: n1-standard-4}\n  replicaCount: 1\n"
     "  containerSpec: {imageUri: host, command: [ls]}\nworkerPoolSpecs:\n- *p\n"),
    ("alias-unknown", PLAIN.replace("replicaCount: 1", "replicaCount: *n")),
    ("alias-later", PLAIN.replace("replicaCount: 1", "replicaCount: *n") + "reservedIpRanges: [&n a]\n"),
    ("anchor-twice", spec("args: [&x a, &x b, *x]")),
    ("alias-inside-itself", spec("args: &x [*x]")),
    ("jinja", PLAIN.replace("replicaCount: 1", "replicaCount: {{ n }}")),
    ("shell-variable", PLAIN.replace("imageUri: host", "imageUri: ${IMAGE}")),
    ("dollar-text", spec("args: [$HOME, '${X}']")),
    ("template-tag", PLAIN.replace("replicaCount: 1", "replicaCount: !Ref N")),
    ("python-tag", PLAIN.replace("replicaCount: 1", "replicaCount: !!python/int 1")),
]

CORPUS = STYLES + WHOLE + POOLS + NUMBERS + ARGUMENTS + FIELDS + REUSE
assert len(CORPUS) >= 200 and len({name for name, _ in CORPUS}) == len(CORPUS)
