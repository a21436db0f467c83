"""slurm.py -- a Slurm of one node on loopback, from Debian's package, for comparison. Needs root (slurmd does)."""
import pathlib
import shutil
import socket
import subprocess
import time

SHIPPED = """
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
"""
# What its high-throughput guide asks for (no accounting, little logging, first in first out, short memory), and the
# scheduler as eager as it goes: of several settings tried, this one gave it the lowest latency.
TUNED = SHIPPED + """
SchedulerType=sched/builtin
PriorityType=priority/basic
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000,default_queue_depth=1000
SlurmctldDebug=error
SlurmdDebug=error
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MinJobAge=2
MaxJobCount=100000
"""


class Slurm:
    def __init__(self, folder, tuning, cpus=64):
        self.folder = pathlib.Path(folder)
        self.conf = self.folder / "slurm.conf"
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_CONF": str(self.conf), "HOME": "/root"}
        self.processes = []
        host = socket.gethostname().split(".")[0]
        (self.folder / "state").mkdir(parents=True)
        (self.folder / "spool").mkdir()
        f = self.folder
        self.conf.write_text(f"""ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={f}/munge.sock
CredType=cred/munge
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation={f}/state
SlurmdSpoolDir={f}/spool
SlurmctldPidFile={f}/slurmctld.pid
SlurmdPidFile={f}/slurmd.pid
SlurmctldLogFile={f}/slurmctld.log
SlurmdLogFile={f}/slurmd.log
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=16000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
{tuning}""")

    @staticmethod
    def missing():
        return [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name, path="/usr/sbin:/usr/bin")]

    def _start(self, *command):
        log = open(self.folder / f"{command[0]}.out", "wb")
        self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def __enter__(self):
        f = self.folder
        key = f / "munge.key"
        key.write_bytes(pathlib.Path("/dev/urandom").open("rb").read(1024))
        key.chmod(0o400)
        self._start("munged", "-F", "--force", "--num-threads=10", f"--key-file={key}", f"--socket={f}/munge.sock", f"--pid-file={f}/munged.pid",
                    f"--log-file={f}/munged.log", f"--seed-file={f}/munged.seed")
        end = time.monotonic() + 60
        while not (f / "munge.sock").exists():
            if time.monotonic() > end:
                raise RuntimeError(f"munged did not come up: see {f}")
            time.sleep(0.05)
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D")
        while "idle" not in self.run("sinfo", "-h", "-o", "%T").stdout:
            if time.monotonic() > end:
                raise RuntimeError(f"Slurm did not come up: see {f}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def run(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def active(self):
        """Jobs that have not ended."""
        return len(self.run("squeue", "-h", "-o", "%i").stdout.split())
