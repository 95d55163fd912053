"""Tables behave as a dict of equally long NumPy arrays does, in every format that can hold them."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tegula
from tegula.arrays.node import Node
from tegula.errors import (
    AlreadyExistsError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    SelectionError,
    TegulaError,
    UnsupportedError,
)

FORMATS = ["bcolz", "zarr2", "zarr3"]
each_format = pytest.mark.parametrize("format", FORMATS)
DTYPES = ["i4", ">i2", "f8", "U3", "S4", "?", "M8[s]", ("u1", (2,))]
NAMES = ["a", "b", "é", "with space", "data", "meta", "c", "0"]


def make(dtype: Any, rows: int, seed: int = 0) -> Any:
    """Return values of a column, without values that are not equal to themselves (NaN, NaT)."""
    dtype = np.dtype(dtype)
    numbers = np.random.default_rng(seed).integers(0, 100, (rows, *dtype.shape))
    return numbers.astype(dtype.base)


def check_rows(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    for name in expected.dtype.names or ():
        np.testing.assert_array_equal(found[name], expected[name])


class TableMachine(RuleBasedStateMachine):
    """Any sequence of changes leaves the table equal to a dict of arrays with the same changes."""

    @initialize(format=st.sampled_from(FORMATS), chunks=st.integers(1, 7), rows=st.integers(0, 20))
    def create(self, format: str, chunks: int, rows: int) -> None:
        self.store = tegula.MemoryStore()
        self.model = {"a": make("i8", rows), "b": make("U3", rows)}
        self.chunks = chunks
        self.table = tegula.create_table(self.store, self.model, format=format, path="t", chunks=chunks)

    @property
    def rows(self) -> int:
        return len(next(iter(self.model.values()))) if self.model else 0

    def records(self) -> Any:
        out = np.empty(self.rows, [(name, values.dtype, values.shape[1:]) for name, values in self.model.items()])
        for name, values in self.model.items():
            out[name] = values
        return out

    @rule(count=st.integers(0, 12), seed=st.integers(0, 99), form=st.sampled_from(["dict", "records", "list", "row"]))
    @precondition(lambda self: self.model)
    def append(self, count: int, seed: int, form: str) -> None:
        count = 1 if form == "row" else count
        new = {
            name: make((values.dtype, values.shape[1:]), count, seed + place)
            for place, (name, values) in enumerate(self.model.items())
        }
        self.model = {
            name: np.concatenate([values, new[name]]).astype(values.dtype) for name, values in self.model.items()
        }
        rows = {
            "dict": new,
            "list": [*new.values()],
            "row": {name: part[0] for name, part in new.items()} if count else {},
        }
        assert self.table.append(rows.get(form, self.records()[self.rows - count :])) == self.rows

    @rule(name=st.sampled_from(NAMES), dtype=st.sampled_from(DTYPES), place=st.integers(0, 3), seed=st.integers(0, 9))
    def add_column(self, name: str, dtype: Any, place: int, seed: int) -> None:
        values = make(dtype, self.rows, seed)
        if name in self.model:
            with pytest.raises(AlreadyExistsError):
                self.table.add_column(name, values)
            return
        if seed:
            self.table.add_column(name, values, position=place, chunks=self.chunks)
        else:
            values = np.zeros_like(values)
            self.table.add_column(name, dtype=dtype, position=place)
        values = values.astype(self.table[name].dtype)  # Zarr v3 knows no byte order
        names = [*self.model]
        names.insert(place, name)
        self.model = {known: {**self.model, name: values}[known] for known in names}

    @rule(name=st.sampled_from(NAMES))
    def remove_column(self, name: str) -> None:
        if name not in self.model:
            with pytest.raises(NotFoundError):
                self.table.remove_column(name)
            return
        self.table.remove_column(name)
        del self.model[name]

    @rule(rows=st.integers(0, 25))
    def resize(self, rows: int) -> None:
        self.table.resize(rows)
        for name, values in self.model.items():
            new = np.zeros((rows, *values.shape[1:]), values.dtype)
            new[: len(values)] = values[:rows]
            self.model[name] = new

    @rule(selection=st.slices(15), seed=st.integers(0, 9))
    @precondition(lambda self: self.model)
    def write(self, selection: slice, seed: int) -> None:
        rows = self.records()
        for name in self.model:
            rows[name] = make((rows.dtype[name].base, rows.dtype[name].shape), self.rows, seed)
        self.table[selection] = rows[selection]
        for name, values in self.model.items():
            values[selection] = rows[name][selection]

    @rule(value=st.integers())
    def set_attribute(self, value: int) -> None:
        self.table.attrs["value"] = value % 1000
        assert self.table.attrs.asdict() == {"value": value % 1000}

    @rule(again=st.sampled_from(["open", "refresh"]))
    def look_again(self, again: str) -> None:
        if again == "refresh":
            self.table.refresh()
        else:
            self.table = tegula.open_table(self.store, "r+", path="t", format=self.table.format)

    @rule(selection=st.slices(15))
    def read_slice(self, selection: slice) -> None:
        check_rows(self.table[selection], self.records()[selection])

    @rule(data=st.data())
    @precondition(lambda self: self.rows)
    def read_rows(self, data: st.DataObject) -> None:
        expected = self.records()
        number = data.draw(st.integers(-self.rows, self.rows - 1))
        check_rows(self.table[number], expected[number])
        numbers = data.draw(st.lists(st.integers(-self.rows, self.rows - 1), max_size=5))
        check_rows(self.table[numbers], expected[np.array(numbers, int)])
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=self.rows, max_size=self.rows)), bool)
        check_rows(self.table[mask], expected[mask])

    @rule(limit=st.none() | st.integers(0, 5), skip=st.integers(0, 5), least=st.integers(0, 100))
    @precondition(lambda self: "a" in self.model and self.model["a"].dtype == "i8")
    def where(self, limit: int | None, skip: int, least: int) -> None:
        found = self.table.where("a >= least", variables={"least": least}, limit=limit, skip=skip)
        expected = self.records()[self.model["a"] >= least]
        check_rows(found, expected[skip:][:limit])

    @invariant()
    def it_equals_the_model(self) -> None:
        table = self.table
        assert table.names == (*self.model,)
        assert len(table) == self.rows
        assert table.is_consistent
        assert table.dtype == self.records().dtype
        read = table.read()
        for name, values in self.model.items():
            assert name in table
            assert read[name].dtype == values.dtype
            np.testing.assert_array_equal(read[name], values)
            np.testing.assert_array_equal(table[name][...], values)


TableMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
TestTable = TableMachine.TestCase


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest) -> tegula.Table:
    columns = {"i": np.arange(20, dtype="i4"), "f": np.arange(20) / 2, "s": np.arange(20).astype("U2")}
    return tegula.create_table(tegula.MemoryStore(), columns, format=request.param, chunks=6)


def test_selections_are_those_of_structured_arrays(table: tegula.Table) -> None:
    expected = np.array([(n, n / 2, str(n)) for n in range(20)], table.dtype)
    assert isinstance(table[3], np.void)
    for selection in (
        3,
        -1,
        np.int64(2),
        slice(2, 15, 4),
        slice(None, None, -3),
        slice(30, 40),
        ...,
        (),
        [3, 1, 1],
        [],
    ):
        chosen = np.array(selection, int) if isinstance(selection, list) else selection
        np.testing.assert_array_equal(table[selection], expected[chosen])
    np.testing.assert_array_equal(table[["s", "i"]], expected[["s", "i"]])
    np.testing.assert_array_equal(np.asarray(table), expected)
    assert [*table] == [*expected]
    assert table.shape == (20,)
    assert table.nbytes == expected.nbytes
    for selection in (20, -21, [20], [0.5], ["i", 3], [True], np.zeros(19, bool), (1, 2), None, 1.5, [[1]], slice("a")):
        with pytest.raises(SelectionError):
            table[selection]
    for names in ("x", ["i", "x"]):
        with pytest.raises(NotFoundError):
            table[names]
    with pytest.raises(SelectionError):
        table[["i", "i"]]


def test_rows_are_written_in_every_form(table: tegula.Table) -> None:
    table[0] = (7, 8.5, "x")
    table[1] = table[5]
    table[2:4] = [(1, 2, "a"), (3, 4, "b")]
    table[[4, 6]] = {"f": [0.25, 0.75]}
    table["s"] = "zz"
    assert table[:7].tolist() == [
        *((7, 8.5, "zz"), (5, 2.5, "zz"), (1, 2.0, "zz"), (3, 4.0, "zz"), (4, 0.25, "zz"), (5, 2.5, "zz")),
        (6, 0.75, "zz"),
    ]
    before = table[...]
    inexact = [(1.5, 2, "a"), (1, 2, "long"), [(1, 2, "a"), (3, 4, "long")], [1], (2**40, 2, "a")]
    for wrong in (*inexact, (1, 2), {"x": [1]}, {"s": ["long"]}, {"i": [0.5]}, 5, "a"):
        with pytest.raises(TegulaError):
            table[3:4] = wrong
    assert table[...].tobytes() == before.tobytes()


WRONG_ROWS: list[Any] = [
    {"i": [1], "f": [1.0]},
    {"i": [1], "f": [1.0], "s": ["a"], "t": [1]},
    {"i": [1], "f": [1.0, 2.0], "s": ["a"]},
    {"i": [2**40], "f": [1.0], "s": ["a"]},
    {"i": [1.5], "f": [1.0], "s": ["a"]},
    {"i": [None], "f": [1.0], "s": ["a"]},
    {"i": [1], "f": ["x"], "s": ["a"]},
    {"i": [1], "f": [1j], "s": ["a"]},
    {"i": [1], "f": [None], "s": ["a"]},
    {"i": [1], "f": [1.0], "s": ["too long"]},
    {"i": [1], "f": [1.0], "s": [5]},
    {"i": [1], "f": [1.0], "s": [b"\xff"]},
    {"i": [[1]], "f": [1.0], "s": ["a"]},
    {"i": 1, "f": [1.0], "s": ["a"]},
    {1: [1], "f": [1.0], "s": ["a"]},
    [[1], [2.0]],
    [[1, 2], [1.0]],
    np.zeros(2, [("i", "i4")]),
    np.zeros(2),
    5,
    "ifs",
    None,
]


@pytest.mark.parametrize("rows", WRONG_ROWS, ids=range(len(WRONG_ROWS)))
def test_rows_that_do_not_fit_change_nothing(table: tegula.Table, rows: Any) -> None:
    before = dict(_content(table))
    with pytest.raises(MetadataError):
        table.append(rows)
    assert dict(_content(table)) == before


def _content(table: tegula.Table) -> Any:
    return ((key, bytes(table.store.get(key) or b"")) for key in table.store.list())


def test_queries(table: tegula.Table) -> None:
    rows = table[...]
    assert table.where("1 < f <= 3 and s != '5'", ["i"])["i"].tolist() == [3, 4, 6]
    assert table.where("i in [3, 99] or f == limit", variables={"limit": 4}).tolist() == rows[[3, 8]].tolist()
    assert table.where("w > 15", variables={"w": np.arange(20)}).tolist() == rows[16:].tolist()
    assert table.where("i > 5", variables={"i": table["f"]})["i"].tolist() == [*range(11, 20)]
    assert table.where("i < 0").tolist() == []
    assert table.where("True", ["i"], limit=2)["i"].tolist() == [0, 1]
    assert [len(block) for block in table.where_blocks("i % 2 == 0", limit=3)] == [3]
    with pytest.raises(NotFoundError):
        table.where("nothing > 1")
    with pytest.raises(NotFoundError):
        table.where("i > 1", ["nothing"])
    for wrong in ("i", "sum(i) > 1", "__import__('os')", "i >", "w > 1", "i > 'a'"):
        with pytest.raises((MetadataError, UnsupportedError)):
            table.where(wrong, variables={"w": np.arange(3)})
    for options in ({"limit": -1}, {"limit": 1.5}, {"skip": "a"}):
        with pytest.raises(MetadataError):
            table.where("i > 1", **options)


@each_format
def test_queries_over_many_blocks(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.tables.queries._BLOCK_BYTES", 1000)
    a, b = make("i8", 5000, 1), make(("f4", (3,)), 5000, 2)
    table = tegula.create_table({}, {"a": a, "b": b}, format=format, chunks=70)
    for text, mask in (("a == 5", a == 5), ("a > 5", a > 5), ("a < 0", a < 0)):
        found = table.where(text)
        np.testing.assert_array_equal(found["a"], a[mask])
        np.testing.assert_array_equal(found["b"], b[mask])
    found = table.where("a > 50", ["b"], skip=100, limit=1500)
    np.testing.assert_array_equal(found["b"], b[a > 50][100:1600])


def test_different_lengths_are_reported_and_repaired(table: tegula.Table) -> None:
    before = table[...]
    table["i"].append([20, 21])  # as an append that was killed, or another program, leaves it
    assert (len(table), table.is_consistent) == (20, False)
    assert table.lengths() == {"i": 22, "f": 20, "s": 20}
    np.testing.assert_array_equal(table[...], before)
    np.testing.assert_array_equal(table[[-1]], before[[-1]])
    assert len(table.where("i >= 18")) == 2
    with pytest.raises(MetadataError, match=r"i 22, f 20.*repair"):
        table.append(before)
    with pytest.raises(MetadataError, match="repair"):
        table.resize(30)
    with pytest.raises(MetadataError, match="repair"):
        table.add_column("new", dtype="i4")
    assert table.repair() == {"i": 2}
    assert table.repair() == {}
    assert table.append(before) == 40


def test_rows_behind_those_of_the_first_column_are_overwritten(table: tegula.Table) -> None:
    table["s"].append(["x", "y", "z"])
    table["f"].append([0.5])
    assert table.append({"i": [20, 21], "f": [10.0, 10.5], "s": ["20", "21"]}) == 22
    assert table.lengths() == {"i": 22, "f": 22, "s": 22}
    assert table[-2:].tolist() == [(20, 10.0, "20"), (21, 10.5, "21")]


@each_format
def test_threads_that_append_at_once_lose_nothing(format: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tegula.create_table(path, {"a": np.empty(0, "i4"), "b": np.empty(0, "f8")}, format=format, chunks=5)

    def work(number: int) -> None:
        table = tegula.open_table(path, "r+")
        for count in range(10):
            table.append({"a": [number * 100 + count] * 3, "b": [count] * 3})

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(work, range(3))] == [None] * 3
    table = tegula.open_table(path)
    assert len(table) == 90
    assert table.is_consistent
    assert sorted(table["a"][:].tolist()) == sorted(n * 100 + c for n in range(3) for c in range(10) for _ in range(3))
    np.testing.assert_array_equal(table["a"][:] % 100, table["b"][:])


def test_a_reader_sees_new_rows_after_refresh(table: tegula.Table) -> None:
    other = tegula.open_table(table.store)
    assert len(other) == 20
    table.append(table[:2])
    table.add_column("new", dtype="i4")
    assert (len(other), "new" in other) == (20, False)
    other.refresh()
    assert (len(other), "new" in other) == (22, True)
    table.remove_column("i")
    other.refresh()
    assert other.names == ("f", "s", "new")


def test_a_table_opened_for_reading_refuses_writes(table: tegula.Table) -> None:
    reader = tegula.open_table(table.store)
    for write in (
        lambda: reader.append(table[:1]),
        lambda: reader.resize(1),
        reader.repair,
        lambda: reader.add_column("x", dtype="i4"),
        lambda: reader.remove_column("i"),
        lambda: reader.__setitem__(0, table[1]),
        lambda: reader["i"].resize(1),
        lambda: reader.attrs.update(a=1),
    ):
        with pytest.raises(ReadOnlyError):
            write()


# --- creating and opening


@each_format
def test_invalid_columns_are_refused_before_anything_is_written(format: str) -> None:
    store: dict[str, bytes] = {}
    good = {"a": [1, 2], "b": [1.0, 2.0]}
    tegula.create_table(store, good, format=format)
    before = dict(store)
    with pytest.raises(AlreadyExistsError):
        tegula.create_table(store, good, format=format)
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ({"a": [1], "b": [1, 2]}, {}),
        ({"a": 1}, {}),
        ({"a/b": [1]}, {}),
        ({"": [1]}, {}),
        ({".": [1]}, {}),
        ({5: [1]}, {}),
        ({"zarr.json": [1], "__attrs__": [1], ".zattrs": [1]}, {}),
        ({"a": [object()]}, {}),
        (good, {"fill_values": {"c": 1}}),
        (good, {"fill_values": {"a": "x"}}),
        (good, {"chunks": "x"}),
        (good, {"codecs": {"b": "nothing"}}),
        (good, {"attributes": 5}),
        ("i4", {}),
        (5, {}),
    ]
    for columns, options in wrong:
        with pytest.raises((MetadataError, UnsupportedError)):
            tegula.create_table(store, columns, format=format, overwrite=True, **options)
        assert store == before, (columns, options)
    for unable in ("zarr1", "zarr0.4", "none"):
        with pytest.raises((UnsupportedError, MetadataError)):
            tegula.create_table({}, good, format=unable)
    tegula.create_table(store, {"c": [1]}, format=format, overwrite=True)
    assert tegula.open_table(store).names == ("c",)


@each_format
def test_options_are_for_all_columns_or_by_name(format: str) -> None:
    blosc = {"id": "blosc", "cname": "zlib", "clevel": 3, "shuffle": 2}
    table = tegula.create_table(
        {},
        np.dtype([("a", "i4"), ("b", "f8", (3,))]),
        format=format,
        chunks={"b": 7},
        codecs={"a": blosc},
        fill_values={"a": 5},
        attributes={"title": "x"},
        expectedlen=10**6,
    )
    assert len(table) == 0
    assert table["b"].chunks[0] == 7
    assert table["a"].chunks[0] > 1000
    assert any(codec.configuration.get("cname") == "zlib" for codec in table["a"].metadata.codecs)
    assert not any(codec.configuration.get("cname") == "zlib" for codec in table["b"].metadata.codecs)
    table.resize(2)
    assert table["a"][:].tolist() == [5, 5]
    assert table["b"][:].tolist() == [[0.0] * 3] * 2
    assert table.attrs.asdict() == {"title": "x"}


def test_tables_open_by_their_path(tmp_path: Path) -> None:
    for format in FORMATS:
        path = tmp_path / format
        tegula.create_table(path, {"b": [1], "a": [2]}, format=format, path="x/t")
        node = tegula.open(path, path="x/t")
        assert isinstance(node, tegula.Table if format == "bcolz" else tegula.Group)
        assert tegula.open_table(path, path="x/t").names == ("b", "a")
        assert tegula.load(path, path="x/t")["a"].tolist() == [2]
        with pytest.raises(NotFoundError):
            tegula.open_array(path, path="x/t")
        with pytest.raises(NotFoundError):
            tegula.open_table(path, path="x/t/a")
        with pytest.raises(NotFoundError):
            tegula.open_table(path, path="y")
        with pytest.raises(MetadataError):
            tegula.open_table(path, "w", path="x/t")
        assert "t" in str(tegula.open(path, path="x").tree())
    with pytest.raises(NotFoundError):
        tegula.open_group(tmp_path / "bcolz", path="x/t")


def test_a_group_that_does_not_list_its_columns() -> None:
    group = tegula.create_group({})
    for name in ("b", "a"):
        group[name] = np.arange(3)
    table = tegula.open_table(group.store, "r+")
    assert table.names == ("a", "b")
    table.add_column("0", [1, 2, 3])
    assert tegula.open_table(group.store).names == ("a", "b", "0")
    assert "column-order" in tegula.open_group(group.store).attrs
    assert table.attrs.asdict() == {}
    table.attrs.clear()
    assert tegula.open_table(group.store).names == ("a", "b", "0")
    with pytest.raises(MetadataError, match="column-order"):
        table.attrs["column-order"] = ["a"]
    group = tegula.create_group({})
    group["a"], group["b"] = np.arange(3), np.arange(4)
    with pytest.raises(MetadataError, match="shapes"):
        tegula.open_table(group.store)


@pytest.mark.parametrize("names", ["a", 5, ["a", "a"], ["../a"], ["a/b"], [""], [5], [None], ["."], {"a": 1}, ["a\0"]])
def test_hostile_names(names: Any) -> None:
    group = tegula.create_group({}, attributes={"column-order": names})
    group["a"] = np.arange(3)
    with pytest.raises(MetadataError):
        tegula.open_table(group.store)
    ctable = {"__rootdirs__": json.dumps({"names": names}).encode(), "__attrs__": b"{}"}
    with pytest.raises(MetadataError):
        tegula.open_table(ctable)


def test_columns_that_are_missing_or_not_arrays() -> None:
    group = tegula.create_group({}, attributes={"column-order": ["a", "b"]})
    group["a"] = np.arange(3)
    for _ in range(2):
        table = tegula.open_table(group.store)
        assert table["a"][:].tolist() == [0, 1, 2]
        for use in (len, itemgetter("b"), itemgetter(0), attrgetter("dtype"), repr):
            with pytest.raises(MetadataError, match="'b'"):
                use(table)
        group.require_group("b")


# --- frames


def test_pandas_and_back() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "i": np.arange(5, dtype="i2"),
            "f": [0.5, np.nan, 1, 2, 3],
            "text": ["a", "bcd", "", "é", "x"],
            "day": pandas.date_range("2020-01-01", periods=5).astype("M8[s]"),
            "kind": pandas.Categorical(["x", "y", "x", "x", "y"]),
            "masked": pandas.array([1, 2, 3, 4, 5], dtype="Int64"),
            "flag": pandas.array([True, False, True, True, True], dtype="boolean"),
            "half": pandas.array([1.5, None, 2, 3, 4], dtype="Float64"),
        }
    )
    for format in FORMATS:
        table = tegula.Table.from_pandas(frame, {}, format=format)
        assert table.append(frame) == 10
        again = table.to_pandas()
        assert [*again] == [*frame]
        expected = frame.astype(
            {"kind": again["text"].dtype, "masked": "i8", "flag": "?", "half": "f8", "text": again["text"].dtype}
        )
        pandas.testing.assert_frame_equal(again[:5], expected)
        assert table["text"].dtype == (np.dtype("U3") if format == "bcolz" else object)
        assert [*table.to_pandas(["f", "i"])] == ["f", "i"]


@pytest.mark.parametrize("format", FORMATS)
def test_columns_of_pandas_that_arrow_holds(format: str) -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for kind, values in ((arrow.string(), ["a", "bcd"]), (arrow.binary(), [b"a", b"\0b"]), (arrow.int8(), [1, 2])):
        frame = pandas.DataFrame({"c": pandas.array(values, dtype=pandas.ArrowDtype(kind))})
        table = tegula.create_table({}, frame, format=format)
        assert table.append(frame) == 4
        assert table["c"][:].tolist() == [*values, *values]
    zoned = pandas.array([1, 2], dtype=pandas.ArrowDtype(arrow.timestamp("us", "America/New_York")))
    missing = pandas.array(["a", None], dtype=pandas.ArrowDtype(arrow.string()))
    for column, error in ((zoned, UnsupportedError), (missing, MetadataError)):
        with pytest.raises(error, match="'bad'"):
            tegula.create_table({}, pandas.DataFrame({"bad": column}), format=format)


def test_values_of_pandas_that_a_table_can_not_hold() -> None:
    pandas = pytest.importorskip("pandas")
    day = pandas.Timestamp("2020-01-01")
    for column in (
        pandas.array(["a", None], dtype="string"),
        pandas.array([1, None], dtype="Int64"),
        pandas.Categorical(["a", None]),
        pandas.Series([day.tz_localize("UTC")] * 2),
        pandas.Series([pandas.Period("2020", "Y")] * 2),
        pandas.Series([object(), object()]),
    ):
        with pytest.raises((MetadataError, UnsupportedError), match="'bad'"):
            tegula.create_table({}, pandas.DataFrame({"good": [1, 2], "bad": column}))
    with pytest.raises(MetadataError):
        tegula.create_table({}, pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    table = tegula.create_table({}, {"v": np.zeros((2, 3))})
    with pytest.raises(UnsupportedError, match="'v'"):
        table.to_pandas()


@pytest.mark.slow
def test_frames_are_imported_when_they_are_needed() -> None:
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "pyarrow"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Refuse())
import numpy as np, tegula
table = tegula.create_table({}, {"a": np.arange(100_000), "b": np.ones(100_000)})
assert len(table.where("(a > 5) & (b == 1)")) == 99_994
for method in (table.to_pandas, table.to_arrow):
    try:
        method()
    except tegula.UnsupportedError as error:
        print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert "pip install pandas" in done.stdout
    assert "pip install pyarrow" in done.stdout


# --- objects, and what is shown


@pytest.mark.parametrize("format", ["bcolz", "zarr2"])
def test_objects_need_the_opt_in(format: str) -> None:
    codecs = {"o": {"id": "pickle"}} if format == "zarr2" else "auto"
    objects = np.array([[1, 2], {"a": 1}, None, "text", b"raw", 5], object)
    columns = {"o": objects, "i": np.arange(6)}
    table = tegula.create_table({}, columns, format=format, codecs=codecs, allow_pickle=True, chunks=2)
    table.append({"o": np.array([("x",), 1.5], object), "i": [6, 7]})
    assert table["o"][:].tolist() == [*objects.tolist(), ("x",), 1.5]
    assert table[0].tolist() == ([1, 2], 0)
    assert table.where("i == 3")["o"].tolist() == ["text"]
    assert tegula.open_table(table.store, allow_pickle=True)[-1].tolist() == (1.5, 7)
    with pytest.raises(TegulaError):
        tegula.open_table(table.store)["o"][:]
    with pytest.raises(TegulaError, match="'o'"):
        tegula.create_table({}, columns, format=format, codecs=codecs)


@pytest.mark.parametrize("format", ["bcolz", "zarr2"])
def test_columns_beside_objects_need_no_opt_in(format: str) -> None:
    codecs = {"o": {"id": "pickle"}} if format == "zarr2" else "auto"
    columns = {"o": np.array([None, {1}], object), "i": np.arange(2)}
    written = tegula.create_table({}, columns, format=format, codecs=codecs, allow_pickle=True)
    table = tegula.open_table(written.store)
    assert (len(table), table.lengths(), table.is_consistent) == (2, {"o": 2, "i": 2}, True)
    assert "2 rows" in repr(table)
    assert table[["i"]].tolist() == [(0,), (1,)]
    assert table.read(["i"], 1)["i"].tolist() == [1]
    assert table.to_pandas(["i"])["i"].tolist() == [0, 1]
    assert table.where("i > 0", ["i"]).tolist() == [(1,)]
    for unpickling in (lambda: table[0], lambda: table.where("i > 0"), lambda: table["o"]):
        with pytest.raises(UnsupportedError, match="allow_pickle"):
            unpickling()
    with pytest.raises(NotFoundError, match="the columns are o, i"):
        table.where("k > 0", ["i"])


def test_info_and_html(table: tegula.Table) -> None:
    assert repr(table).startswith(f"<tegula.Table {table.format} 20 rows × 3 columns 'memory:")
    info = table.info
    assert info["Rows"] == 20
    assert info["Columns"] == 3
    assert "6 rows a chunk" in info["  i"]
    assert "Lengths differ" not in info
    assert "<table" in table._repr_html_()
    table["i"].append([1])
    assert table.info["Lengths differ"] == {"i": 21, "f": 20, "s": 20}


@each_format
def test_it_can_be_pickled_and_compared(format: str, tmp_path: Path) -> None:
    table = tegula.create_table(tmp_path / "t", {"a": [1, 2]}, format=format)
    other = pickle.loads(pickle.dumps(table))
    assert other == table
    assert hash(other) == hash(table)
    assert other != 5
    assert other.append({"a": [3]}) == 3
    assert pickle.loads(pickle.dumps(tegula.open_table(tmp_path / "t"))).read_only is not False


@pytest.mark.parametrize("format", ["bcolz", "zarr3"])
def test_names_and_rows_can_be_selected_together(format: str) -> None:
    values = {"a": np.arange(9), "b": np.arange(9.0), "c": np.arange(18).reshape(9, 2)}
    table = tegula.create_table({}, values, format=format)
    for rows in (slice(2, 7, 2), slice(None, None, -1), [3, 1], np.arange(9) % 2 == 0):
        np.testing.assert_array_equal(table["c", rows], values["c"][rows])
        np.testing.assert_array_equal(table[["c", "a"], rows], table[rows][["c", "a"]])
    assert table["b", 4] == 4.0
    assert table[["b"], -1].tolist() == (8.0,)
    for wrong in ((["a"], 1, 2), (["a", 5], 1), ([], 1), (1, 2)):
        with pytest.raises(SelectionError):
            table[wrong]


def test_a_column_whose_directory_is_gone_can_be_removed(tmp_path: Any) -> None:
    tegula.create_table(tmp_path / "t", {"a": [1, 2], "b": [3, 4]})
    shutil.rmtree(tmp_path / "t" / "a")
    table = tegula.open_table(tmp_path / "t", "r+")
    with pytest.raises(MetadataError, match="'a'"):
        len(table)
    table.remove_column("a")
    assert tegula.open_table(tmp_path / "t")[:].tolist() == [(3,), (4,)]


def test_a_table_is_one_class() -> None:
    assert tegula.Table.__bases__ == (Node,)
