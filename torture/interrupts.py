"""Ctrl-C at random moments: what stays open, locked or behind, and whether other processes can go on."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from torture.kills import leftovers
from torture.libraries import OURS
from torture.libraries.interface import Lacking, Library
from torture.outcome import Outcome
from torture.workers import Failed, Worker

_LENGTH = 2**16
_LONGEST = 0.005  # seconds until an interrupt
_PATIENCE = (
    1.0  # seconds after which an interrupt counts as lost, as it is in what Python does while it collects garbage
)

CASES = {"whole chunks": "zarr3", "a part of each chunk": "zarr3", "appends": "bcolz", "attributes": "zarr3"}


# --- jobs


def create(library: Library, around: Any, path: str, case: str) -> None:
    library.create(path, CASES[case], 0 if case == "appends" else _LENGTH, _LENGTH // 16, "lz4")


def grind(library: Library, around: Any, path: str, case: str, count: int) -> dict[str, Any]:
    """Interrupt an operation `count` times, and report what this process has open and locked afterwards."""
    if not os.path.isdir("/proc/self/fd"):
        raise Lacking("the system does not say what is open")
    chance = random.Random(case)
    node = library.open(path, CASES[case])
    act = _acts(library, node)[case]
    act()
    armed = False

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    done = lost = 0
    while done + lost < count:
        try:
            until = time.monotonic() + _PATIENCE
            armed = True
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, _LONGEST))
            while time.monotonic() < until:
                act()
            lost += 1
        except KeyboardInterrupt:
            done += 1
        armed = False
    files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    with open("/proc/locks", encoding="ascii") as lines:
        locks = [line for line in lines if line.split()[4] == str(os.getpid())]
    others = os.fork()
    if others == 0:  # goes on while this process is alive
        try:
            signal.alarm(30)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            _acts(library, library.open(path, CASES[case]))[case]()
            os._exit(0)
        finally:
            os._exit(1)
    waits = os.waitpid(others, 0)[1] != 0
    opened = sum(file.startswith(path) for file in files)
    return {"interrupts": done, "lost": lost, "open": opened, "locked": len(locks), "waits": waits}


def _acts(library: Library, node: Any) -> dict[str, Callable[[], None]]:
    ones = np.ones(_LENGTH, "i4")
    return {
        "whole chunks": lambda: library.write(node, slice(None), ones),
        "a part of each chunk": lambda: library.write(node, slice(0, None, 2), ones[::2]),
        "appends": lambda: library.append(node, ones[:7]),
        "attributes": lambda: library.set_attribute(node, "x", 1),
    }


# --- the section


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Interrupt operations `count` times, each the same share."""
    if worker.name not in OURS:
        return []
    outcomes = []
    for case in CASES:
        path = root / case.replace(" ", "-")
        try:
            worker.ask("interrupts:create", path=str(path), case=case)
            facts = worker.ask("interrupts:grind", path=str(path), case=case, count=-(-count // len(CASES)))
            facts["left"] = leftovers(path)
        except Failed as error:
            facts = {"failed": str(error)}
        outcomes.append(Outcome("interrupts", f"Interrupted at {case}", worker.name, _text(facts), facts))
    return outcomes


def _text(facts: dict[str, Any]) -> str:
    if "failed" in facts:
        return "crash or no answer"
    kept = ", ".join(f"{facts[name]} {name}" for name in ("open", "locked", "left") if facts[name])
    return f"{facts['interrupts']:,} times; {kept or 'nothing left'}{'; others wait' if facts['waits'] else ''}"
