"""Job files as people write them (yamls/corpus.py), given to real gcloud and to our command on the same yard: both
take them or both refuse them, and what was taken is the same job. gcloud is the judge, asked each time."""
import re

from yamls.corpus import CORPUS

# Where we differ on purpose: name -> (gcloud takes it, we take it), and why. There is nothing: a file that gcloud
# refuses, for tabs, dates or snake_case inside camelCase, is refused here too, with a message that says so.
DIFFERENT = {}
NORMAL_COUNT = 100  # --long takes all of them


def outcome(result, yard):
    """None for a refusal, else what the server was given."""
    name = re.search(r"CustomJob \[(projects/[^\]]+)\] is submitted successfully", result.stderr)
    assert (name is not None) == (result.returncode == 0), result.stderr
    return yard.describe(name[1])["jobSpec"] if name else None


def test_same_verdict_and_same_job(shared_yard, warm_gcloud, tmp_path, rng, long):
    chosen = CORPUS if long else rng.sample(CORPUS, NORMAL_COUNT)
    wrong = []
    for name, text in chosen:
        path = tmp_path / "job.yaml"
        path.write_bytes(text.encode("latin-1" if name == "binary" else "utf-8"))
        words = ("ai", "custom-jobs", "create", "--display-name=yaml", f"--config={path}")
        theirs, ours = warm_gcloud(*words), shared_yard.trainyard(*words)
        assert ours.returncode in (0, 1, 2), f"{name}: ended with {ours.returncode}\n{ours.stderr}"
        verdicts = outcome(theirs, shared_yard), outcome(ours, shared_yard)
        taken = tuple(v is not None for v in verdicts)
        if taken != DIFFERENT.get(name, taken) or (name not in DIFFERENT and verdicts[0] != verdicts[1]):
            wrong.append(f"== {name}\n{text}\n-- gcloud: {verdicts[0]}\n{theirs.stderr}\n-- ours: {verdicts[1]}\n{ours.stderr}")
        elif name in DIFFERENT and taken[0] == taken[1]:
            wrong.append(f"== {name}: is in DIFFERENT, but both say {taken[0]}")
    print(f"{len(chosen)} of {len(CORPUS)} files, {len(DIFFERENT)} different on purpose")
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong)
