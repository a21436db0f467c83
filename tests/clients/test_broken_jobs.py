"""test_broken_jobs.py -- a hundred ways a job can be broken: each ends in the right state, with a message to act on.

A row of ROWS is one broken job:

    name        what is wrong with it
    command     what it runs, on image 'host' (or `pools`: several worker pools)
    state, code how it must end: the last word of its state, or REFUSED at submit; google.rpc.Code of its error
    message     a regular expression that its error message matches: what happened, then what to do
    log         one that some line of its log matches, where the message is not the place to say it

All rows run at once, in one yard, when the first test asks for them; then each is a test of its own. Signals restart a
replica in place and crashes try the whole job again, so most rows switch that off; those that are about it do not.
A kill for want of memory, which needs a control group, is in test_usage.py."""
import concurrent.futures
import json
import re
import signal
import time

import pytest
from yard import FINAL, PARENT, Yard, processes_of

CANCELLED, INVALID, DEADLINE = 1, 3, 4
SETTINGS = {"grace_ms": 500, "log_limit_bytes": 20_000_000}


class Row:
    def __init__(self, name, command, message="", state="FAILED", code=None, log=None, pools=None, retries=False,
                 timeout=None, max_wait=None, cancel=False, env=None, narrow=False, files=None, spec=None):
        self.name, self.command, self.message, self.state, self.log = name, command, message, state, log
        self.code = {"FAILED": INVALID, "CANCELLED": CANCELLED}.get(state) if code is None else code
        self.pools, self.retries, self.timeout, self.max_wait = pools, retries, timeout, max_wait
        self.cancel, self.env, self.narrow, self.files, self.spec = cancel, env, narrow, files or {}, spec or {}

    def body(self, yard, folder):
        here = folder / re.sub(r"\W+", "-", self.name)
        here.mkdir(exist_ok=True)
        for name, (text, mode) in self.files.items():
            (here / name).write_bytes(text)
            (here / name).chmod(mode)

        def words(command):
            return [word.replace("{here}", str(here)) for word in command]
        pools = [yard.pool(*words(command), replicas=count) for command, count in self.pools or [(self.command, 1)]]
        if self.env:
            pools[0]["containerSpec"]["env"] = [{"name": k, "value": v} for k, v in self.env.items()]
        scheduling = {"disableRetries": True} if not self.retries else {}
        if self.timeout:
            scheduling["timeout"] = self.timeout
        if self.max_wait:
            scheduling["maxWaitDuration"] = self.max_wait
        return yard.job(pools=pools, display_name=self.name, scheduling=scheduling, **self.spec)


def py(code):
    return ["python3", "-c", code]


def sh(script):
    return ["sh", "-c", script]


def status(number, hint=""):
    return rf"^The replica workerpool0-0 exited with a non-zero status of {number}\. {hint}"


def killed(number, name, hint=""):
    return rf"^The replica workerpool0-0 was ended by signal {number} \(SIG{name}\)\. {hint}"


def unstarted(why, hint):
    return rf"^The replica workerpool0-0 could not be started: '.*': {why}\. {hint}"


def die(name):
    return py(f"import os, signal; os.kill(os.getpid(), signal.SIG{name})")


FOREVER = "while :; do sleep 1; done"
STUBBORN = f"trap '' TERM; echo stubborn; {FOREVER}"
ARGUMENTS = ("import argparse; p = argparse.ArgumentParser(); p.add_argument('--epochs', type=int, required=True);"
             "p.add_argument('--optimizer', choices=['sgd', 'adam']); p.parse_args()")

PYTHON = [
    Row("missing module", py("import nosuchmodule"), status(1, "Its Python has no module 'nosuchmodule': install")),
    Row("missing submodule", py("import os.nosuch"), status(1, "Its Python has no module 'os.nosuch'")),
    Row("missing -m module", ["python3", "-m", "trainer.task"], status(1, "Its Python has no module 'trainer': python -m takes")),
    Row("name not in module", py("from os import nosuch"), status(1, "The module that is installed has no 'nosuch'")),
    Row("import error of a library", py("raise ImportError('libx.so.1: cannot open shared object file')"), status(1, "A library it needs is not installed")),
    Row("import error in its own words", py("raise ImportError('numpy is too old.')"), status(1, "Python could not load a module: numpy is too old")),
    Row("syntax error", py("print('x'"), status(1, r"The program is not valid Python \('\(' was never closed\): python3 -m py_compile")),
    Row("syntax error in a file", ["python3", "{here}/task.py"], status(1, "The program is not valid Python"), files={"task.py": (b"def f(:\n", 0o644)}),
    Row("indentation error", py("if True:\npass"), status(1, "The program is not valid Python")),
    Row("tab error", ["python3", "{here}/task.py"], status(1, "The program is not valid Python .*tabs"),
        files={"task.py": (b"if 1:\n        x = 1\n\ty = 2\n", 0o644)}),
    Row("unknown argument", [*py(ARGUMENTS), "--epochs=1", "--epoch-count=3"], status(2, "The program does not know --epoch-count=3: compare the job's args")),
    Row("required argument missing", py(ARGUMENTS), status(2, "The job's args lack --epochs: add it")),
    Row("argument of another type", [*py(ARGUMENTS), "--epochs=many"], status(2, "The value given for --epochs is not one it takes")),
    Row("argument not a choice", [*py(ARGUMENTS), "--epochs=1", "--optimizer=magic"], status(2, "The value given for --optimizer")),
    Row("script that is not there", ["python3", "/no/such/task.py"], status(2, "There is no such file: a job runs in a new folder of its own, so give the program's full path")),
    Row("script by a relative path", ["python3", "task.py"], status(2, "There is no such file: .*full path")),
    Row("folder as a script", ["python3", "/usr"], status(1, "'/usr' is a folder without a __main__.py: name the file")),
    Row("data file not there", py("open('data/train.csv')"), status(1, "'data/train.csv' is not there: .*give full paths")),
    Row("file it may not read", py("raise PermissionError(13, 'Permission denied', '/data/x')"), status(1, "It may not open '/data/x': jobs run as the user")),
    Row("folder opened as a file", py("open('/tmp')"), status(1, "A file was expected where there is a folder")),
    Row("division by zero", py("1 / 0"), status(1, "Its own code raised that error: the last lines show where.*(?s:.)*ZeroDivisionError")),
    Row("key error", py("{}['label']"), status(1, "Its own code raised that error(?s:.)*KeyError: 'label'")),
    Row("failed assertion", py("assert 1 == 2, 'shapes differ'"), status(1, "Its own code raised(?s:.)*shapes differ")),
    Row("deep recursion", py("def f(n): return f(n + 1)\nf(0)"), status(1, "A function calls itself without an end")),
    Row("memory error", py("import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28)); bytearray(1 << 30)"),
        status(1, "It asked for more memory than it may have: use smaller batches")),
    Row("undecodable file", py("b'\\xff\\xfe'.decode()"), status(1, "It read bytes that are not in the encoding")),
    Row("unprintable text", py("print('größe')"), status(1, "It printed characters its output cannot take: set PYTHONIOENCODING"), env={"PYTHONIOENCODING": "ascii"}),
    Row("exception with unicode", py("raise ValueError('größe 大きさ')"), status(1, "(?s:.)*ValueError: größe 大きさ")),
    Row("exit with a message", py("import sys; sys.exit('no training data in gs://x')"), status(1, "(?s:.)*no training data in gs://x")),
    Row("exit with a number", py("import sys; sys.exit(3)"), status(3, "The status is the program's own: .*stream-logs")),
    Row("exit without clean-up", py("import os; os._exit(4)"), status(4, "The status is the program's own")),
    Row("exit status -1", py("import sys; sys.exit(-1)"), status(255, "The status is the program's own")),
    Row("keyboard interrupt", py("raise KeyboardInterrupt"), killed(2, "INT", "Nobody but the job itself, or somebody at this machine")),
    Row("interrupt that is caught", py("import sys\ntry: raise KeyboardInterrupt\nexcept KeyboardInterrupt: print('\\nKeyboardInterrupt'); sys.exit(1)"), status(1, "It was interrupted")),
    Row("error in a thread only", py("import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()"), state="SUCCEEDED", log="ZeroDivisionError"),
    Row("hanging atexit", py("import atexit, time; atexit.register(time.sleep, 1000); print('trained', flush=True)"),
        r"reached its timeout and was stopped, .*Still running: workerpool0-0\. Raise scheduling\.timeout(?s:.)*trained", code=DEADLINE, timeout="20s"),
    Row("thread that never ends", py("import threading, time; threading.Thread(target=time.sleep, args=(1000,)).start()"), "reached its timeout", code=DEADLINE, timeout="2s"),
    Row("reads standard input", py("input()"), status(1, "Its own code raised that error(?s:.)*EOFError")),
    Row("unpicklable worker", py("import multiprocessing as m; m.get_context('spawn').Process(target=lambda: 0).start()"), status(1, "Its own code raised(?s:.)*pickle")),
    Row("closed by itself", py("import os; os.close(1); os.close(2); os.close(0); os.write(1, b'x')"), status(1)),
    Row("too many open files", py("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)); x = [open('/dev/null') for _ in range(99)]"),
        status(1, "It ran out of file descriptors: close files, or raise")),
    Row("port taken", py("import os, socket; a = [socket.socket() for _ in '12']; [s.bind(('127.0.0.1', int(os.environ['MASTER_PORT']))) for s in a]"),
        status(1, "Its port is taken: use the one that is given to this replica in TF_CONFIG")),
    Row("nobody listens", py("import os, socket; socket.create_connection(('127.0.0.1', int(os.environ['MASTER_PORT'])))"),
        status(1, r"Nobody listened there \(yet\): replicas start at the same time")),
    Row("working folder removed", py("import os; os.rmdir(os.getcwd()); open('model', 'w')"), status(1, "'model' is not there: ")),
]

COMMANDS = [
    Row("command not found", ["no-such-command"], unstarted("No such file or directory", "There is no such program: image 'host' runs the programs of this machine, by the PATH")),
    Row("path not found", ["/opt/no/such/program"], unstarted("No such file or directory", "There is no such program")),
    Row("whole command line in one word", ["python3 train.py --epochs 3"], unstarted("No such file or directory", "There is no such program")),
    Row("interpreter not there", ["{here}/run"], unstarted("No such file or directory", r".*first line \(#!\) must be there"), files={"run": (b"#!/no/such/bash\n", 0o755)}),
    Row("script written on Windows", ["{here}/run"], unstarted("No such file or directory", r".*first line \(#!\)"), files={"run": (b"#!/bin/sh\r\necho x\r\n", 0o755)}),
    Row("not executable", ["{here}/run"], unstarted("Permission denied", r"It is a folder, or not marked as a program: chmod \+x"), files={"run": (b"#!/bin/sh\n", 0o644)}),
    Row("folder as a command", ["/tmp"], unstarted("Permission denied", "It is a folder")),
    Row("file as a folder", ["/etc/passwd/x"], unstarted("Not a directory", "A part of that path is a file")),
    Row("endless link", ["{here}/loop"], unstarted("Too many levels of symbolic links", "That path is a link that leads to itself")),
    Row("name no file can have", ["/" + "x" * 300], unstarted("File name too long", "That is no name a file can have")),
    Row("no program at all", ["{here}/run"], status(r"(2|126|127)", ""), files={"run": (b"\x7fELF\0\0junk\n", 0o755)}),
    Row("arguments too long", ["echo", *("x" * 100_000 for _ in range(60))], "has more than 100000 bytes in all", state="REFUSED"),
    Row("environment too long", ["true"], r"env\[0\]\.value: must be at most 32768 bytes, not 100000", state="REFUSED", env={f"V{i}": "x" * 100_000 for i in range(60)}),
    Row("environment at its ceiling", ["no-such"], "No such file|too long", state="REFUSED|FAILED", env={f"V{i}": "x" * 32_000 for i in range(30)}),
    Row("empty command", [""], "workerPoolSpecs.*command|No such file", state="REFUSED|FAILED"),
    Row("shell: command not found", sh("no-such-command"), status(127, "127 is a shell's word for a command that was not found: .*full path")),
    Row("shell: not executable", sh("/etc/passwd"), status(126, r"126 is a shell's word for a file that cannot be run: chmod \+x")),
    Row("shell: syntax error", sh("if true; then"), status(2, "Many programs end with 2 when their arguments are wrong")),
    Row("shell: unset variable", sh("set -u; echo $NO_SUCH_VARIABLE"), status(2, "(?s:.)*NO_SUCH_VARIABLE")),
    Row("shell: cannot change folder", sh("set -e; cd /no/such/folder"), status(2, "(?s:.)*/no/such/folder")),
    Row("environment name with '='", ["true"], r"env\[0\]\.name", state="REFUSED|FAILED", env={"A=B": "x"}),
    Row("no replicas", None, "replicaCount", state="REFUSED", pools=[(["true"], 0)]),
    Row("timeout that is none", ["true"], "timeout", state="REFUSED", timeout="soon"),
]

STATUSES = [Row(f"exit status {n}", sh(f"exit {n}"), status(n, hint)) for n, hint in (
    (1, "The status is the program's own"), (2, "Many programs end with 2"), (3, "The status is the program's own"),
    (6, "The status is the program's own"), (11, "The status is the program's own"), (124, r"124 is how timeout\(1\)"), (126, "126 is"), (127, "127 is"),
    (130, "130 is a shell's word for SIGINT"), (134, "134 is a shell's word for an abort"), (137, r"137 is a shell's word for SIGKILL .*memory"),
    (139, "139 is a shell's word for a segmentation fault"), (143, "143 is a shell's word for SIGTERM"), (255, "The status is the program's own"))]

SIGNALS = [Row(f"dies of SIG{name}", die(name), killed(getattr(signal, f"SIG{name}"), name, hint)) for name, hint in (
    ("SEGV", "It used memory that is not its own: PYTHONFAULTHANDLER=1"), ("ABRT", "A check inside the program"), ("BUS", r"It used a part of a file.*/dev/shm"),
    ("FPE", "It divided a whole number by zero"), ("ILL", "This CPU does not know an instruction"), ("KILL", r"It was killed from outside, or by the kernel for want of memory"),
    ("TERM", "Something told it to stop"), ("XCPU", r"It used up its CPU time \(ulimit -t\)"), ("SYS", "It made a system call that is not allowed"),
    ("TRAP", "Nobody but"), ("HUP", "Nobody but"), ("QUIT", "Nobody but"), ("USR1", "Nobody but"), ("VTALRM", "Nobody but"))] + [
    Row("segfault in native code", py("import ctypes; ctypes.string_at(0)"), killed(11, "SEGV", "It used memory that is not its own")),
    Row("native stack overflow", sh("ulimit -s 512; exec python3 -c \"import sys; sys.setrecursionlimit(10**9)\nclass A: __getattr__ = lambda s, n: getattr(s, n)\nA().x\""),
        killed(11, "SEGV", ".*a recursion that is too deep looks the same")),
    Row("abort with words", py("import os; os.write(2, b'terminate called: bad shape\\n'); os.abort()"), killed(6, "ABRT", "A check inside(?s:.)*bad shape")),
    Row("its own alarm", py("import signal, time; signal.alarm(1); time.sleep(100)"), killed(14, "ALRM", "An alarm it had set itself went off")),
    Row("CPU limit", sh("ulimit -S -t 1; while :; do :; done"), killed(24, "XCPU", "It used up its CPU time")),
    Row("file size limit", sh("ulimit -f 8; exec python3 -c \"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); open('x', 'wb').write(b'x' * 10**6)\""),
        killed(25, "XFSZ", "It wrote a file past the allowed size")),
    Row("pipe that nobody reads", py("import os, signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); r, w = os.pipe(); os.close(r); os.write(w, b'x')"),
        killed(13, "PIPE", "It wrote to a pipe that nobody read")),
    Row("crash tried again", die("SEGV"), r"^After 3 retries of the whole job: The replica workerpool0-0 was ended by signal 11", retries=True),
    Row("killed again and again", die("KILL"), r"^(After 3 retries of the whole job: )?The replica workerpool0-0 was ended by signal 9 \(SIGKILL\) after 5 restarts\. It was killed", retries=True,
        log=r"Restarting it \(5 of 5\)"),
]

OUTPUT = [
    Row("no newline at the end", sh("printf 'the reason'; exit 1"), status(1, "(?s:.)* Its last lines:\nthe reason$")),
    Row("NUL bytes", sh("printf 'a\\0b\\n'; exit 1"), status(1, "(?s:.)*a b$")),
    Row("invalid UTF-8", sh("printf 'caf\\351\\n'; exit 1"), status(1, "(?s:.)*caf.$")),
    Row("binary garbage", sh("head -c 200000 /dev/urandom; exit 1"), status(1)),
    Row("terminal escapes", sh("printf '\\033[31mred\\033[0m\\n'; exit 1"), status(1, r"(?s:.)*\[31mred \[0m$")),
    Row("one endless line", py("import sys; sys.stdout.write('x' * 3_000_000); sys.exit(1)"), status(1, "(?s:.)*x{1000}$")),
    Row("a hundred megabytes of log", py("import sys; line = 'x' * 9999 + '\\n'\nfor _ in range(10_000): sys.stdout.write(line)"),
        state="SUCCEEDED", log=r"has written \d+ bytes, its limit: what it writes from here on is dropped \(log_limit_bytes\)"),
    Row("nothing printed", sh("exec >&- 2>&-; exit 5"), status(5, "The status is the program's own: .*stream-logs' shows all that it printed\\.$")),
    Row("disk full", sh("head -c 9 /dev/zero > /dev/full"), status(1, "A disk is full: free space where it writes")),
    Row("disk full in Python", py("f = open('/dev/full', 'w'); f.write('x'); f.flush()"), status(1, "A disk is full")),
]

PROCESSES = [
    Row("daemon left behind", sh("setsid sh -c 'sleep 1000' & sleep 0.2; exit 1"), status(1)),
    Row("double fork", py("import os, sys, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(1000)\n os._exit(0)\nos.wait(); sys.exit(9)"), status(9)),
    Row("two hundred processes", sh("i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; exit 1"), status(1)),
    Row("zombies", py("import os, sys, time\nfor _ in range(100):\n if os.fork() == 0: os._exit(0)\ntime.sleep(0.2); sys.exit(1)"), status(1)),
    Row("kills its init", sh("kill -9 1; kill -9 $PPID; sleep 0.1; exit 8"), status(8)),
    Row("kills everybody it sees", py("import os, signal, subprocess, sys\nsubprocess.Popen(['sleep', '1000'])\nos.kill(-1, signal.SIGKILL)\nsys.exit(7)"), status(7)),
    Row("stops itself", sh("kill -STOP $$"), "reached its timeout", code=DEADLINE, timeout="2s"),
    Row("becomes another program", sh("exec cat /no/such/file"), status(1, "(?s:.)*/no/such/file")),
    Row("background child holds the output", sh("sleep 1000 & exit 1"), status(1)),
    Row("timeout of a second", sh(FOREVER), r"reached its timeout and was stopped, \d+\.\d seconds after this attempt began\. Still running: workerpool0-0\. Raise scheduling.timeout",
        code=DEADLINE, timeout="1s"),
    Row("ignores SIGTERM at its timeout", sh(STUBBORN), "reached its timeout(?s:.)*stubborn", code=DEADLINE, timeout="20s", log=r"did not stop within 0\.5 seconds: it is killed"),
    Row("ignores SIGTERM when cancelled", sh(STUBBORN), "The job was cancelled", state="CANCELLED", cancel=True, log=r"did not stop within 0\.5 seconds"),
    Row("fails when cancelled", sh("trap 'exit 3' TERM; echo ready; " + FOREVER), "The job was cancelled", state="CANCELLED", cancel=True),
    Row("no place in time", ["true"], "maxWaitDuration", code=DEADLINE, max_wait="1s", narrow=True),
]

WAITS = "import os, socket, time\nwhile True:\n try: socket.create_connection(('127.0.0.1', int(os.environ['MASTER_PORT']))); break\n except OSError: time.sleep(0.1)"
GANGS = [
    Row("worker waits for a chief that never listens", None, r"reached its timeout.*Still running: workerpool0-0, workerpool1-0, workerpool1-1\. .*find their addresses in TF_CONFIG and CLUSTER_SPEC",
        code=DEADLINE, timeout="3s", pools=[(sh("echo waiting for workers; " + FOREVER), 1), (py(WAITS), 2)]),
    Row("worker fails while the chief runs", None, r"^The replica workerpool1-1 exited with a non-zero status of 3\.",
        pools=[(sh(FOREVER), 1), (py("import os, json, sys, time\nif json.loads(os.environ['TF_CONFIG'])['task']['index'] == 1: sys.exit(3)\ntime.sleep(1000)"), 2)]),
    Row("worker is done early", None, state="SUCCEEDED", pools=[(sh("sleep 1"), 1), (["true"], 1)]),
    Row("chief is done, workers hang", None, state="SUCCEEDED", pools=[(["true"], 1), (sh(STUBBORN), 2)], log="The chief has finished: the other replicas are told to stop"),
    Row("chief fails, workers hang", None, status(4), pools=[(sh("sleep 0.3; exit 4"), 1), (sh(STUBBORN), 1)]),
    Row("worker's command is missing", None, r"^The replica workerpool1-0 could not be started: 'no-such': .*There is no such program", pools=[(sh(FOREVER), 1), (["no-such"], 1)]),
    Row("parameter server dies again and again", None, r"The replica workerpool2-0 was ended by signal 9 \(SIGKILL\) after 5 restarts\.", retries=True,
        pools=[(sh(FOREVER), 1), (sh(FOREVER), 1), (die("KILL"), 1)], log=r"workerpool2-0 .*Restarting it \(5 of 5\)"),
    Row("evaluator fails", None, r"^The replica workerpool3-0 exited with a non-zero status of 1\. Its Python has no module 'nosuch'",
        pools=[(sh(FOREVER), 1), (sh(FOREVER), 1), (sh(FOREVER), 1), (py("import nosuch"), 1)]),
]

ROWS = PYTHON + COMMANDS + STATUSES + SIGNALS + OUTPUT + PROCESSES + GANGS


def submit(yard, row, folder):
    """(name, None), or (None, the refusal)."""
    reply = yard.call("POST", f"/v1/{PARENT}/customJobs", row.body(yard, folder), timeout=60)
    return (reply.json["name"], None) if reply.status == 200 else (None, reply)


def run_one(yard, row, folder):
    if row.name == "endless link":
        (folder / "endless-link").mkdir(exist_ok=True)
        (folder / "endless-link" / "loop").symlink_to(folder / "endless-link" / "loop")
    name, refusal = submit(yard, row, folder)
    if refusal is not None:
        return {"state": "REFUSED", "error": refusal.json["error"]}
    if row.cancel:
        yard.wait_for(lambda: yard.lines(name), 60, "its first line")
        yard.cancel(name)
    end = time.monotonic() + 600
    while (job := yard.describe(name))["state"] not in FINAL:
        assert time.monotonic() < end, f"'{row.name}' has not ended: {job}"
        time.sleep(0.1)
    job["lines"] = [entry.get("textPayload") or entry.get("jsonPayload", {}).get("message", "") for entry in yard.entries(name)] if row.log else []
    return job


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """name of a row -> its job, when all have ended; and nothing of any of them is alive."""
    folder = tmp_path_factory.mktemp("broken")
    files = folder / "files"
    files.mkdir()
    found = {}
    with Yard(folder / "wide", settings=SETTINGS) as wide, Yard(folder / "narrow", settings={**SETTINGS, "replica_slots": 1}) as narrow:
        holder = narrow.create("sh", "-c", FOREVER)
        narrow.wait(holder, "JOB_STATE_RUNNING")
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            rows = sorted(ROWS, key=lambda row: row.timeout != "20s")  # those that take longest first
            work = {pool.submit(run_one, narrow if row.narrow else wide, row, files): row for row in rows}
            for one in concurrent.futures.as_completed(work):  # each has a limit of its own
                found[work[one].name] = one.result()
        jobs = str(wide.data / "jobs")
        wide.wait_for(lambda: not processes_of(jobs), 60, "every process of a broken job to be gone (J2)")
        narrow.cancel(holder)
    return found


def test_there_are_a_hundred():
    assert len({row.name for row in ROWS}) == len(ROWS) >= 100


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "_"))
def test_broken(row, ended):
    job = ended[row.name]
    error = job.get("error", {})
    text = json.dumps({k: v for k, v in job.items() if k not in ("jobSpec", "lines")}, indent=1, ensure_ascii=False)
    assert re.fullmatch(row.state, job["state"].removeprefix("JOB_STATE_")), text
    if job["state"] == "JOB_STATE_SUCCEEDED":
        assert not error, text
    else:
        assert re.search(row.message, error["message"]), text
        if job["state"] != "REFUSED" and row.code is not None:
            assert error["code"] == row.code, text
    if row.log:
        assert [line for line in job["lines"] if re.search(row.log, line)], job["lines"][-20:]
