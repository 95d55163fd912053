"""Reads of an array that another process replaces, moves, resizes or converts: whether they mix two of its states.

    python -m torture mixtures --seconds 700        all stores, executors and writers
    python -m torture mixtures --reads 20000 --stores local,memory --writers replacing,converting

A writer makes one generation of the array after the other, while two readers read it: one opens it for each read, one
keeps it open. Each element holds its position plus 64 times the number of its generation, counted from 1. So any read
can be judged: its elements are those of one generation, or an error says that the array is gone, or it is a mixture.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

import tegula
from torture.generations import ALLOWED, KINDS, POSITIONS, WRITERS, Judge, change, create
from torture.libraries import Lacking, Library
from torture.outcome import Outcome
from torture.workers import Failed, Worker, job, start_workers

STORES = {"local": 200, "memory": 200, "Google Cloud": 5, "S3": 1}
"""How many reads each has, in proportion. Readers reach the last two by requests that take a while to arrive."""
_LIBRARIES = ("tegula", "reference")
_SERVERS = {"Google Cloud": ("gcs", "Gcs"), "S3": ("moto", "Moto")}
_LATENCY = 0.02  # seconds at most until a request of a reader arrives
_OPEN = 25  # reads after which the reader that keeps the array open opens it again
_ALL = slice(None)
_PARTS = (slice(1, 7), slice(2, 6)), (_ALL, slice(None, None, 3)), slice(None, None, -1), ([0, 3, 7], _ALL), 2, (5, 5)
_SELECTIONS: tuple[Any, ...] = (..., *_PARTS)


# --- jobs


def look(here: Any, writer: str, keeps: bool, reads: int, seconds: float) -> dict[str, Any]:
    """Read the array so often or so long, and return what the reads were."""
    judge, array = Judge(writer), None
    examples: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    chance = random.Random(keeps)
    end = time.monotonic() + seconds
    for number in range(reads):
        if time.monotonic() > end:
            break
        selection, before = chance.choice(_SELECTIONS), judge.last
        try:
            if array is None or not keeps or number % _OPEN == 0:
                array = tegula.open_array(here)
            rows = array.shape[0]
            found = np.asarray(array[selection])
            kind, text = judge.of(found, POSITIONS[:rows][selection]), str(found.tolist())
        except Exception as error:
            kind, text = judge.of_error(error, is_local=isinstance(here, str)), f"{type(error).__name__}: {error}"
            if isinstance(error, tegula.NotFoundError):
                array = None
        counts.update(("reads", kind))
        if kind in KINDS and len(known := examples.setdefault(kind, [])) < 3:
            known.append(f"{'kept open' if keeps else 'opened'}, {selection}, after {before}: {text}"[:700])
    return {"counts": dict(counts), "examples": examples}


def _targets(library: Any, path: str) -> tuple[Any, Any]:
    is_remote = path.startswith("{")
    return (library.store(path), library.store(f"{path}-away")) if is_remote else (path, f"{path}-away")


def make(library: Library, around: Any, path: str, writer: str) -> None:
    """Create the first generation."""
    create(*_targets(library, path), writer)


def disturb(library: Library, around: Any, path: str, writer: str, is_remote: bool) -> dict[str, Any]:
    """Change the array until the readers have ended."""
    around.start()
    return change(*_targets(library, path), writer, is_remote, lambda: bool(around.is_over))


def read(library: Library, around: Any, path: str, **what: Any) -> dict[str, Any]:
    """Read the array."""
    around.start()
    return look(_targets(library, path)[0], **what)


def in_memory(library: Library, around: Any, writer: str, **what: Any) -> list[Any]:
    """Do all of it in threads of this process."""
    sys.setswitchinterval(1e-4)
    targets = tegula.MemoryStore(), tegula.MemoryStore()
    create(*targets, writer)
    over = Event()
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(change, *targets, writer, False, over.is_set)
        reading = [pool.submit(look, targets[0], writer, keeps, **what) for keeps in (False, True)]
        try:
            found = [reader.result() for reader in reading]
        finally:
            over.set()
        return [writing.result(), *found]


# --- the section


def run(worker: Worker, root: Path, count: int, **chosen: Any) -> Iterator[Outcome]:
    """Make `count` reads in all; `chosen` may have ``stores``, ``writers``, and the ``seconds`` of all."""
    if worker.name not in _LIBRARIES:
        raise Lacking("it is tegula's promise")
    stores, writers = chosen.get("stores", STORES), chosen.get("writers", WRITERS)
    parts = sum(STORES[store] for store in stores) * len(writers)
    seconds = chosen.get("seconds", 86400) / len(stores) / len(writers)
    for store in stores:
        with ExitStack() as stack:
            places = _places(stack, store) if store in _SERVERS else (f"{root}/",) * 2
            for number, writer in enumerate(writers):
                reads = max(10, count * STORES[store] // parts // 2)  # of each reader
                paths = [f"{place}{number}" for place in places]
                yield _trial(worker, store, paths, {"writer": writer, "reads": reads, "seconds": seconds})


def _places(stack: ExitStack, store: str) -> tuple[str, str]:
    """Start a server, and return how names of places in its bucket begin: for the writer, and for readers."""
    try:
        objects, proxies = import_module("torture.objects"), import_module("tests.servers.proxy")
        module, name = _SERVERS[store]
        server = stack.enter_context(getattr(import_module(f"tests.servers.{module}"), name)())
    except ImportError as error:
        raise Lacking(f"there is no server of {store}: {error}") from None
    proxy, bucket = stack.enter_context(proxies.Proxy(server, latency=(0.0, _LATENCY))), server.bucket()
    return objects.target(bucket, ""), objects.target(bucket.through(proxy.endpoint), "")


def _trial(worker: Worker, store: str, paths: Sequence[str], what: dict[str, Any]) -> Outcome:
    """Let one writer and two readers run, and count what the reads were."""
    path, writer = paths[0], what["writer"]
    if store == "memory":
        answers = [{"value": item} for item in worker.ask("mixtures:in_memory", **what)]
    else:
        worker.ask("mixtures:make", path=path, writer=writer)
        jobs = [job("mixtures:disturb", follows=True, path=path, writer=writer, is_remote=store in _SERVERS)]
        jobs += [job("mixtures:read", path=paths[1], keeps=keeps, **what) for keeps in (False, True)]
        answers = worker.run(jobs, limit=what["seconds"] + 300)
    if failed := [str(answer)[:600] for answer in answers if "value" not in answer]:
        raise Failed("; ".join(failed))
    writing, *reading = (answer["value"] for answer in answers)
    counts = sum((Counter(reader["counts"]) for reader in reading), Counter())
    examples = [(kind, text) for reader in reading for kind, texts in reader["examples"].items() for text in texts]
    examples += [("a change failed", text) for text in writing["failures"]]
    facts = {"store": store, "writer": writer, **writing, "counts": counts, "examples": examples}
    mixed = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if counts[kind])
    text = f"{mixed or 0} of {counts['reads']:,} reads"
    text += "".join(f"; {counts[kind]:,} {kind}" for kind in ALLOWED if counts[kind])
    if writing["failed"]:
        text += f"; {writing['failed']:,} of {writing['changes']:,} changes failed"
    return Outcome("mixtures", f"{store}, read while another process is {writer}: mixtures", worker.name, text, facts)


# --- the program


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a row for each store, executor and writer, and below them what was wrong."""
    columns = ("reads", *ALLOWED, *KINDS)
    lines = [["store", "executor", "writer", "changes", *columns]]
    for outcome in outcomes:
        facts = outcome.facts
        executor = "auto" if outcome.library == "tegula" else outcome.library
        numbers = [facts["changes"], *(facts["counts"][name] for name in columns)]
        lines.append([facts["store"], executor, facts["writer"], *(f"{number:,}" for number in numbers)])
    total = [sum(outcome.facts["counts"][name] for outcome in outcomes) for name in columns]
    lines.append(["all", "", "", "", *(f"{number:,}" for number in total)])
    widths = [max(map(len, column)) for column in zip(*lines)]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    wrong = [
        f"{outcome.library}, {outcome.facts['store']}, {outcome.facts['writer']}: {kind}: {text}"
        for outcome in outcomes
        for kind, text in outcome.facts["examples"]
    ]
    return "\n".join([*rows, "", *wrong])


def main(arguments: Sequence[str]) -> None:
    """Carry out the command line, and print the table."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m torture mixtures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reads", type=int, default=1_000_000, help="how many reads in all")
    parser.add_argument("--seconds", type=float, default=86400, help="how long in all, at most")
    for name, known in {"libraries": _LIBRARIES, "stores": STORES, "writers": WRITERS}.items():
        text = f"some of {','.join(known)}"
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=[*known], help=text)
    chosen = parser.parse_args(arguments)
    workers, outcomes = start_workers(chosen.libraries, {}), []
    what = {"stores": chosen.stores, "writers": chosen.writers, "seconds": chosen.seconds / len(chosen.libraries)}
    shm = Path("/dev/shm")
    try:
        for worker in workers:
            with tempfile.TemporaryDirectory(prefix="tegula-torture-", dir=shm if shm.is_dir() else None) as root:
                try:
                    for outcome in run(worker, Path(root), chosen.reads // len(workers), **what):
                        print(f"{worker.name:10} {outcome.promise}: {outcome.text}", flush=True)
                        outcomes.append(outcome)
                except (Lacking, Failed) as error:
                    print(f"{worker.name:10} not done: {error}", flush=True)
    finally:
        for worker in workers:
            worker.stop()
    print(f"\n{table(outcomes)}")
