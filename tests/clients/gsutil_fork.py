"""gsutil_fork.py -- real gsutil, loaded once (see fork_server.py). Argument: the SDK's folder.

Loaded is all but gslib.__main__, which reads the command line while it is imported. What the wrapper in the SDK's bin adds
to the command line is added by WarmGsutil."""
import os
import sys

TOP = os.path.join(sys.argv[1], "platform", "gsutil")
sys.path.insert(0, TOP)
sys.argv = [os.path.join(TOP, "gsutil.py")]

import gsutil  # noqa: E402  (sets the paths of what it brings along)
from gslib import command_runner, context_config, metrics  # noqa: E402,F401
import gcs_oauth2_boto_plugin  # noqa: E402,F401
import fork_server  # noqa: E402

command_runner.CommandRunner()  # loads the modules of all commands


def main():
    gsutil.RunMain()


fork_server.serve(lambda: None, main)
