"""zarr-python writes, in a process of its own, and tegula follows.

``TEGULA_ZARR2_PYTHON`` and ``TEGULA_ZARR3_PYTHON`` name interpreters with zarr 2.18 and with zarr 3.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tegula

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow(always=True)]


@pytest.mark.parametrize(
    ("variable", "options"),
    [
        ("TEGULA_ZARR2_PYTHON", {"format": "zarr2", "chunks": (5, 2)}),
        ("TEGULA_ZARR2_PYTHON", {"format": "zarr2", "chunks": (1, 3)}),
        ("TEGULA_ZARR3_PYTHON", {"format": "zarr2", "chunks": (50, 3)}),
        ("TEGULA_ZARR3_PYTHON", {"format": "zarr3", "chunks": (5, 2)}),
        ("TEGULA_ZARR3_PYTHON", {"format": "zarr3", "chunks": (3, 2), "shards": (9, 2)}),
    ],
)
def test_appends_of_zarr_python_are_followed(variable: str, options: dict[str, Any], tmp_path: Path) -> None:
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} names no Python")
    rows = 200
    target = tmp_path / "x"
    node = tegula.create_array(target, shape=(0, 3), dtype="i4", codecs=None, **options)
    follower = tegula.follow(node, from_row=0, settle=600, timeout=300)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = str(Path(__file__).with_name("zarr_appending_peer.py"))
    with subprocess.Popen([python, script, str(target), str(rows)], env=environment) as writer:
        found: list[Any] = []
        while len(found) < rows:
            block = next(follower)
            assert block.start == len(found)
            found += block.values.tolist()
    assert writer.returncode == 0
    assert found == [[number] * 3 for number in range(1, rows + 1)]
