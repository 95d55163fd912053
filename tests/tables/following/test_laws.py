"""Whatever a writer does, and wherever a follower looks in between: each row once, in order, as it was written."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables.following.stepping import Stepping

import tegula

pytestmark = pytest.mark.once(executors="both")
FORMATS = ["bcolz", "n5", "zarr1", "zarr2", "zarr3"]


@settings(max_examples=200)
@given(st.data())
def test_rows_are_given_once_and_never_before_they_are_written(data: st.DataObject) -> None:
    """Several writers append, one of them between two steps of another; row `n` holds ``n + 1`` everywhere."""
    fmt = data.draw(st.sampled_from(FORMATS))
    width, rows = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    across = width if fmt == "bcolz" else data.draw(st.integers(1, width))
    options: dict[str, Any] = {}
    if fmt == "zarr3" and data.draw(st.booleans()):
        options["shards"] = (rows * data.draw(st.integers(1, 3)), across * data.draw(st.integers(1, 2)))
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    settle = data.draw(st.sampled_from([math.inf, 1e6]))
    store = Stepping()
    tegula.create_array(store, shape=(0, width), chunks=(rows, across), dtype="i4", format=fmt, **options)
    follower = tegula.follow(tegula.open(store), from_row=0, timeout=0, settle=settle)
    given_rows: list[int] = []
    written = depth = 0

    def look() -> None:
        nonlocal follower
        for block in follower:
            assert block.start == len(given_rows)
            assert not block.assumed
            assert block.values.all()
            assert (block.values == block.values[:, :1]).all()
            given_rows.extend(block.values[:, 0].tolist())
        if chance.random() < 0.2:
            follower = tegula.follow(tegula.open(store), token=follower.token, timeout=0, settle=settle)

    def between() -> None:
        if chance.random() < 0.5:
            look()
        if depth < 2 and chance.random() < 0.1:
            store._is_called = False
            append()

    def append() -> None:
        nonlocal written, depth
        depth += 1
        count = chance.randint(1, 7)
        first, written = written + 1, written + count
        new = np.arange(first, first + count)[:, np.newaxis] * np.ones(width, int)
        tegula.open(store, mode="r+").append(new)
        depth -= 1

    store.between = between
    with tegula.config.configure(threads=1):  # or several threads change the store at the same time, and look
        for _ in range(data.draw(st.integers(1, 8))):
            append()
    store.between = None
    look()
    assert given_rows == tegula.open(store)[:, 0].tolist()
    assert sorted(given_rows) == [*range(1, written + 1)]
    assert follower.position == written


@settings(max_examples=60)
@given(st.data())
def test_rows_of_tables_exist_when_all_columns_have_them(data: st.DataObject) -> None:
    """tegula appends to all columns; or another program to one after the other, the length first."""
    fmt = data.draw(st.sampled_from(["bcolz", "zarr2", "zarr3"]))
    is_own = fmt == "bcolz" or data.draw(st.booleans())
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    store = Stepping()
    columns = {"n": np.zeros(0, "i8"), "wide": np.zeros((0, 2), "f4"), "flag": np.zeros(0, bool)}
    tegula.create_table(store, columns, format=fmt, chunks=data.draw(st.integers(1, 5)))
    # a column of flags can't be told from one that was not written
    follower = tegula.follow(tegula.open_table(store), from_row=0, timeout=0, settle=None if is_own else math.inf)
    found: list[Any] = []

    def look() -> None:
        for block in follower:
            assert block.start == len(found)
            found.extend(block.values.tolist())

    def between() -> None:
        if chance.random() < 0.5:
            look()

    store.between = between
    written: list[Any] = []
    for _ in range(data.draw(st.integers(1, 6))):
        first, count = len(written) + 1, chance.randint(1, 6)
        numbers = np.arange(first, first + count)
        flags = numbers % 2 == 0 if is_own else np.ones(count, bool)
        new = {"n": numbers, "wide": np.stack([numbers, -numbers], 1).astype("f4"), "flag": flags}
        written += [(n, [n, -n], flag) for n, flag in zip(numbers.tolist(), flags.tolist())]
        if is_own:
            tegula.open_table(store, mode="r+").append(new)
            continue
        for name in chance.sample([*new], 3):
            column = tegula.open_array(store, path=name, mode="r+")
            column.resize(len(written), *column.shape[1:])
            column[first - 1 :] = new[name]
    store.between = None
    look()
    assert [(n, np.asarray(wide).tolist(), flag) for n, wide, flag in found] == written


@settings(max_examples=60)
@given(st.data())
def test_rows_of_one_writer_need_not_differ_from_the_fill_value(data: st.DataObject) -> None:
    """Nothing is assumed, and what is not given at the end is what the last append may not have written."""
    store = Stepping()
    length = data.draw(st.integers(1, 5))
    tegula.create_array(store, shape=0, chunks=length, dtype="u1")
    follower = tegula.follow(tegula.open(store), from_row=0, timeout=0, settle=math.inf, single_writer=True)
    found: list[int] = []
    written: list[int] = []

    def look() -> None:
        for block in follower:
            assert block.start == len(found)
            found.extend(block.values.tolist())
            assert found == written[: len(found)]

    chance = random.Random(data.draw(st.integers(0, 2**32)))
    store.between = lambda: look() if chance.random() < 0.7 else None
    last = 0
    for new in data.draw(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5), max_size=8)):
        last = len(written)
        written += new
        tegula.open(store, mode="r+").append(np.array(new, "u1"))
        look()
    assert len(found) >= last
    tail = written[len(found) :]
    assert not any(tail[:1]), "a row that differs from the fill value is given"
    store.between = None  # which keeps the follower, and its descriptors, in a cycle
