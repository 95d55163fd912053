"""Updates by several processes on a file system that keeps whole seconds and uses inode numbers again at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mounting import mounted

import tegula
from tegula.runtime import executors

WORKERS, EACH = 4, 100

pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(sys.platform != "linux", reason="the file system is one of Linux"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An ext4 with inodes of 128 bytes, in which there is no room for parts of seconds."""
    with mounted(tmp_path_factory.mktemp("coarse"), "ext4", "-F", "-I", "128") as top:
        yield top


WORK = """
import sys
import numpy as np
import tegula
path, kind, worker, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
node = tegula.open(path, mode="r+")
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
for number in range(count):
    mark = worker * count + number + 1
    if kind == "elements":
        node[mark - 1] = mark
        node[mark - 1] = 0  # the chunk may fall empty, and is then deleted and made again
        node[mark - 1] = mark
    elif kind == "attributes":
        node.attrs[f"{worker}.{number}"] = mark
    else:
        node.append(np.array([mark], "i4"))
"""


def run(path: Path, kind: str, executor: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORK, str(path), kind, str(worker), str(EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TEGULA_EXECUTOR": executor},
        )
        for worker in range(WORKERS)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=300)
        assert process.returncode == 0


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("executor", ["kernel", "reference"])
@pytest.mark.parametrize("format", ["zarr2", "zarr3", "bcolz"])
@pytest.mark.parametrize("kind", ["elements", "attributes", "appends"])
def test_nothing_is_lost(place: Path, tmp_path: Path, kind: str, format: str, executor: str) -> None:
    if executor == "kernel" and executors.kernel() is None:
        pytest.skip("the kernel is not built")
    if kind != "appends" and format == "bcolz":
        return  # it appends under a lock
    path = place / f"{kind}-{format}-{executor}"
    count = WORKERS * EACH
    length = 0 if kind == "appends" else count
    tegula.create_array(path, shape=length, chunks=count, dtype="i4", codecs=None, format=format)
    run(path, kind, executor)
    node = tegula.open_array(path)
    found = dict(node.attrs).values() if kind == "attributes" else node[...].tolist()
    assert sorted(found) == [*range(1, count + 1)]
    shutil.rmtree(path)
