"""A job named by some digits of its id or by its display name, wherever JOB is taken."""
import json


def run(yard, *words, expect=0):
    result = yard.trainyard(*words)
    assert result.returncode == expect, result.stderr
    return result


def test_digits_names_and_what_is_ambiguous(shared_yard):
    jobs = [shared_yard.create("echo", "hello", display_name=name) for name in ("alone", "twice", "twice")]
    ids = [job.rsplit("/", 1)[1] for job in jobs]
    for job in jobs:
        shared_yard.wait(job)
    # The clock makes ids; find digits that only the first one ends with.
    digits = next(ids[0][-n:] for n in range(4, 20) if not any(i.endswith(ids[0][-n:]) or i.startswith(ids[0][-n:]) for i in ids[1:]))
    for word in (digits, "alone", ids[0], jobs[0]):
        described = json.loads(run(shared_yard, "ai", "custom-jobs", "describe", word, "--format=json").stdout)
        assert described["name"] == jobs[0]
        assert "SUCCEEDED" in run(shared_yard, "why", word).stdout
        assert "hello" in run(shared_yard, "ai", "custom-jobs", "stream-logs", word).stdout
    newest = run(shared_yard, "ai", "custom-jobs", "describe", "twice", "--format=value(name)")
    assert newest.stdout.strip() == jobs[2] and "2 jobs are named 'twice'" in newest.stderr
    shared = ids[0][:4]
    errors = run(shared_yard, "ai", "custom-jobs", "describe", shared, expect=1).stderr
    assert all(i in errors for i in ids) and "twice" in errors
    assert run(shared_yard, "ai", "custom-jobs", "describe", shared, expect=1).stdout == ""
    errors = run(shared_yard, "ai", "custom-jobs", "describe", "no-such-job", expect=1).stderr
    assert "NOT_FOUND" in errors and "'no-such-job'" in errors and "us-central1" in errors


def test_cancel_by_name_and_names_with_odd_characters(shared_yard):
    name = shared_yard.create("sleep", "600", display_name="to be stopped? 50%")
    shared_yard.wait(name, "JOB_STATE_RUNNING")
    run(shared_yard, "ai", "custom-jobs", "cancel", "to be stopped? 50%")
    assert shared_yard.wait(name)["state"] == "JOB_STATE_CANCELLED"
