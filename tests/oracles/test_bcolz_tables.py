"""Tables: bcolz reads ours, we read those of bcolz, and both may change one table in turn."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcolz
import numcodecs.blosc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula

Columns = dict[str, np.ndarray[Any, Any]]
DTYPES = ["bool", "i1", "u2", "i4", "i8", ">i4", "f4", "f8", "S3", "U2", "M8[ns]"]
NAMES = ["z", "a", "m", "größe", "_x", "data", "meta", "Z"]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """With several threads the order of the blocks in a frame is random."""
    before = numcodecs.blosc.set_nthreads(1), bcolz.blosc_set_nthreads(1)
    yield
    numcodecs.blosc.set_nthreads(before[0])
    bcolz.blosc_set_nthreads(before[1])


def column(dtype: str, rows: int, seed: int, inner: tuple[int, ...] = ()) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed).integers(0, 120, (rows, *inner))
    if dtype == "bool":
        return numbers % 3 == 0
    return numbers.astype("U2" if dtype == "U2" else "i8").astype(dtype)


@st.composite
def tables(draw: st.DrawFn) -> Columns:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    rows, seed = draw(st.integers(0, 60)), draw(st.integers(0, 99))
    inner = st.sampled_from([(), (), (2,), (1, 3)])
    return {name: column(draw(st.sampled_from(DTYPES)), rows, seed, draw(inner)) for name in names}


def files(path: str) -> dict[str, Any]:
    """Read every file below a directory; of ``meta/sizes`` only what does not depend on bcolz's way of counting."""
    found: dict[str, Any] = {}
    for file in sorted(Path(path).rglob("*")):
        if file.is_file():
            name = str(file.relative_to(path))
            found[name] = file.read_bytes()
            if name.endswith("meta/sizes"):
                found[name] = {key: value for key, value in json.loads(found[name]).items() if key != "cbytes"}
    return found


def check(path: str, expected: Columns) -> None:
    """Compare what both read, with what is expected."""
    rows = len(next(iter(expected.values())))
    ours, theirs = tegula.open_table(path), bcolz.ctable(rootdir=path, mode="r")
    assert list(ours.names) == theirs.names == [*expected]
    assert len(ours) == len(theirs) == rows
    assert ours.dtype == theirs.dtype
    assert ours[:].tobytes() == theirs[:].tobytes()
    for name, values in expected.items():
        for found in (ours[name][:], theirs[name][:], ours[:][name]):
            assert found.dtype == values.dtype
            assert found.shape == values.shape
            assert found.tobytes() == values.tobytes()
    if rows:
        assert np.array_equal(ours[rows // 2], theirs[rows // 2])
        assert ours[1::2].tobytes() == theirs[1::2].tobytes()


@pytest.mark.slow
@settings(max_examples=60)
@given(tables(), st.integers(1, 20))
def test_the_same_table_is_stored_in_the_same_bytes(columns: Columns, chunklen: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        chunks = {name: (chunklen, *values.shape[1:]) for name, values in columns.items()}
        tegula.create_table(f"{root}/ours", columns, chunks=chunks, attributes={"ü": [1]}, format="bcolz")
        stored = bcolz.ctable([*columns.values()], names=[*columns], rootdir=f"{root}/theirs", chunklen=chunklen)
        stored.attrs["ü"] = [1]
        assert files(f"{root}/ours") == files(f"{root}/theirs")
        check(f"{root}/ours", columns)
        check(f"{root}/theirs", columns)


STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["append", "append", "trim", "grow", "add", "remove", "set"]),
        st.integers(0, 25),
    ),
    max_size=7,
)


def change(path: str, ours: bool, what: str, count: int, columns: Columns) -> Columns:
    """Let one of the two change the table, and return the values that it must then have."""
    table: Any = tegula.open_table(path, mode="r+") if ours else bcolz.ctable(rootdir=path, mode="a")
    rows = len(next(iter(columns.values())))
    changed = dict(columns)
    if what == "append":
        new = {name: column(values.dtype.str, count, 7, values.shape[1:]) for name, values in columns.items()}
        table.append(new if ours else [*new.values()])
        changed = {name: np.concatenate([columns[name], new[name]]).astype(new[name].dtype) for name in columns}
    elif what in ("trim", "grow"):
        wanted = max(0, rows - count) if what == "trim" else rows + count
        table.resize(wanted)
        changed = {name: resized(values, wanted) for name, values in columns.items()}
    elif what == "add" and f"new{count}" not in columns:
        name, values = f"new{count}", column("i4", rows, count)
        position = count % (len(columns) + 1)
        if ours:
            table.add_column(name, values, position=position)
        else:
            table.addcol(values, name=name, pos=position)
        changed = {key: columns.get(key, values) for key in inserted([*columns], position, name)}
    elif what == "remove" and len(columns) > 1:
        name = [*columns][count % len(columns)]
        del changed[name]
        if ours:
            table.remove_column(name)
        else:
            table.delcol(name)
    elif what == "set" and rows:
        name = [*columns][count % len(columns)]
        table[name][:] = changed[name] = columns[name][::-1].copy()
    if not ours:
        table.flush()
    return changed


def resized(values: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    result = np.zeros((rows, *values.shape[1:]), values.dtype)
    result[: len(values)] = values[:rows]
    return result


def inserted(names: list[str], position: int, name: str) -> list[str]:
    return [*names[:position], name, *names[position:]]


@pytest.mark.slow
@settings(max_examples=80)
@given(tables(), STEPS)
def test_both_change_one_table_in_turn(columns: Columns, steps: list[tuple[bool, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        path = f"{root}/t"
        bcolz.ctable([*columns.values()], names=[*columns], rootdir=path, chunklen=10)
        check(path, columns)
        for ours, what, count in steps:
            if what == "grow" and any(values.dtype.kind == "M" for values in columns.values()):
                continue  # bcolz can't, once it has opened the table again
            columns = change(path, ours, what, count, columns)
            check(path, columns)


@settings(max_examples=40)
@given(st.integers(0, 99), st.sampled_from(["a > 60", "(a < 50) & (b >= 10)", "b == 7", "a * 2 == b", "~(a > 5)"]))
def test_where(seed: int, expression: str) -> None:
    columns = {"a": column("i4", 200, seed), "b": column("f8", 200, seed + 1), "s": column("S3", 200, seed)}
    with tempfile.TemporaryDirectory() as root:
        stored = bcolz.ctable([*columns.values()], names=[*columns], rootdir=f"{root}/t", chunklen=33)
        expected = stored[:][stored.eval(expression)[:]]
        assert tegula.open_table(f"{root}/t").where(expression).tolist() == expected.tolist()


def test_lengths_that_differ_are_repaired_for_both(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    columns = {"a": np.arange(25), "b": np.arange(25) / 2}
    for name in columns:
        bcolz.ctable([*columns.values()], names=[*columns], rootdir=path, mode="w", chunklen=10)
        array = bcolz.carray(rootdir=f"{path}/{name}", mode="a")
        array.append(np.zeros(17, array.dtype))
        array.flush()
        table = tegula.open_table(path, mode="r+")
        assert len(table) == 25
        assert not table.is_consistent
        assert table.repair() == {name: 17}
        check(path, columns)
        assert table.append({"a": [25], "b": [12.5]}) == 26
        check(path, {"a": np.arange(26), "b": np.arange(26) / 2})
