"""Hostile input: the fuzz runner of the tests, with either executor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from torture.libraries.interface import Lacking
from torture.outcome import Outcome
from torture.workers import Worker

_ROOT = Path(__file__).parents[1]


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Run tegula on `count` hostile inputs."""
    if worker.entry.module != "tegula_nodes":
        return []
    if not (_ROOT / "tests" / "fuzzing").is_dir():
        raise Lacking("there is no runner in tests/fuzzing")
    root.mkdir(parents=True, exist_ok=True)
    result = root / "fuzz.json"
    command = [sys.executable, "-m", "tests.fuzzing", "--inputs", str(count), "--json", str(result)]
    environment = {
        **os.environ,
        **worker.entry.environment,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(command, cwd=root, env=environment, check=False, capture_output=True, text=True)
    if not result.exists():
        raise Lacking(f"the runner ended with {done.returncode}: {done.stderr[-300:]}")
    sums: dict[str, Any] = json.loads(result.read_text())
    violations = sum(sum(tally["violations"].values()) for tally in sums["targets"].values())
    refused = sum(sum(tally["refused"].values()) for tally in sums["targets"].values())
    facts = {name: sums.get(name) for name in ("inputs", "seconds", "seed")}
    facts.update(violations=violations, refused=refused, findings=sums.get("findings", [])[:10])
    promise = f"{sums['inputs']:,} hostile inputs: crashes, hangs, foreign exceptions"
    return [Outcome("fuzz", promise, worker.name, f"{violations}", facts)]
