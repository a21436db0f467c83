"""gcloud_fork.py -- real gcloud, loaded once (see fork_server.py). Arguments: the SDK's folder, then which commands to load: ai or storage."""
import os
import sys

ROOT, LOADED = sys.argv[1:3]
sys.path[:0] = [os.path.join(ROOT, "lib", "third_party"), os.path.join(ROOT, "lib")]
sys.argv = [os.path.join(ROOT, "lib", "gcloud.py")]

from googlecloudsdk import gcloud_main  # noqa: E402
from googlecloudsdk.core import log  # noqa: E402
from googlecloudsdk.core.configurations import named_configs  # noqa: E402
import fork_server  # noqa: E402


def prepare():
    log.Reset(sys.stdout, sys.stderr)
    named_configs.ActivePropertiesFile.Invalidate()  # another configuration may have been activated since


WARM = {"ai": (["ai", "custom-jobs", "create", "--display-name=x", "--config=/nowhere"], ["ai", "custom-jobs", "list"],
               ["config", "configurations", "list"]),
        "storage": (["storage", "cp"], ["storage", "rm"], ["storage", "mv"], ["storage", "rsync"], ["storage", "cat"],
                    ["storage", "ls"], ["storage", "objects", "compose"])}


def main(create=gcloud_main.CreateCLI):
    gcloud_main.main(create([]))


for words in WARM[LOADED]:
    fork_server.warm_up(main, words)
fork_server.serve(prepare, main)
