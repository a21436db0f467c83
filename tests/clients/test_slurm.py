"""trainyard train under srun, with a Slurm of one node that this file starts: the bits of a run on its own."""
import os
import subprocess
import sys

import pytest

from yard import BINARY, TOP

sys.path.insert(0, str(TOP / "bench"))
from slurm import SHIPPED, Slurm  # noqa: E402

pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="slurmd needs root"),
              pytest.mark.skipif(bool(Slurm.missing()), reason=f"Slurm is not on this machine: {' '.join(Slurm.missing())}")]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with Slurm(tmp_path_factory.mktemp("slurm") / "s", SHIPPED, cpus=4) as started:
        yield started


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """The command, without its output folder."""
    folder = tmp_path_factory.mktemp("data")
    subprocess.run([sys.executable, TOP / "examples/taxifare-tf/make_data.py", folder], check=True, stdout=subprocess.DEVNULL)
    return [BINARY, "train", "taxifare", f"--train_data_path={folder}/taxi-train*", f"--eval_data_path={folder}/taxi-valid*", "--batch_size=100",
            "--num_examples_to_train_on=3200", "--nnsize=32 8", "--seed=5", "--threads=1"]


def weights(out):
    (model,) = (out / "export" / "savedmodel").iterdir()
    return {f.name: f.read_bytes() for f in (model / "variables").iterdir()}


@pytest.mark.parametrize("tasks", [2, 4])
def test_tasks_give_the_bits_of_one(tasks, slurm, train, tmp_path):
    subprocess.run([*train, f"--output_dir={tmp_path}/alone"], check=True, capture_output=True)
    done = slurm.run("srun", "--mpi=pmix", "-n", str(tasks), *train, f"--output_dir={tmp_path}/out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("examples computed") == tasks
    assert weights(tmp_path / "out") == weights(tmp_path / "alone")


def test_tasks_without_mpi_are_told_so(slurm, train, tmp_path):
    done = slurm.run("srun", "--mpi=none", "-n", "2", *train, "--strategy=multi_worker", f"--output_dir={tmp_path}/out")
    assert done.returncode != 0
    assert "srun has started 2 tasks, which MPI knows nothing of: srun --mpi=pmix" in done.stderr
    assert not (tmp_path / "out" / "export").exists()
