"""Generations of one array: how writers make them one after the other, and what a read is that meets them.

Each element holds its position plus 64 times the number of its generation, counted from 1.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count as numbers_from
from typing import Any

import numpy as np

import tegula

KINDS = ("two generations", "went back", "fill values", "wrong values", "called damage", "other errors")
ALLOWED = ("gone", "not filled", "several appends")
"""What a read may be instead of one generation, if its writer is one of those that cause it."""
POSITIONS = np.arange(64).reshape(8, 8)
_PAUSE = {True: 0.1, False: 0.004}  # seconds at most between two changes: of remote stores, of others
_STAY = 3  # rows that a resize keeps, so that it cuts a chunk in two
_DESCRIPTIONS: list[dict[str, Any]] = [  # even generations have integers, the others real numbers
    {"dtype": "<i4", "chunks": (4, 4), "codecs": [], "format": "zarr3"},
    {"dtype": "<f8", "chunks": (4, 4), "codecs": [], "format": "zarr3"},
    {"dtype": ">i4", "chunks": (2, 8), "codecs": [], "format": "zarr3"},
    {"dtype": "<f8", "chunks": (4, 4), "codecs": ["zstd"], "order": "F", "format": "zarr3"},
    {"dtype": "<i4", "chunks": (4, 4), "codecs": [], "format": "zarr2"},
    {"dtype": ">f8", "chunks": (4, 4), "codecs": ["gzip"], "order": "F", "format": "zarr2"},
    {"dtype": "<i4", "chunks": (4, 4), "shards": (8, 4), "format": "zarr3"},
    {"dtype": "<f8", "chunks": (2, 8), "codecs": ["zstd"], "format": "zarr2"},
]


# --- writers: each changes the array to another generation


def _create(target: Any, number: int, description: int, **options: Any) -> Any:
    options = {**_DESCRIPTIONS[description % len(_DESCRIPTIONS)], **options}
    values = POSITIONS + 64 * (number + 1)
    return tegula.create_array(target, data=values.astype(options.pop("dtype")), **options)


def _replace(here: Any, away: Any, number: int) -> None:
    _create(here, number, number, overwrite=True)


def _replace_equal(here: Any, away: Any, number: int) -> None:
    _create(here, number, 0, overwrite=True)


def _move(here: Any, away: Any, number: int) -> None:
    tegula.move(here, away)
    tegula.move(away, here)


def _delete_and_move(here: Any, away: Any, number: int) -> None:
    _create(away, number, number)
    tegula.delete(here)
    tegula.move(away, here)


def _delete_and_create(here: Any, away: Any, number: int) -> None:
    tegula.delete(here)
    _create(here, number, number)


def _resize(here: Any, away: Any, number: int) -> None:
    array = tegula.open_array(here, "r+")
    array.resize((_STAY, 8))
    array.append((POSITIONS + 64 * (number + 1))[_STAY:])


def _convert(here: Any, away: Any, number: int) -> None:
    odd = number % 2
    to: dict[str, Any] = {"format": ("zarr3", "zarr2")[odd], "dtype": ("<i4", "<f8")[odd]}
    tegula.convert(_create({}, number, 0), here, **to, overwrite=True)


def _copy(here: Any, away: Any, number: int) -> None:
    tegula.copy(_create({}, number, number), here, overwrite=True)


WRITERS: dict[str, Callable[[Any, Any, int], None]] = {
    "replacing": _replace,
    "replacing by an equal one": _replace_equal,
    "moving": _move,
    "deleting and moving": _delete_and_move,
    "deleting and creating": _delete_and_create,
    "resizing Zarr v3": _resize,
    "resizing bcolz": _resize,
    "converting": _convert,
    "copying": _copy,
}
_VARIED = (_replace, _delete_and_move, _delete_and_create, _copy)  # each generation has the next description


def create(here: Any, away: Any, writer: str, number: int = 0) -> None:
    """Create the array that a writer changes."""
    with suppress(tegula.NotFoundError):
        tegula.delete(away)
    options: dict[str, Any] = {"chunks": (2, 8)} if writer.startswith("resizing") else {}
    if writer.endswith("bcolz"):
        options |= {"codecs": "auto", "format": "bcolz"}
    _create(here, number, number if WRITERS[writer] in _VARIED else 0, overwrite=True, **options)


def change(here: Any, away: Any, writer: str, is_remote: bool, over: Callable[[], bool]) -> dict[str, Any]:
    """Make generations until the readers have ended; return how many, and what has failed."""
    chance = random.Random(writer)
    failures: list[str] = []
    for number in numbers_from(1):
        if over():
            break
        try:
            WRITERS[writer](here, away, number)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}"[:300])
            create(here, away, writer, 0 if WRITERS[writer] is _resize else number)
        time.sleep(chance.choice((0, chance.uniform(0, _PAUSE[is_remote]))))
    return {"changes": number, "failed": len(failures), "failures": failures[:3]}


# --- what a read is


class Judge:
    """Says what a read is; knows the latest generation that this reader has seen."""

    def __init__(self, writer: str) -> None:
        self._writer, self._act = writer, WRITERS[writer]
        self.last = 0

    def of(self, found: Any, positions: Any) -> str:
        """Return one of `KINDS` or `ALLOWED`, or ``""`` for elements of one generation."""
        if found.shape != positions.shape:
            return "wrong values"
        if self._act is _resize:
            return self._of_resized(found, positions)
        if self._act is _delete_and_create:  # a new array is there before its chunks are
            empty = found == 0
            return self._of_one(found[~empty], positions[~empty]) or ("not filled" if empty.any() else "")
        return self._of_one(found, positions)

    def of_error(self, error: Exception, *, is_local: bool) -> str:
        """Return one of `KINDS`, or ``"gone"`` for an error that says what the writer has done."""
        if isinstance(error, (tegula.CodecError, tegula.MetadataError)):
            return "called damage"
        if self._act is _resize:
            return "gone" if isinstance(error, tegula.SelectionError) else "other errors"
        # in local files two arrays change places in one step, so that a path always has one
        is_there = is_local and self._act in (_replace, _replace_equal)
        is_gone = isinstance(error, tegula.NotFoundError) and (error.is_stale or not is_there)
        return "gone" if is_gone else "other errors"

    def _of_one(self, found: Any, positions: Any) -> str:
        if not found.size:
            return ""
        with np.errstate(invalid="ignore"):
            numbers = found.astype("i8") - positions
        number = int(numbers.flat[0])
        if number < 64 or number % 64 or (numbers != number).any():
            known = numbers[found != 0]
            if (known % 64).any() or (known < 64).any() or (known > 2**28).any():
                return "wrong values"
            return "fill values" if (found == 0).any() else "two generations"
        number = number // 64 - 1
        if number > 2**22 or (self._act in (*_VARIED, _convert) and found.dtype.kind != "if"[number % 2]):
            return "wrong values"
        before, self.last = self.last, max(self.last, number)
        return "went back" if number < before else ""

    def _of_resized(self, found: Any, positions: Any) -> str:
        """Judge rows that stay, and chunks of rows that are cut off and appended again, each of one moment."""
        before, kinds = self.last, []
        stays = positions < 8 * _STAY
        if (found[stays] != positions[stays] + 64).any():
            return "fill values" if (found[stays] == 0).any() else "wrong values"
        generations = set()
        for chunk in range(8 * _STAY // 16, 4):
            part = ~stays & (positions // 16 == chunk)
            if part.any() and not found[part].any() and "bcolz" not in self._writer:
                kinds.append("not filled")
            elif part.any():
                self.last = before
                kinds.append(self._of_one(found[part], positions[part]))
                generations.add(int(found[part][0]) // 64)
        self.last = max(before, *(number - 1 for number in generations), 0)
        kinds.append("several appends" if len(generations) > 1 else "")
        return next((kind for kind in kinds if kind in KINDS), max(kinds))
