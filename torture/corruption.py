"""Chunks that are damaged where they are stored: errors, or wrong values."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from torture.libraries.interface import Lacking, Library
from torture.outcome import Outcome
from torture.workers import Failed, Worker

_LENGTH = 2**15
CODECS = {
    "none": "no codec",
    "lz4": "Blosc with LZ4",
    "zstd": "Zstandard",
    "gzip": "gzip",
    "crc32c": "CRC-32C",
}


def values() -> Any:
    """Return values that compress a little."""
    noise = np.random.default_rng(0).integers(0, 64, _LENGTH)
    return (np.arange(_LENGTH) // 7 + noise).astype("u2")


def mutated(raw: bytes, number: int) -> bytes:
    """Return a chunk with damage of one kind: flipped bits, a missing end, zeros, or extra bytes."""
    chance = random.Random(number)
    new = bytearray(raw)
    match number % 20:
        case 0 | 1:
            new += chance.randbytes(chance.randint(1, 64))
        case 2 | 3 | 4:
            del new[chance.randrange(len(new)) :]
        case 5 | 6 | 7 | 8:
            start = chance.randrange(len(new))
            length = min(chance.randint(1, 512), len(new) - start)
            new[start : start + length] = bytes(length)
        case _:
            for _ in range(chance.choice((1, 1, 4, 32))):
                new[chance.randrange(len(new))] ^= 1 << chance.randrange(8)
    return bytes(new)


def attempt(library: Library, around: Any, path: str, layout: str, codec: str, first: int, count: int) -> None:
    """Damage a chunk `count` times, read it each time, and record the outcomes."""
    wanted = values()
    if codec not in library.codecs:
        raise Lacking(f"it has no {codec}")
    library.check(layout)
    if not Path(path).exists():
        library.create(path, layout, _LENGTH, _LENGTH, codec, "u2")
        node = library.open(path, layout)
        library.write(node, slice(None), wanted)
        library.close(node)
        del node
    files = [Path(path)] if Path(path).is_file() else [file for file in Path(path).rglob("*") if file.is_file()]
    chunk = max(files, key=lambda file: file.stat().st_size)
    kept = Path(f"{path}.kept")
    if not kept.exists():
        kept.write_bytes(chunk.read_bytes())
    raw = kept.read_bytes()
    with Path(f"{path}.json").open("a") as said:
        for number in range(first, count):
            new = mutated(raw, number)
            if new == raw:
                new = raw[:-1]
            chunk.write_bytes(new)
            try:
                node = library.open(path, layout)
                found = library.read(node)
                library.close(node)
                outcome = "unchanged" if np.array_equal(found, wanted) else "wrong"
            except Exception as error:  # as it should be
                outcome = f"error {type(error).__name__}"
            print(json.dumps([number, outcome]), file=said, flush=True)


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Damage a chunk of each codec `count` times, in the library's first layout."""
    outcomes = []
    for layout in ("zarr3", "zarr2", "bcolz", "own"):
        for codec, title in CODECS.items():
            outcome = _run(worker, root / f"{layout}-{codec}", layout, codec, count)
            if outcome is not None:
                promise = f"A damaged chunk, {title}: wrong values of {count}"
                outcomes.append(Outcome("corruption", promise, worker.name, _text(outcome), outcome))
        if outcomes:
            break
    return outcomes


def _run(worker: Worker, path: Path, layout: str, codec: str, count: int) -> dict[str, Any] | None:
    said = Path(f"{path}.json")
    outcomes: dict[int, str] = {}
    while len(outcomes) < count:
        try:
            what = {"path": str(path), "layout": layout, "codec": codec, "first": len(outcomes), "count": count}
            worker.ask("corruption:attempt", **what)
        except Lacking:
            return None
        except Failed as error:
            if not said.exists():
                raise
            crash = f"crash: {error}"
        else:
            crash = "crash: it said nothing"
        outcomes = dict(json.loads(line) for line in said.read_text().splitlines())
        if len(outcomes) < count:  # this one ended the process
            with said.open("a") as file:
                print(json.dumps([len(outcomes), crash]), file=file)
            outcomes[len(outcomes)] = crash
    kinds: dict[str, int] = {}
    for outcome in outcomes.values():
        kinds[outcome] = kinds.get(outcome, 0) + 1
    total = {word: sum(n for kind, n in kinds.items() if kind.startswith(word)) for word in ("error", "crash")}
    return {
        "layout": layout,
        "wrong": kinds.get("wrong", 0),
        "unchanged": kinds.get("unchanged", 0),
        **total,
        "kinds": kinds,
    }


def _text(facts: dict[str, Any]) -> str:
    return f"{facts['wrong']}" + (f", {facts['crash']} crashes" if facts["crash"] else "")
