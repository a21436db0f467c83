#!/usr/bin/env python3
"""distribute.py -- many workers on this machine: ratios against TensorFlow, MPI and one process, each from one run.

    bench/distribute.py [--only workers,mirrored-taxifare-32] [--quick] [--latency-us 30 --gbit 10]

  sums        all-reduce of 4 KB, 1 MB and 64 MB: shared memory, MPI in the tree's order, MPI_Allreduce. A ratio is MPI_Allreduce's time
              by ours; goals, with 2 ranks: shared memory 2, MPI in order 0.8
  overlap     a step whose gradients are summed while backward runs, where that was measured to pay, by one whose gradients are summed
              after it; as root also over a loopback of 4 Gbit/s
  workers-*   2 workers of 1 thread against 1 worker of 2 threads, the same batch: steps a second. Goal 0.95
  mirrored-*  time a step of 2 workers against TensorFlow's MultiWorkerMirroredStrategy, the same model and batch, both warm.
              Goals: taxifare 5, flowers 1.5; cached-*: the same with TensorFlow's features computed beforehand and 64 steps a call
  servers-*   updates a second of chief, 2 workers and a ps against TensorFlow's (ClusterCoordinator, 2 workers and a ps). Goal 10
  diagnosis   seconds from kill -9 and SIGSTOP of a worker, and of a ps, to the line in another replica's log that names it
  model       a model of cost: its prediction for 2 ranks beside what is measured, then for 1 to 64 hosts (docs/distributed.md)

The two sides of a row take turns, several rounds; of the rounds' ratios the median counts, and the load of the machine is beside it. Two
workers in step wait for each other whenever either has no CPU, so beside `workers` there is the ratio of each side's quickest ten pieces: a
hint of what a quiet machine would give, which the goal is not judged by.
TensorFlow 2.15 is build/venv-tf. The row sums needs MPI's headers (Debian: libopenmpi-dev) and a build after they came."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP / "tests"), str(TOP / "bench")]
import train
from replicas import Replicas, free_ports

SIDE = TOP / "bench" / "distribute_side.py"
PYTHON = TOP / "build" / "venv-tf" / "bin" / "python"
BENCH = TOP / "build" / "bench" / "bench_distribute"
OVERLAP = TOP / "build" / "bench" / "bench_overlap"
# Everything stays on this machine.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_plm": "isolated",
       "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader", "TRAINYARD_MEETING": ""}
TCP = {**MPI, "OMPI_MCA_btl": "self,tcp"}
CPUS = len(os.sched_getaffinity(0))
PIECE_EXAMPLES = 3200  # of a run's pieces that are timed on their own: about two milliseconds
QUICKEST = 10


def say(text):
    """What is being done, on a terminal; the next line takes its place."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def line(text):
    say("")
    print(text, flush=True)


def load():
    return f"load {os.getloadavg()[0]:.1f}"


def ratio_line(name, ours, theirs, goal, more=""):
    """ours and theirs: (what, steps a second, by round)."""
    ratio = statistics.median(a / b for a, b in zip(ours[1], theirs[1]))
    rates = ", ".join(f"{what} {statistics.median(list_):,.{0 if list_[0] > 100 else 1}f}/s" for what, list_ in (ours, theirs))
    line(f"{name:22}{rates}   ratio {ratio:.2f}{more}   goal {goal}{'' if ratio >= goal else ' MISSED'}   {load()}")


# ---- ours ----

def epoch_lines(stream):
    """A replica's output to its end -> (what it printed, [seconds by our clock, seconds a step as it says, steps] of each epoch)."""
    lines, began, epochs = [], 0, []
    for text in stream:
        lines.append(text)
        done = re.search(r"(?<!\d)(\d+)/\1 - .* - (\d+)(us|ms|s)/step", text)  # not from its begin: mpirun gives it a terminal
        if text.startswith("Epoch "):
            began = time.monotonic()
        elif done:
            epochs.append((time.monotonic() - began, int(done[2]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[done[3]], int(done[1])))
    return "".join(lines), epochs


class Workers:
    """`count` workers of `threads` threads that train together: through shared memory, or by mpirun with its settings."""

    def __init__(self, folder, title, count, threads, more=(), mpi=None, times=1):
        self.workload, self.batch = train.WORKLOADS[title]
        self.batch *= times
        self.folder, self.count, self.threads, self.more, self.mpi = folder, count, threads, list(map(str, more)), mpi
        self.rate, self.output, self.steady = None, "", []
        self.pictures = self.workload == "flowers"

    def command(self, steps):
        words = train.Ours.commands[self.workload](self.folder, self.batch, steps * self.batch)
        epochs = max(1, steps // max(10, PIECE_EXAMPLES // self.batch))
        words += {"taxifare": ["--num_evals", epochs], "chicago": ["--evaluations", epochs]}.get(self.workload, [])
        return [train.BINARY, "train", *map(str, words), "--strategy=multi_worker", f"--threads={self.threads}", *self.more]

    def environments(self):
        ports = free_ports(self.count)
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        return [{**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}})} for i in range(self.count)]

    def start(self, steps, first, others):
        """-> the processes. A file takes their output where our clock is not needed: who reads a pipe takes a CPU from them."""
        words, environments = (["mpirun", "-n", str(self.count)], [{**os.environ, **self.mpi}]) if self.mpi else ([], self.environments())
        return [subprocess.Popen([*words, *self.command(steps)], env=environment, stdout=others if i else first, stderr=others, text=True)
                for i, environment in enumerate(environments)]

    def run(self, steps, meanwhile=None):
        """-> steps a second, of all passes but the first if there are several: that one decodes pictures."""
        with tempfile.TemporaryFile("w+") as first, tempfile.TemporaryFile("w+") as others:
            processes = self.start(steps, subprocess.PIPE if self.pictures else first, others)
            processes += meanwhile.start(steps, others, others) if meanwhile else []
            if self.pictures:
                self.output, epochs = epoch_lines(processes[0].stdout)
            codes = [process.wait() for process in processes]
            if not self.pictures:
                first.seek(0)
                self.output, epochs = epoch_lines(first)
            others.seek(0)
            self.output += others.read()
        if any(codes):
            raise RuntimeError(f"{' '.join(map(str, processes[0].args))} ended with {codes}: {self.output[-2000:]}")
        epochs = epochs[1:] or epochs
        self.steady += [seconds / steps if self.pictures else step for seconds, step, steps in epochs]
        if not self.pictures:
            return float(re.search(r"(\d+) examples/s over", self.output)[1]) / self.batch
        seconds, _, steps = (sum(column) for column in zip(*epochs))
        return steps / seconds

    def undisturbed(self):
        """Seconds a step in the quickest few pieces of all runs: those in which the machine did least else. Lower than what is usual."""
        return statistics.mean(sorted(self.steady)[:1 if self.pictures else QUICKEST])

    def turn(self, seconds, meanwhile=None):
        """A run of about so long; `meanwhile` the same, by others, if they are given."""
        if self.rate is None:
            self.rate = self.run(16)
        self.rate = self.run(max(16, int(self.rate * seconds)), meanwhile)
        return self.rate


def row_workers(title, folder, args):
    sides = [Workers(folder, title, 2, 1), Workers(folder, title, 1, 2)]
    rates = [[], []]
    # steps that are over soon: many short rounds, for in some of them the machine does little else
    rounds, seconds = (args.rounds, args.seconds) if title.startswith("flowers") else (4 * args.rounds, args.seconds / 4)
    for turn in range(rounds):
        say(f"workers-{title}: round {turn + 1} of {rounds}")
        for side, list_ in zip(sides, rates):
            list_.append(side.turn(seconds))
    quick = [side.undisturbed() for side in sides]
    ratio_line(f"workers-{title}", ("2 x 1 thread", rates[0]), ("1 x 2 threads", rates[1]), 0.95,
               f"; of the quickest pieces {quick[1] / quick[0]:.2f} ({quick[0] * 1e6:,.1f} and {quick[1] * 1e6:,.1f} us)")


# ---- TensorFlow's ----

class TensorFlow:
    """Replicas that stay between turns; `leads`: those who are told how many steps, the others follow."""

    def __init__(self, way, title, folder, roles, leads):
        workload, batch = train.WORKLOADS[title]
        ports = iter(free_ports(len(roles)))
        cluster = {}
        for role in roles:
            cluster.setdefault(role, []).append(f"127.0.0.1:{next(ports)}")
        tasks = [(role, i) for role in cluster for i in range(len(cluster[role]))]
        self.errors = tempfile.TemporaryFile("w+")
        self.processes, self.rate = {}, None
        for role, index in tasks:
            environment = {**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}
            self.processes[role, index] = subprocess.Popen([PYTHON, SIDE, way, workload, folder, str(batch)], env=environment, text=True, bufsize=1,
                                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.leads = [self.processes[task] for task in tasks if task[0] in leads]
        self.together = 64 if way == "cached" else 10
        try:
            self.answers()
        except RuntimeError:
            self.close()
            raise

    def answers(self):
        lines = [process.stdout.readline() for process in self.leads]
        if all(lines):
            return [json.loads(text) for text in lines]
        self.errors.seek(0)
        raise RuntimeError((self.errors.read().strip().splitlines() or ["ended"])[-1][:300])

    def run(self, steps):
        for process in self.leads:
            process.stdin.write(f"{steps}\n")
        answer = self.answers()[0]
        return answer["steps"] / answer["seconds"]

    def turn(self, seconds):
        if self.rate is None:
            self.rate = self.run(2 * self.together)
        self.rate = self.run(max(2 * self.together, int(self.rate * seconds) // self.together * self.together))
        return self.rate

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


def against(name, ours, theirs, goal, args, unit):
    """Rounds of one after the other, and the line."""
    rates = [[], []]
    try:
        for turn in range(args.rounds):
            say(f"{name}: round {turn + 1} of {args.rounds}")
            rates[0].append(ours.turn(args.seconds))
            rates[1].append(theirs.turn(args.seconds))
    finally:
        theirs.close()
    ratio_line(name, (f"ours {unit}", rates[0]), ("TensorFlow", rates[1]), goal)


def row_mirrored(title, folder, args, way="mirrored"):
    say(f"{way}-{title}: TensorFlow starts")
    theirs = TensorFlow(way, title, folder, ["worker", "worker"], ["worker"])
    against(f"{way}-{title}", Workers(folder, title, 2, 1), theirs, 1.5 if title.startswith("flowers") else 5, args, "steps")


def row_cached(title, folder, args):
    row_mirrored(title, folder, args, "cached")


# ---- parameter servers ----

class Servers:
    """Chief, workers and a ps of ours."""

    def __init__(self, title, folder, workers=2, ps=1):
        self.workload, self.batch = train.WORKLOADS[title]
        self.folder, self.workers, self.ps, self.rate = folder, workers, ps, None

    def job(self, steps, place):
        words = [*train.Ours.commands[self.workload](self.folder, self.batch, steps * self.batch), "--threads=1", "--no_export"]
        return Replicas(place, words, workers=self.workers, ps=self.ps)

    def run(self, steps):
        """-> updates a second: the steps of the run by the chief's time for its epoch."""
        place = f"{self.folder}/servers"
        shutil.rmtree(place, ignore_errors=True)
        with self.job(steps, place) as job:
            job.start_all()
            job.wait_all(600)
            return 1e6 / float(re.search(r"- (\d+)us/step", job.log("chief"))[1])

    def turn(self, seconds):
        if self.rate is None:
            self.rate = self.run(2000)
        self.rate = self.run(max(1000, int(self.rate * seconds)))
        return self.rate


def row_servers(title, folder, args):
    say(f"servers-{title}: TensorFlow starts")
    theirs = TensorFlow("servers", title, folder, ["ps", "worker", "worker", "chief"], ["chief"])
    against(f"servers-{title}", Servers(title, folder), theirs, 10, args, "updates")


# ---- how soon is it told ----

def delay(folder, ps, victim, number, words, where, args):
    """Seconds from the signal to a line of `where` with these words."""
    title = "taxifare-32"
    place = f"{folder}/diagnosis"
    shutil.rmtree(place, ignore_errors=True)
    steps = 10**7
    job = Servers(title, folder, workers=1, ps=ps).job(steps, place)
    with job:
        job.start_all()
        for name in job.names:
            if name[0] == "chief":
                job.wait_line("Epoch 1", name)
        time.sleep(1)
        job.send(number, *victim)
        return job.wait_line(words, where)


def row_diagnosis(title, folder, args):
    cases = [("worker, in step", 0, ("worker", 0), "worker 0", ("chief", 0)), ("ps", 1, ("ps", 0), "ps 0 (", ("worker", 0)),
             ("worker, with a ps", 1, ("worker", 0), "worker 0 has not been heard", ("ps", 0))]
    for what, ps, victim, words, where in cases:
        for number, name in ((signal.SIGKILL, "kill -9"), (signal.SIGSTOP, "SIGSTOP")):
            found = []
            for turn in range(1 if args.quick else 3):
                say(f"diagnosis: {name} of {what}, {turn + 1}")
                found.append(delay(folder, ps, victim, number, words, where, args))
            line(f"{'diagnosis':22}{name} of a {what}: told after {statistics.median(found):.1f} s (to {max(found):.1f})   at most 5   {load()}")


# ---- sums ----

def row_sums(title, folder, args):
    say("sums")
    if not BENCH.exists():
        line(f"{'sums':22}not measured: {BENCH.name} is not built, which needs libopenmpi-dev (meson setup --wipe build, ninja -C build)")
        return
    meeting = f"/dev/shm/ty-bench-{os.getpid()}"
    subprocess.run(["mpirun", "-n", str(args.ranks), BENCH, "sums", meeting], env={**MPI, **os.environ}, check=True)


def row_overlap(title, folder, args):
    """Steps whose gradients are summed while backward runs, where that was measured to pay, by steps whose gradients are summed after it."""
    for link in (None, "4gbit") if os.geteuid() == 0 else (None,):
        line(f"overlap, {'MPI over a loopback of ' + link if link else 'on this machine'}:   {load()}")
        command = ["mpirun", "-n", str(args.ranks), str(OVERLAP), f"/dev/shm/ty-bench-{os.getpid()}"]
        if link:  # a network namespace of its own, a network of two machines
            limit = f"ip link set lo up && tc qdisc add dev lo root tbf rate {link} burst 256kb latency 20ms"
            command = ["unshare", "-n", "sh", "-c", f'{limit} && exec "$@"', "sh", *command]
        subprocess.run(command, env={**(TCP if link else MPI), **os.environ}, check=True)


# ---- a model of cost ----

class Traffic:
    """What the ranks of a model tell each other in a step (src/nn/net_crew.c): shares, and a sum of all parameters but `not_summed`."""

    def __init__(self, shares, not_summed):
        self.shares, self.not_summed = shares, not_summed
        self.floats = self.own_bytes = 0

    def measure(self, output, shards):
        """From what a rank of 2 says of itself: floats of the sum, and bytes a step that it gives to others besides."""
        steps = int(re.search(r"examples/s over (\d+) steps", output)[1])
        megabytes = float(re.search(r"^worker 0: .* computed, ([\d.]+) MB", output, re.M)[1])
        self.floats = int(re.search(r": (\d+) parameters", output)[1]) - self.not_summed
        self.own_bytes = max(0, megabytes * 1e6 / steps - shards * 4 * self.floats)

    def seconds(self, hosts, latency, message, rate):
        """Through MPI: rounds wait for each other; a message to each other host takes the CPU, of which the first is in the latency; bytes
        take the network. A share is one round, a sum one if it is small or of two, else three (src/crew/mpi.c)."""
        small = self.floats < 8192 or hosts == 2
        rounds = self.shares + (1 if small else 3)
        sent = (hosts - 1) * self.own_bytes + 4 * self.floats * ((hosts - 1) if small else 2 * (hosts - 1) / hosts)
        return rounds * (latency + (hosts - 2) * message) + sent / rate

    def shared_seconds(self, meet, rate):
        return (self.shares + 2) * meet + 4 * self.floats / rate


# begin, counts, tables, rows; wide and deep has six more of its three batch norms
MODELED = {"taxifare-32": lambda: Traffic(4, 1_000_000), "taxifare-1024": lambda: Traffic(4, 1_000_000),
           "chicago-128": lambda: Traffic(10, 1024 + 10_016 + 2 * 224), "flowers-32": lambda: Traffic(2, 0)}
HOSTS = (1, 2, 4, 8, 16, 32, 64)
SHOWN = (1, 2, 8, 64)


def network(settings):
    done = subprocess.run(["mpirun", "-n", "2", BENCH, "network", f"/dev/shm/ty-bench-{os.getpid()}"], env={**os.environ, **settings},
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


class Measured:
    """Seconds a step, undisturbed: by a whole machine; by one thread while another process computes the same; and by two ranks
    of a thread with twice the batch, through shared memory and through MPI's TCP."""

    def __init__(self, title, folder, args):
        sides = {"machine": Workers(folder, title, 1, CPUS), "alone": Workers(folder, title, 1, 1),
                 "shared": Workers(folder, title, 2, 1, times=2), "tcp": Workers(folder, title, 2, 1, times=2, mpi=TCP)}
        rounds, seconds = (args.rounds // 2 + 1, args.seconds) if title.startswith("flowers") else (3 * args.rounds, args.seconds / 4)
        for turn in range(rounds):
            for name, side in sides.items():
                say(f"model of {title}: {name}, round {turn + 1} of {rounds}")
                side.turn(seconds, Workers(folder, title, 1, 1) if name == "alone" else None)
        self.output = sides["shared"].output
        self.machine, self.alone, self.shared, self.tcp = (side.undisturbed() for side in sides.values())


def model_one(title, folder, args, memory, tcp):
    """-> (hosts -> predicted seconds a step), after the line that checks the model."""
    traffic, measured = MODELED[title](), Measured(title, folder, args)
    traffic.measure(measured.output, 2)
    again = max(0, measured.shared - measured.alone - traffic.shared_seconds(memory["meet_us"] / 1e6, memory["sum_gbytes"] * 1e9))
    said = measured.alone + again + traffic.seconds(2, tcp["latency_us"] / 1e6, tcp["message_us"] / 1e6, tcp["gbytes"] * 1e9)
    line(f"{title:15}{measured.alone * 1e6:10,.0f}{again * 1e6:10,.0f}{4 * traffic.floats / 1e3:12,.1f}{traffic.own_bytes / 1e3:12,.1f}"
         f"{said * 1e6:12,.0f}{measured.tcp * 1e6:12,.0f}{said / measured.tcp:9.2f}   {load()}")
    return {hosts: measured.machine + (hosts - 1) * again +
            (traffic.seconds(hosts, args.latency_us / 1e6, tcp["message_us"] / 1e6, args.gbit * 1e9 / 8) if hosts > 1 else 0) for hosts in HOSTS}


def plot(times):
    """Efficiency over hosts, a bar each."""
    for hosts in HOSTS:
        part = times[1] / times[hosts]
        line(f"{hosts:>6} hosts |{'#' * round(50 * part):50}| {100 * part:3.0f} %")


def row_model(title, folder, args):
    say("model: latency and bandwidth")
    memory, tcp = network(MPI), network(TCP)
    line(f"measured: shared memory: a meeting {memory['meet_us']:.2f} us, sums {memory['sum_gbytes']:.1f} GB/s; MPI in memory: "
         f"{memory['latency_us']:.2f} us, {memory['message_us']:.2f} us a message, {memory['gbytes']:.1f} GB/s; MPI by TCP on loopback: "
         f"{tcp['latency_us']:.1f} us, {tcp['message_us']:.1f} us a message, {tcp['gbytes']:.1f} GB/s   {load()}")
    line(f"{'2 ranks by TCP':15}{'1 rank us':>10}{'again us':>10}{'summed KB':>12}{'shared KB':>12}{'predicted':>12}{'measured':>12}{'ratio':>9}")
    times = {one: model_one(one, folder, args, memory, tcp) for one in MODELED}
    line(f"predicted for hosts as this machine, the batch given being each host's; network of {args.latency_us:g} us and {args.gbit:g} Gbit/s "
         "(assumed; --latency-us, --gbit)")
    line(f"{'':15}" + "".join(f"{f'{hosts} hosts':>12}{'':>8}" for hosts in SHOWN))
    for one, by in times.items():
        line(f"{one:15}" + "".join(f"{by[hosts] * 1e6:>9,.0f} us{100 * by[1] / by[hosts]:>6.0f} %" for hosts in SHOWN))
    for one, by in times.items():
        line(f"{one}: efficiency")
        plot(by)


ROWS = {"sums": (row_sums, None), "overlap": (row_overlap, None), "workers-taxifare-32": (row_workers, "taxifare-32"), "workers-taxifare-1024": (row_workers, "taxifare-1024"),
        "workers-flowers-32": (row_workers, "flowers-32"), "mirrored-taxifare-32": (row_mirrored, "taxifare-32"),
        "cached-taxifare-32": (row_cached, "taxifare-32"), "mirrored-flowers-32": (row_mirrored, "flowers-32"),
        "servers-taxifare-32": (row_servers, "taxifare-32"), "diagnosis": (row_diagnosis, "taxifare-32"), "model": (row_model, "taxifare-32,chicago-128,flowers-32")}


def chosen(only):
    """A row by its name, or all that begin so."""
    names = [name for name in ROWS if any(name == part or name.startswith(part + "-") for part in only.split(","))] if only else list(ROWS)
    if not names:
        sys.exit(f"no row '{only}': there are {', '.join(ROWS)}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--ranks", type=int, default=2, help="of the sums")
    parser.add_argument("--latency-us", type=float, default=30, help="of the network that the model predicts for, one way")
    parser.add_argument("--gbit", type=float, default=10, help="its bandwidth, Gbit/s")
    args = parser.parse_args()
    args.rounds, args.seconds = (2, 1) if args.quick else (5, 3)
    line(f"{CPUS} CPUs, {load()}")
    made = set()
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen(args.only):
            row, title = ROWS[name]
            for workload in {train.WORKLOADS[one][0] for one in title.split(",")} - made if title else ():
                say(f"{workload}: data")
                getattr(train, f"{workload}_make")(folder)
                made.add(workload)
            try:
                row(title, folder, args)
            except (RuntimeError, OSError, AssertionError) as error:
                line(f"{name:22}does not run: {error}")


if __name__ == "__main__":
    main()
