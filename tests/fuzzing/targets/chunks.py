"""Chunks that are damaged: every codec's decoder, reached by reading and writing an array."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

from tegula import config
from tegula.errors import CodecError, TegulaError

from ..arrays import Subject, both, outcome, same, subjects
from ..mutations import change_bytes
from ..outcomes import Case, Skipped, Violation, short

__all__ = ["Chunks", "carry_out", "part_of"]


def part_of(rng: random.Random, box: tuple[slice, ...]) -> tuple[list[list[int]], list[int]]:
    """Choose a part of a box, and a point."""
    part, point = [], []
    for side in box:
        first = rng.randrange(side.start, side.stop)
        part.append([first, rng.randint(first + 1, side.stop)])
        point.append(rng.randrange(side.start, side.stop))
    return part, point


def read_everywhere(subject: Subject, case: Case) -> Any:
    """Read an array in full, a part of it and a point; returns the whole, or the error."""
    selections = [..., tuple(slice(*bounds) for bounds in case["part"]), tuple(case["point"])]
    whole, *parts = both(subject, selections)
    if isinstance(whole, TegulaError):
        return whole
    for selection, found in zip(selections[1:], parts):
        if isinstance(found, TegulaError) or not same(found, whole[selection]):
            raise Violation(
                "inconsistent", f"{selection} is {short(found)}, but {short(whole[selection])} in the whole"
            )
    return whole


def write_somewhere(subject: Subject, case: Case, key: str, data: bytes) -> None:
    """Change one element of a damaged chunk: it fails, or the others keep their values."""
    point = tuple(case["point"])
    value = subject.values[tuple(0 for _ in point)]
    box = next(box for name, _, box in subject.chunks if name == key)
    covered = all(side.stop - side.start == 1 for side in box)
    for executor in subject.executors:
        with config.configure(executor=executor):
            subject.store.set(key, data)
            before = outcome(lambda: subject.array[...])
            written = outcome(lambda: subject.array.__setitem__(point, value))
            after = outcome(lambda: subject.array[...])
        if isinstance(written, TegulaError):
            if subject.store.get(key) != data:
                raise Violation("write", f"{executor}: a write that failed changed the chunk")
        elif isinstance(before, TegulaError):
            # blocks that are not touched may stay as they are, damaged
            if not subject.sharded and not covered and not isinstance(after, TegulaError):
                raise Violation("write", f"{executor}: written over damage: {short(before)}")
        elif subject.exact:
            wanted = before.copy()
            wanted[point] = value
            if not same(wanted, after):
                raise Violation("write", f"{executor}: {short(after)} after writing to {short(before)}")


def carry_out(case: Case) -> tuple[Subject, bytes, Any]:
    """Read, and perhaps write, with a damaged chunk in place; returns the subject, the sound chunk and the values.

    If the values can't be read, the error is in their place.
    """
    subject = subjects().get(case["array"])
    if subject is None:
        raise Skipped
    key = case["key"]
    sound = next(data for name, data, _ in subject.chunks if name == key)
    try:
        subject.store.set(key, case["data"])
        found = read_everywhere(subject, case)
        if case["write"]:
            write_somewhere(subject, case, key, case["data"])
    finally:
        subject.store.set(key, sound)
    return subject, sound, found


def _looks_the_same_to_fletcher(subject: Subject, sound: bytes, changed: bytes) -> bool:
    """Whether only words of 16 bits have changed that are 0 in its sums, 0x0000 and 0xFFFF."""
    if "numcodecs.fletcher32" not in [codec.name for codec in subject.array.metadata.codecs]:
        return False
    words = [np.frombuffer(data[: len(data) // 2 * 2], "<u2") % 0xFFFF for data in (sound, changed)]
    return len(sound) == len(changed) and bool((words[0] == words[1]).all())


class Chunks:
    """Bytes of one chunk of an array of the corpus, changed."""

    name = "chunks"

    @functools.cached_property
    def _subjects(self) -> list[Subject]:
        return [*subjects().values()]

    def make(self, rng: random.Random) -> Case:
        """Choose an array and a chunk, and damage it."""
        subject = rng.choice(self._subjects)
        key, data, box = rng.choice(subject.chunks)
        kind, changed = change_bytes(rng, data)
        part, point = part_of(rng, box)
        return {
            "array": subject.name, "key": key, "kind": kind, "data": changed, "part": part, "point": point,
            "write": rng.random() < 0.1,
        }  # fmt: skip

    def run(self, case: Case) -> str:
        """Read and perhaps write the array."""
        subject, sound, found = carry_out(case)
        if isinstance(found, TegulaError):
            what = f"refused {type(found).__name__}"
            return f"{what},checksum" if subject.checked and isinstance(found, CodecError) else what
        changed = case["data"] != sound and not same(found, subject.values)
        if changed and subject.checked and _looks_the_same_to_fletcher(subject, sound, case["data"]):
            return "accepted,changed where Fletcher-32 can't tell"
        if changed and subject.checked:
            raise Violation("silent change", f"{short(found)} where {short(subject.values)} was stored with a checksum")
        if changed and case["kind"] == "truncate":
            raise Violation("silent change", f"{short(found)} of {len(case['data'])} of {len(sound)} bytes")
        if case["kind"] == "extend" and case["data"] != sound:
            return f"accepted,trailing bytes with {subject.array.metadata.codecs[-1].name}"
        return "accepted,changed where nothing could tell" if changed else "accepted"
