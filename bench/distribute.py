#!/usr/bin/env python3
"""distribute.py -- sums over ranks on this machine: shared memory, MPI in the tree's order, MPI_Allreduce; one run, ratios.

    bench/distribute.py [--ranks 2]

A ratio is MPI_Allreduce's time by ours. The goals, with 2 ranks: shared memory at least 2, MPI in order at least 0.8.
"""
import argparse
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
# Everything stays on this machine.
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_plm": "isolated",
            "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    ranks = parser.parse_args().ranks
    print(f"{ranks} ranks, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}", flush=True)
    meeting = f"/dev/shm/ty-bench-{os.getpid()}"
    done = subprocess.run(["mpirun", "-n", str(ranks), TOP / "build" / "bench" / "bench_distribute", meeting], env={**SETTINGS, **os.environ})
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
