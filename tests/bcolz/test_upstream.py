"""bcolz's own unit tests pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tegula import bcolz

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow]

FLOOR = 1234 if bcolz.dask_here else 1178
"""The number of tests that pass with bcolz itself; it skips the others, which need dask, Python 2 or much memory."""


def test_all_pass(tmp_path: Path) -> None:
    script = Path(__file__).with_name("upstream.py")
    done = subprocess.run(
        [sys.executable, str(script), "--floor", str(FLOOR)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
    assert "FAILED" not in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
