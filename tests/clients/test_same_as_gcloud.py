"""The same command lines given to real gcloud and to our command through a link named gcloud, on the same yard: the
same exit status and the same stdout, and the same stderr where it is a line that scripts look for."""
import os
import re
import shlex

import pytest
from yard import BINARY, FINAL

HOST = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=host --command=true"
CREATE = f"ai custom-jobs create --display-name=x {HOST}"
LIST = "ai custom-jobs list"
BY_NAME = f"{LIST} --sort-by=displayName"

# stderr is compared too.
EXACT = [
    f"{LIST} --limit=1",
    f"{LIST} --limit=1 --format=none",
    f"{LIST} --filter=displayName=nobody",
    f"{LIST} --filter=nope=1",
    f"{LIST} --limit=1 --format='value(displayName)' --user-output-enabled",
    f"{LIST} --no-user-output-enabled",
    f"{LIST} --uri",
    CREATE,
    f"beta {CREATE}",
    f"{CREATE} --no-user-output-enabled",
    f"{CREATE} --format='value(displayName,labels)' --labels=a=b,a=c",
    "ai custom-jobs describe {a}",
    "ai custom-jobs describe {a_id} --region=us-central1",
    "ai custom-jobs describe -- {a_id}",
    "ai custom-jobs describe 1 --verbosity=none",
    "ai custom-jobs cancel {running}",
    "beta ai custom-jobs cancel {running_too}",
    "config configurations activate nope",
    "config configurations delete nope --quiet",
    "config configurations create default",
    "config configurations describe nope",
    "config configurations list",
    "config configurations list --format='value(name,is_active)'",
    "config get project",
    "config get-value ai/region",
]

# Not sorted: --sort-by adds its key to what json(...) and yaml(...) show in gcloud.
FORMATS = [f"{LIST} --filter='displayName=(alpha gamma) OR error:*' --format={shlex.quote(text)}" for text in (
    "json", "yaml", "default", "none", "disable", "list", "text", "flattened", "json(name,state)", "json(name.basename())",
    "yaml(displayName,jobSpec.workerPoolSpecs[0].replicaCount)", "json(nope)",
    "json(jobSpec.workerPoolSpecs[].replicaCount,displayName)", "text(displayName,state)",
    "list(displayName)", "list(displayName,state)",
    "table(name.basename(),displayName,state)", "table[box](displayName,state)", "table[box,no-heading](displayName,state)",
    "table[no-heading](displayName:label=NAME,state:sort=1)",
    "table(displayName:label=WHO:sort=1:reverse,createTime.date('%Y'):label=YEAR,labels.list(),"
    "jobSpec.workerPoolSpecs.len():label=POOLS)",
    "value(name.basename())", "value(displayName,labels)", "value(labels.team)", "value(nope,displayName)",
    "value[separator=' '](displayName,state)", "get(displayName)", "csv(displayName,state)", "csv[no-heading](displayName)",
    "value(jobSpec.workerPoolSpecs[0].containerSpec)", "value(jobSpec.workerPoolSpecs)", "value(display_name)",
    "value(jobSpec.workerPoolSpecs[0].containerSpec.command.join(' '))", "value(jobSpec.workerPoolSpecs[].replicaCount.list())",
    "value(name.segment(1),name.segment(-2),displayName.len())", "value(createTime.date())",
    "value(createTime.date('%Y-%m-%d %H:%M'))", "value(createTime.date(tz=LOCAL))", "value(displayName.upper(),state.lower())",
    "value(displayName.yesno(yes=Y,no=N),error.message.yesno(no=fine))", "value(labels.list(separator='|'))",
    "value(nope.basename(undefined=none))", "value(name.basename().len())",
    "table[title='My jobs'](displayName,state)", "table[title='a title that is longer than all of the rows of its table'](state)",
    "table[box,title='My jobs'](displayName,state)", "table[all-box](displayName,labels.team)", "table[pad=4](displayName,labels.team)",
    "table[box](displayName:label=ODD,state,name.basename():label=EVEN)", "table(displayName,jobSpec.workerPoolSpecs[].replicaCount)",
    "table(displayName:align=right,state:align=center:wrap,nope:optional,error.code:optional,labels.team:alias=t)",
    "csv[quote](displayName,state)", "value[quote](displayName,error.message)", "json[no-undefined](displayName,nope)",
    "value[delimiter='|',terminator='\\n\\n'](displayName,jobSpec.workerPoolSpecs[].replicaCount)",
    "value(firstof(nope,displayName),labels.firstof(zz,team))", "table(firstof(nope,displayName),state)",
    "value(displayName.sub('A','X'),displayName.sub('(a)','<\\1>',1),displayName.sub(a,X,0,false))",
    "value(name.split('/'),name.split('/').slice(1:3),displayName.slice(-2:),name.split().slice(2))",
    "value(format('{{0}} is {{1}}',displayName,state))", "value(displayName.format('<{{0}}>'))",
    "value(createTime.date(format='%Y-%m-%d %H',tz=America/New_York),createTime.date(tz=EST5EDT),nope.date(undefined=never))")
]

FILTERS = [f"{BY_NAME} --format='value(displayName)' --filter={shlex.quote(text)}" for text in (
    "displayName=alpha", "displayName=ALPHA", "displayName:alph*", "displayName:*a", "displayName~^al", "displayName!~^al",
    "displayName~'a$'", "NOT displayName=alpha", "-displayName=alpha", "displayName!=alpha", "displayName=(alpha OR gamma)",
    "displayName=(alpha gamma)", "displayName=alpha OR displayName=gamma", "displayName=alpha displayName=gamma",
    "displayName=alpha AND state=JOB_STATE_SUCCEEDED", "displayName=alpha OR displayName=gamma state:SUCC*",
    "(displayName=alpha OR displayName=gamma) AND labels.team=x", "labels.team=x", "labels.team:*", "labels:*", "labels:team",
    "labels=x", "state=JOB_STATE_FAILED", "state=job_state_failed", "createTime>2020-01-01", "createTime>-P1D",
    "createTime<-P1D", "createTime<2020-01-01T00:00:00Z", "createTime>='2020-01-01 10:00:00'", "alpha", "beta", "nothere",
    "jobSpec.workerPoolSpecs.replicaCount>1", "jobSpec.workerPoolSpecs[1].replicaCount=2", "name:customJobs*",
    'displayName="beta job"', "displayName='beta job'", "error.code>0", "error:*", "NOT (displayName=alpha OR error:*)",
    "displayName<b", "displayName>=b", "displayName.split(' ').len()>1", "displayName.slice(0:1)=g",
    "displayName=(alpha,gamma)", "displayName=(alpha, gamma)", "displayName=('alpha','beta job')", "labels.team=(x,y)",
    "error.code=(1,3)", "state=(JOB_STATE_FAILED,JOB_STATE_CANCELLED)", "displayName:(alp*, gam*)",
    "displayName.len()>5", "createTime.date('%Y')>2000", "name.basename().len()>3 displayName=alpha")
]

LISTS = [
    f"{BY_NAME} --format='value(displayName)' --limit=2", f"{LIST} --sort-by=~displayName --format='value(displayName)'",
    f"{LIST} --sort-by=state,~displayName --format='value(displayName)'", f"{LIST} --sort-by=bogus --format='value(displayName)'",
    f"{LIST} --sort-by=error.code,displayName --format='value(displayName)'", f"{LIST} --sort-by=~error.code --format='value(displayName)'",
    # Not labels.team upwards: gcloud cannot sort by a label and leaves the order as it was.
    f"{LIST} --sort-by=~labels.team,displayName --format='value(displayName)'",
    f"{LIST} --sort-by=~error.code,displayName --format='table(displayName)'", f"{LIST} --sort-by=labels.team,~displayName --format='table(displayName)'",
    f"{BY_NAME} --limit=unlimited --page-size=unlimited --format='value(displayName)'",
    f"{LIST} --filter=displayName=nobody --format='table(displayName)'", f"{LIST} --filter=displayName=nobody --format='csv(displayName)'",
    f"{LIST} --page-size=1 --format='value(displayName)'", f"{LIST} --limit 1 --format 'value(displayName)'",
    f"--project=trainyard {BY_NAME} --format='value(displayName)'", f"ai --project trainyard custom-jobs list --limit=1 --format=json",
    f"beta {BY_NAME} --format='value(displayName)'", f"alpha {BY_NAME} --format='value(displayName)'",
    f"{BY_NAME} --format='value(displayName)' -q", f"{BY_NAME} --format='value(displayName)' --account=me@x.y",
    f"{BY_NAME} --format='value(displayName)' --configuration=default", f"{BY_NAME} --format='value(displayName)' --billing-project=p",
    f"{BY_NAME} --format='value(displayName)' --verbosity=error --trace-token=t",
    f"{LIST} --flatten=jobSpec.workerPoolSpecs --format='value(displayName,jobSpec.workerPoolSpecs.replicaCount)' --filter=displayName=gamma",
    f"{LIST} --flatten='jobSpec.workerPoolSpecs[]' --format='json(displayName,jobSpec.workerPoolSpecs.replicaCount)' --filter=displayName=gamma",
    "ai custom-jobs describe {a} --format='table(displayName,state)'", "ai custom-jobs describe {a} --format=text",
    "ai custom-jobs describe {a} --format='list(displayName,state)'", "ai custom-jobs describe --format=json {a}",
]

CREATES = [
    f"{CREATE} --format='value(displayName,jobSpec.workerPoolSpecs[0].containerSpec)' --args=a --args=b",
    f"{CREATE} --format='value(jobSpec.workerPoolSpecs[0].containerSpec)' --command=^:^a:b --args=^--^a,b--c",
    f"{CREATE} --format='value(labels)' --labels=a=b --labels=c=d", f"{CREATE} --format='value(displayName)' --display-name=y",
    f"{CREATE} --format='value(jobSpec.enableWebAccess,jobSpec.network,jobSpec.serviceAccount)' --enable-web-access"
    " --network=n --service-account=s@x.y", f"{CREATE} --format='value(jobSpec)' --persistent-resource-id=p --region=europe-west4",
    f"{CREATE} --kms-key=projects/p/locations/us-central1/keyRings/r/cryptoKeys/k --format='value(encryptionSpec.kmsKeyName)'",
    f"{CREATE} --kms-key=k --kms-keyring=r --kms-location=us-central1 --kms-project=p --format='value(encryptionSpec.kmsKeyName)'",
    f"{CREATE} --format='value(jobSpec.workerPoolSpecs)' --worker-pool-spec=machine-type=e2-standard-4,replica-count=2,container-image-uri=host",
    f"{CREATE} --format='value(jobSpec.workerPoolSpecs)' --worker-pool-spec= --worker-pool-spec=machine-type=e2-standard-4,container-image-uri=host",
    "ai custom-jobs create --display-name=x --command=true --format='value(jobSpec.workerPoolSpecs[0].machineSpec)' "
    "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=host,machine-type=e2-standard-4",
    "ai custom-jobs create --display-name=x --command=true --format='value(jobSpec.workerPoolSpecs[0].machineSpec)' "
    "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=host,accelerator-type=NVIDIA_TESLA_T4",
]

# Wrong use and errors: only the exit status is the same, the words are our own.
WRONG = [
    "ai custom-jobs create", "ai custom-jobs create --display-name=x", f"ai custom-jobs create {HOST}",
    f"ai custom-jobs create --display-name= {HOST}", f"{CREATE} extra", f"{CREATE} --bogus", f"{CREATE} --labels=a",
    f"{CREATE} --kms-key=k", f"{CREATE} --kms-keyring=k", f"{CREATE} --config=/nowhere/x.yaml",
    "ai custom-jobs create --display-name=x --config=/nowhere/x.yaml", f"{CREATE} --worker-pool-spec=machine-type=x",
    f"{CREATE} --worker-pool-spec=machine-type=x,container-image-uri=host,bogus=1",
    f"{CREATE} --worker-pool-spec=machine-type=x,container-image-uri=host,replica-count=x",
    f"{CREATE} --worker-pool-spec=machine-type=x,container-image-uri=host,python-module=a",
    f"{CREATE} --worker-pool-spec=machine-type=x,executor-image-uri=host", f"{CREATE} --worker-pool-spec=container-image-uri=host",
    f"{CREATE} --worker-pool-spec=machine-type=x,container-image-uri=host,accelerator-count=1",
    f"{CREATE} --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=host,accelerator-type=x",
    "ai custom-jobs create --display-name=x --worker-pool-spec= --command=true", f"{CREATE} --display-name",
    f"{LIST} --limit=0", f"{LIST} --limit=-1", f"{LIST} --limit=x", f"{LIST} extra", f"{LIST} --filt=x", f"{LIST} --filter='('",
    f"{LIST} --filter='displayName='", f"{LIST} --filter='a=1)'", f"{LIST} --filter='displayName=(a,)'",
    f"{LIST} --filter='displayName~(a|b)'", f"{LIST} --filter='a=1 OR b=1 AND c=1'", f"{LIST} --filter='name.bogus()=1'",
    f"{LIST} --filter='name.len()'", f"{LIST} --verbosity=bogus", f"{LIST} --project=Bad_Project",
    f"{LIST} --impersonate-service-account=a@b.c", "ai custom-jobs describe", "ai custom-jobs describe 1",
    "ai custom-jobs describe {a_id} extra", "ai custom-jobs describe {a_id} -- x",
    "ai custom-jobs describe 1 --no-user-output-enabled", "ai custom-jobs cancel", "ai custom-jobs cancel 1",
    "ai custom-jobs cancel {a}", "ai custom-jobs stream-logs", "ai custom-jobs stream-logs 1", "ai custom-jobs bogus", "ai custom-jobs",
    "config configurations create Bad_Name", "config configurations activate", "config set project", "config set project BAD_NAME",
    "config set project bad-",
]

# (words, gcloud's exit status, ours): where we differ, and why.
DIFFERENT = [
    # A format that is none is seen before anything is done; gcloud has made the job by then.
    (f"{LIST} --format=bogus", 1, 2), (f"{LIST} --format='value('", 1, 2), (f"{LIST} --format='value(name.bogus())'", 1, 2),
    # Any region is a region here; gcloud knows 38 names.
    (f"{CREATE} --region=mars", 1, 0),
    # --flag=true is taken for every switch.
    (f"{CREATE} --enable-web-access=true", 2, 0),
    # A label is checked by the server, which names the rule; gcloud looks at it while it reads flags.
    (f"{CREATE} --labels=A=b", 2, 1),
    # What cannot be the name of a job is wrong use here; gcloud asks the server for it.
    ("ai custom-jobs describe a/b/c", 1, 2),
    # A property that is none of ours is the real gcloud's business, and there is none on this PATH.
    ("config get nope/nope", 1, 2),
]


@pytest.fixture(scope="module")
def as_gcloud(shared_yard, tmp_path_factory):
    link = tmp_path_factory.mktemp("shim") / "gcloud"
    link.symlink_to(BINARY)
    # Nothing else of that name is on PATH: what we do not do ourselves shows.
    return lambda *words: shared_yard.run(link, *words, environment={"PATH": str(link.parent)})


@pytest.fixture(scope="module")
def names(shared_yard):
    made = {"a": shared_yard.create("sh", "-c", "echo hi", display_name="alpha", labels={"team": "x", "env": "p"}),
            "b": shared_yard.create("false", display_name="beta job"),
            "c": shared_yard.create("true", display_name="gamma", pools=[shared_yard.pool("true"), shared_yard.pool("true", replicas=2)])}
    for name in made.values():
        shared_yard.wait(name)
    return {**made, "a_id": made["a"].rsplit("/", 1)[1]}


@pytest.fixture
def both(warm_gcloud, as_gcloud, names, shared_yard):
    def both(line):
        results = []
        for run in (warm_gcloud, as_gcloud):
            running = {key: shared_yard.create("sleep", "600") for key in ("running", "running_too") if "{%s}" % key in line}
            result = run(*shlex.split(line.format(**names, **running) if "{" in line else line))
            result.stdout, result.stderr = (re.sub(r"customJobs/\d+", "customJobs/N", text) for text in (result.stdout, result.stderr))
            results.append(result)
            for name in running.values():
                shared_yard.call("POST", f"/v1/{name}:cancel", {})
            if " create " in line or running:  # or a state, which lists show, could change between the two
                shared_yard.wait_for(lambda: all(job["state"] in FINAL for job in shared_yard.list()), 60, "the line's jobs to end")
        return results
    return both


def complain(line, theirs, ours, what):
    return f"== {line}: {what}\n-- gcloud: exit {theirs.returncode}\n{theirs.stdout}{theirs.stderr}\n-- ours: exit {ours.returncode}\n{ours.stdout}{ours.stderr}"


def check(both, lines, parts):
    wrong = []
    for line in lines:
        theirs, ours = both(line)
        bad = [part for part in parts if getattr(theirs, part) != getattr(ours, part)]
        if bad:
            wrong.append(complain(line, theirs, ours, " and ".join(bad)))
    assert not wrong, f"{len(wrong)} of {len(lines)}:\n" + "\n".join(wrong)


def test_status_lines(both):
    check(both, EXACT, ("returncode", "stdout", "stderr"))


@pytest.mark.parametrize("lines", [FORMATS, FILTERS, LISTS], ids=["formats", "filters", "lists"])
def test_lists(both, lines):
    check(both, lines, ("returncode", "stdout"))


def test_creates(both):
    check(both, CREATES, ("returncode", "stdout"))


def test_wrong_use(both):
    check(both, WRONG, ("returncode",))


def test_where_we_differ(both):
    for line, theirs, ours in DIFFERENT:
        results = both(line)
        assert [r.returncode for r in results] == [theirs, ours], complain(line, *results, "not as DIFFERENT has it")
