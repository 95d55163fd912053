"""Selections of every kind, compared with NumPy where NumPy has them."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

import tegula
from tegula import config
from tegula.errors import TegulaError

from ..arrays import executors_here, outcome, same
from ..mutations import HUGE
from ..outcomes import Case, Violation, short

__all__ = ["Selections"]

_SHAPES = ((), (7,), (0,), (5, 4), (3, 4, 5))
_WAYS = ("basic", "basic", "basic", "oindex", "vindex", "blocks")
_ODD = (
    "'name'", "b'x'", "1.0", "0.5", "float('nan')", "float('inf')", "None", "True", "False", "np.True_", "{}", "{1}",
    "[]",
    "[[]]", "[True, False]", "[0, 'a']", "[0, None]", "[0.0]", "object()", "np.float64(1)", "np.array('a')", "1j",
    "np.array([], 'i8')", "np.array([], 'f8')", "np.array(1.0)", "np.array([0, 1], 'O')", "np.array([True])",
    "range(2)",
    "np.datetime64('2020')", "slice('a')", "slice(None, None, 0)", "slice(0, 1.5)", "slice(None, None, -1)", "(0,)",
    "[(0,)]",
    "np.zeros((2, 2), bool)", "np.zeros((0, 3), 'i8')", "np.array([[0, 1], [1, 0]])", "np.int8(-1)",
    "np.uint64(2**64 - 1)",
    "['x']", "['x', 'y']", "'x'", "lambda: 0", "iter([0])", "np.nan", "NotImplemented", "type", "memoryview(b'ab')",
)  # fmt: skip
_NAMES = {"np": np, "__builtins__": {
    "slice": slice, "float": float, "range": range, "object": object, "iter": iter, "memoryview": memoryview,
    "type": type, "Ellipsis": Ellipsis, "True": True, "False": False, "None": None, "NotImplemented": NotImplemented,
}}  # fmt: skip


def _number(rng: random.Random, size: int) -> str:
    number = rng.choice((0, 1, -1, size - 1, size, -size, -size - 1, rng.randint(-9, 9), rng.choice(HUGE)))
    if rng.random() < 0.2:
        kind = rng.choice(("int8", "int16", "int64", "uint8", "uint64", "intp"))
        info = np.iinfo(kind)
        if info.min <= number <= info.max:
            return f"np.{kind}({number})"
    return str(number)


def _item(rng: random.Random, size: int) -> str:
    how = rng.random()
    if how < 0.3:
        return _number(rng, size)
    if how < 0.6:
        ends = [rng.choice(("None", _number(rng, size))) for _ in range(2)]
        step = rng.choice(("None", "None", "1", "2", "3", "-1", _number(rng, size)))
        return f"slice({ends[0]}, {ends[1]}, {step})"
    if how < 0.7:
        return "..."
    if how < 0.8:
        return f"[{', '.join(_number(rng, size) for _ in range(rng.randint(0, 4)))}]"
    if how < 0.87:
        mask = [rng.random() < 0.5 for _ in range(max(0, size + rng.choice((0, 0, 0, 1, -1))))]
        return f"np.array({mask}, bool)"
    return rng.choice(_ODD)


@functools.cache
def _arrays(shape: tuple[int, ...]) -> tuple[Any, Any]:
    values = np.arange(int(np.prod(shape)), dtype="<i4").reshape(shape)
    chunks = tuple(max(1, (size + 1) // 2) for size in shape)
    array = tegula.create_array(tegula.MemoryStore(), shape=shape, chunks=chunks, dtype="<i4")
    array[...] = values
    return array, values


class Selections:
    """The text between the brackets of an array."""

    name = "selections"

    def make(self, rng: random.Random) -> Case:
        """Make a selection for an array of some shape."""
        shape = rng.choice(_SHAPES)
        count = max(0, len(shape) + rng.choice((0, 0, 0, 0, -1, 1, 2)))
        items = [_item(rng, rng.choice(shape) if shape else 1) for _ in range(count)]
        text = f"({', '.join(items)},)" if items else "()"
        if len(items) == 1 and rng.random() < 0.5:
            text = items[0]
        return {"shape": [*shape], "text": text, "way": rng.choice(_WAYS), "write": rng.random() < 0.2}

    def run(self, case: Case) -> str:
        """Select, and compare with NumPy."""
        array, values = _arrays(tuple(case["shape"]))
        try:
            selection = eval(case["text"], _NAMES)
        except Exception:
            return "no selection"
        way = case["way"]
        where = array if way == "basic" else getattr(array, way)
        results = []
        for executor in executors_here():
            with config.configure(executor=executor):
                results.append(outcome(lambda: where[selection]))
        first, last = results[0], results[-1]
        if isinstance(first, TegulaError) != isinstance(last, TegulaError):
            raise Violation("disagreement", f"the kernel says {short(first)}, the reference {short(last)}")
        if not isinstance(first, TegulaError) and not same(first, last):
            raise Violation("disagreement", f"the kernel says {short(first)}, the reference {short(last)}")
        self._judge(way, selection, values, first)
        if case["write"]:
            self._write(array, values, way, selection)
        return f"refused {type(first).__name__}" if isinstance(first, TegulaError) else "accepted"

    def _judge(self, way: str, selection: Any, values: Any, found: Any) -> None:
        """Compare with NumPy where both mean the same: ints, slices and ellipses, and one list for each axis."""
        items = selection if isinstance(selection, tuple) else (selection,)
        plain = all(type(item) in (int, slice, type(...)) for item in items)
        if way == "blocks" or not (plain or way != "basic"):
            return
        with np.errstate(all="ignore"):
            try:
                wanted = _orthogonal(values, items) if way == "oindex" and not plain else values[selection]
            except Exception:
                if plain and way == "basic" and not isinstance(found, TegulaError):
                    raise Violation("numpy", f"NumPy refuses what gives {short(found)}") from None
                return
        if isinstance(found, TegulaError):
            if plain and way == "basic":
                raise Violation("numpy", f"{short(found)}, where NumPy gives {short(wanted)}")
        elif (plain or way == "oindex") and not np.array_equal(np.asarray(found), wanted):
            raise Violation("numpy", f"{short(found)}, where NumPy gives {short(wanted)}")

    def _write(self, array: Any, values: Any, way: str, selection: Any) -> None:
        """Write what is selected back: nothing may change."""
        where = array if way == "basic" else getattr(array, way)
        found = outcome(lambda: where[selection])
        if isinstance(found, TegulaError):
            return
        outcome(lambda: where.__setitem__(selection, found))
        if not same(array[...], values[...]):
            raise Violation("write", f"writing back what was read gives {short(array[...])}")


def _orthogonal(values: Any, items: tuple[Any, ...]) -> Any:
    """Return what items select if each stands for its own axis, the last axis first so that the others stay."""
    if any(item is ... or item is None for item in items) or len(items) > values.ndim:
        raise IndexError
    for axis in reversed(range(len(items))):
        item = items[axis]
        item = np.asarray(item) if isinstance(item, list) and item else item
        values = values[(slice(None),) * axis + (item,)]
    return values
