"""Forks while threads read an array for the first time in a process: whether the children can read it, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import tegula
from torture.libraries import OURS
from torture.outcome import Outcome
from torture.workers import Worker

CASES = {"Blosc": "auto", "LZMA": ["lzma"], "a filter of numcodecs": [{"id": "fixedscaleoffset", "offset": 0,
         "scale": 1, "dtype": "<i4", "astype": "<i8"}, "zlib"]}  # fmt: skip
_PATIENCE = 30  # seconds after which a child hangs
_TRIAL = """
import os, random, signal, sys, time
import tegula
path, seed = sys.argv[1:]
reads = [tegula.open_array(path).read() for _ in range(4)]
time.sleep(random.Random(seed).uniform(0, 0.01))
child = os.fork()
if child == 0:
    signal.alarm(%d)
    right = tegula.open_array(path)[:].tolist() == tegula.open_array(path).read().result().tolist() == [*range(64)]
    os._exit(0 if right else 1)
for read in reads:
    assert read.result().tolist() == [*range(64)]
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print({0: "right", -signal.SIGALRM: "hung"}.get(code, "failed"))
"""


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Fork `count` times in processes of their own."""
    if worker.name not in OURS:
        return []
    outcomes = []
    executor = "reference" if worker.name == "reference" else "auto"
    environment = {**os.environ, "TEGULA_EXECUTOR": executor, "TEGULA_THREADS": "4"}
    for case, codecs in CASES.items():
        path = root / case.replace(" ", "-")
        array = tegula.create_array(path, shape=64, chunks=4, dtype="<i4", codecs=codecs, format="zarr2")
        array[:] = np.arange(64)
        found = []
        for seed in range(-(-count // len(CASES))):
            command = [sys.executable, "-c", _TRIAL % _PATIENCE, str(path), str(seed)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            found.append(done.stdout.strip() or "failed")
        facts = {"forks": len(found), **{kind: found.count(kind) for kind in ("hung", "failed")}}
        text = f"{facts['hung']} of {facts['forks']} hung" + (f", {facts['failed']} failed" if facts["failed"] else "")
        outcomes.append(Outcome("forks", f"Forked during the first read, {case}: children", worker.name, text, facts))
    return outcomes
