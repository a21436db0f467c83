"""conftest.py -- a yard for fault tests: short grace, so that a stubborn job is gone soon."""
import os

import pytest
from fates import FAST
from yard import Yard




@pytest.fixture
def fault_yard(tmp_path):
    with Yard(tmp_path, settings=FAST) as started:
        yield started


@pytest.fixture
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("needs root")
