"""fork_server.py -- a client of Google's, loaded once: each call is a fork of this warm process (0.2 s instead of 2 to 5).

Run by the SDK's own Python, through gcloud_fork.py and gsutil_fork.py. A request is a JSON line on stdin, {"argv": [...],
"stdout": path, "stderr": path, "stdin": path, "cwd": path, "environment": {...}}; the answer is the exit status on a line.
Every call is a process of its own that starts from the same memory, so nothing of one call is seen by the next.
"""
import atexit
import gc
import json
import os
import sys
from multiprocessing import process, util


def redirect(request):
    for fd, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
                            (2, "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        opened = os.open(request.get(name, os.devnull), flags, 0o600)
        os.dup2(opened, fd)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(fd, mode) for fd, mode in ((0, "r"), (1, "w"), (2, "w")))
    os.environ.update(request.get("environment", {}))
    os.chdir(request.get("cwd", "."))


def run(main, argv):
    sys.argv = [sys.argv[0], *argv]
    try:
        status = main()
        return status if isinstance(status, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def in_fork(request, prepare, main):
    pid = os.fork()
    if pid == 0:
        status = 99  # ours, for what the client itself did not end
        try:
            process._children.clear()  # those of the warm process are not this one's to end
            util._finalizer_registry.clear()
            redirect(request)
            prepare()
            status = run(main, request["argv"])
            atexit._run_exitfuncs()  # ends the helpers that multiprocessing began
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def warm_up(main, words):
    """Load what every call of the tests needs, once."""
    saved, nowhere = [os.dup(fd) for fd in (1, 2)], os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    run(main, words)
    for fd, old in zip((1, 2), saved):
        os.dup2(old, fd)


def serve(prepare, main):
    gc.freeze()  # what is there stays shared: a fork that collects garbage would copy all of it
    print("ready", flush=True)
    for line in sys.stdin:
        print(in_fork(json.loads(line), prepare, main), flush=True)
