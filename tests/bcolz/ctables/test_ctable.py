"""The ctable: structured arrays of NumPy as the oracle, in memory and on disk, and the real bcolz on one directory."""

import os
import pickle
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula import TegulaError, bcolz
from tegula.bcolz import storage
from tegula.bcolz.errors import KindError
from tegula.errors import MetadataError, NotFoundError

DTYPE = np.dtype([("i", "<i4"), ("f", "<f8"), ("s", "S3"), ("n", "<i2", (2,))])
FORMS: list[Callable[[Any], Any]] = [
    lambda rows: rows,
    lambda rows: [rows[name] for name in rows.dtype.names],
    lambda rows: tuple(rows[name].tolist() for name in rows.dtype.names),
    lambda rows: [bcolz.carray(rows[name]) for name in rows.dtype.names],
    lambda rows: {name: rows[name] for name in rows.dtype.names},
    bcolz.ctable,
]


def rows_of(count: int, seed: int = 0) -> Any:
    rng = np.random.default_rng([count, seed])
    rows = np.zeros(count, DTYPE)
    rows["i"] = rng.integers(-5, 5, count)
    rows["f"] = rng.integers(0, 9, count) / 2
    rows["s"] = rng.choice([b"", b"a", b"xyz"], count)
    rows["n"] = rng.integers(0, 99, (count, 2))
    return rows


def structured(rows: Any, columns: dict[str, Any]) -> Any:
    dtype = [(name, column.dtype, column.shape[1:]) for name, column in columns.items()]
    out = np.zeros(rows, dtype)
    for name, column in columns.items():
        out[name] = column
    return out


ACTIONS = ["append", "one", "resize", "set", "where", "add", "delete", "reopen"]


class Twins:
    """A table, and the structured array that it must equal."""

    def __init__(self, data: st.DataObject, rootdir: str | None, chunklen: int, auto_flush: bool) -> None:
        self.data, self.rootdir, self.auto_flush = data, rootdir, auto_flush
        self.rows = rows_of(data.draw(st.integers(0, 20)))
        self.table = bcolz.ctable(self.rows, rootdir=rootdir, chunklen=chunklen, auto_flush=auto_flush)

    def more(self, count: int, step: int) -> Any:
        rows = rows_of(count, step)
        added = np.ones(count, "u1")
        return structured(count, {name: rows[name] if name in DTYPE.names else added for name in self.table.names})

    def append(self, step: int) -> None:
        more = self.more(self.data.draw(st.integers(0, 15)), step)
        self.table.append(self.data.draw(st.sampled_from(FORMS))(more))
        self.rows = np.concatenate([self.rows, more])

    def one(self, step: int) -> None:
        row = self.more(1, step)
        forms = [row[0], tuple(row[0]), [row[name][0] for name in self.table.names]]
        self.table.append(self.data.draw(st.sampled_from(forms)))
        self.rows = np.concatenate([self.rows, row])

    def resize(self, _: int) -> None:
        length = self.data.draw(st.integers(0, 25))
        if self.data.draw(st.booleans()):
            self.table.resize(length)
        else:
            self.table.trim(len(self.table) - length)
        added = np.zeros(max(0, length - len(self.rows)), self.rows.dtype)
        self.rows = np.concatenate([self.rows[:length], added])

    def set(self, step: int) -> None:
        if len(self.rows):
            key = self.data.draw(keys(len(self.rows)))
            value = self.more(1, step)[0]
            self.table[key] = tuple(value)
            self.rows[key] = value

    def where(self, step: int) -> None:
        if "i" in self.table.names:
            value = self.more(1, step)[0]
            self.table["i > 0"] = tuple(value)
            self.rows[self.rows["i"] > 0] = value

    def add(self, step: int) -> None:
        position = self.data.draw(st.integers(0, len(self.table.names)))
        columns = [(name, self.rows[name]) for name in self.table.names]
        columns.insert(position, (f"c{step}", np.arange(len(self.rows), dtype="u1")))
        self.table.addcol(columns[position][1], name=f"c{step}", pos=position)
        self.rows = structured(len(self.rows), dict(columns))

    def delete(self, _: int) -> None:
        if len(self.table.names) > 1:
            name = self.data.draw(st.sampled_from(self.table.names))
            self.table.delcol(name)
            self.rows = structured(len(self.rows), {n: self.rows[n] for n in self.table.names})

    def reopen(self, _: int) -> None:
        if self.rootdir is not None:
            self.table.flush()
            self.table = bcolz.ctable(rootdir=self.rootdir, auto_flush=self.auto_flush)

    def check(self) -> None:
        t, rows = self.table, self.rows
        assert t.names == [*rows.dtype.names]
        assert (len(t), t.shape, t.size, t.dtype) == (len(rows), rows.shape, rows.size, rows.dtype)
        np.testing.assert_array_equal(t[:], rows)


@settings(max_examples=60)
@given(data=st.data(), disk=st.booleans(), chunklen=st.integers(1, 9), auto_flush=st.booleans())
def test_behaves_as_a_structured_array(data: st.DataObject, disk: bool, chunklen: int, auto_flush: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        twins = Twins(data, f"{folder}/t" if disk else None, chunklen, auto_flush)
        for step in range(6):
            getattr(twins, data.draw(st.sampled_from(ACTIONS)))(step)
            twins.check()
        if len(twins.rows):
            key = data.draw(keys(len(twins.rows)))
            np.testing.assert_array_equal(twins.table[key], twins.rows[key])


def keys(length: int) -> st.SearchStrategy[Any]:
    number = st.integers(-length, length - 1)
    return st.one_of(
        number,
        st.lists(number, min_size=1, max_size=6),
        st.lists(number, max_size=6).map(lambda numbers: np.array(numbers, "i8")),
        st.lists(st.booleans(), min_size=length, max_size=length).map(np.array),
        st.tuples(*[st.integers(-25, 25)] * 2, st.integers(1, 4)).map(lambda parts: slice(*parts)),
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(
    count=st.integers(0, 80),
    chunklen=st.integers(1, 30),
    limit=st.none() | st.integers(0, 20),
    skip=st.integers(0, 10),
    blen=st.none() | st.integers(1, 20),
    condition=st.sampled_from(["i > least", "(i == 0) | (f < 1)", "s == b'xyz'", "f < 0", "i <= 9"]),
)
def test_rows_that_fulfil_a_condition(
    count: int, chunklen: int, limit: int | None, skip: int, blen: int | None, condition: str
) -> None:
    rows, least = rows_of(count), 2
    t = bcolz.ctable(rows, chunklen=chunklen)
    mask = eval(condition, {**{name: rows[name] for name in rows.dtype.names}, "least": least})
    stop = None if limit is None else skip + limit
    numbers = np.flatnonzero(mask)[skip:stop]
    options = {"limit": limit, "skip": skip}
    for what in (condition, mask, bcolz.carray(mask)):
        found = [*t.where(what, ["nrow__", "f", "s"], **options)]
        assert [row.nrow__ for row in found] == numbers.tolist()
        assert [row.f for row in found] == rows["f"][numbers].tolist()
        assert all(type(row.s) is bytes for row in found)
        blocks = [*t.whereblocks(what, blen=blen, outcols="i, n", **options)]
        assert all(len(block) == blen for block in blocks[:-1]) or blen is None
        assert sum(map(len, blocks)) == len(numbers)
        got = t.fetchwhere(what, out_flavor="numpy", **options)
        np.testing.assert_array_equal(got, rows[numbers])
        table = t.fetchwhere(what, outcols=["n", "i"], **options)
        assert table.names == ["n", "i"]
        np.testing.assert_array_equal(table["n"][:], rows["n"][numbers])
    np.testing.assert_array_equal(t[condition], rows[mask])
    np.testing.assert_array_equal(t.eval("i * 2")[:], rows["i"] * 2)


@settings(max_examples=60)
@given(
    count=st.integers(0, 40),
    part=st.tuples(st.integers(-45, 45), st.none() | st.integers(-45, 45), st.integers(1, 5)),
    limit=st.none() | st.integers(0, 20),
    skip=st.integers(0, 10),
)
def test_iterating(count: int, part: Any, limit: int | None, skip: int) -> None:
    rows = rows_of(count)
    t = bcolz.ctable(rows, chunklen=7)
    numbers = np.arange(count)[slice(*part)][skip : None if limit is None else skip + limit]
    found = [*t.iter(*part, outcols=("f", "nrow__"), limit=limit, skip=skip)]
    assert [tuple(row) for row in found] == [*zip(rows["f"][numbers].tolist(), numbers.tolist())]
    arrays = [*t.iter(*part, limit=limit, skip=skip, out_flavor=np.ndarray)]
    assert all(row.shape == (1,) and row.dtype == DTYPE for row in arrays)
    assert [row["i"][0] for row in arrays] == rows["i"][numbers].tolist()
    assert [row.i for row in t] == rows["i"].tolist()
    assert [*t.iter(outcols="i", out_flavor=tuple)] == [(i,) for i in rows["i"].tolist()]


def test_names_in_conditions() -> None:
    t = bcolz.ctable([[1, 2, 3], [4, 5, 6]], names=["a", "open"])
    a = np.array([9, 9, 9])
    assert [row.a for row in t.where("a > 1")] == [2, 3]
    assert t["a < open"]["a"].tolist() == [1, 2, 3]
    assert [row.open for row in t["a > 1"]] == [row.open for row in t[np.array([False, True, True])]] == [5, 6]
    assert t.eval("a + open")[:].tolist() == [13, 14, 15]  # the variable comes first, but no function does
    assert t.fetchwhere("a >= least", user_dict={"least": 3}, out_flavor="numpy")["a"].tolist() == [3]
    assert a.sum() == 27
    with pytest.raises(NameError):
        t["a > unheard_of"]
    with pytest.raises(IndexError):
        t["a + 1"]
    with pytest.raises(ValueError):
        t.where(np.arange(3))
    with pytest.raises(IndexError):
        t.where(np.ones(2, bool))
    with pytest.raises(TegulaError):
        t["__import__('os')"]


@pytest.mark.parametrize("disk", [False, True])
def test_invalid_values_change_nothing(disk: bool, tmp_path: Path) -> None:
    t = bcolz.ctable(rows_of(5), rootdir=str(tmp_path / "t") if disk else None, chunklen=2)
    before = t[:]
    bad: list[Any] = [
        (1, 2.0, b"a"),
        (1, 2.0, b"a", 5),
        ([1, 2], [1.0], [b"a", b"b"], [[1, 2], [3, 4]]),
        (["x"], [1.0], [b"a"], [[1, 2]]),
        {"i": 1},
        np.zeros(3),
        np.zeros(3, "i4,f8"),
        5,
        None,
    ]
    for rows in bad:
        with pytest.raises((ValueError, TypeError)):
            t.append(rows)
    for column in (np.arange(4), 5, {"a": 1}, "abcde"):
        with pytest.raises(ValueError):
            t.addcol(column)
    for options in ({"name": "i"}, {"name": 3}, {"pos": 9}, {"pos": -1}, {"pos": 1.5}):
        with pytest.raises(ValueError):
            t.addcol(np.arange(5), **options)
    for options in ({}, {"name": "i", "pos": 0}, {"name": "zz"}, {"pos": 4}, {"pos": "i"}, {"name": 3}):
        with pytest.raises(ValueError):
            t.delcol(**options)
    for key in (5, -6, [5], np.array([5]), np.array([1.5]), (1, 2), np.ones(4, bool), np.zeros((2, 2), int), ["a", 1]):
        with pytest.raises(IndexError):
            t[key]
    for key in (None, 1.5, slice(None, None, -1), {}):
        with pytest.raises(NotImplementedError):
            t[key]
    with pytest.raises(KeyError):
        t[["i", "zz"]]
    with pytest.raises(ValueError):
        t["i"] = np.arange(4)
    with pytest.raises(ValueError):
        t.resize(-1)
    with pytest.raises(NotImplementedError):
        t.iter(step=0)
    with pytest.raises(ValueError):
        t.iter(outcols="zz")
    np.testing.assert_array_equal(t[:], before)
    assert {len(t.cols[name]) for name in t.names} == {5}
    if disk:
        np.testing.assert_array_equal(bcolz.open(t.rootdir, "r")[:], before)


def test_invalid_arguments(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    bad: list[Any] = [
        ([[1, 2], [1]], None),
        ([[1], [2]], ["a"]),
        ([[1], [2]], ["a", "a"]),
        ([[1]], ["1a"]),
        ([[1]], ["class"]),
        ([[1]], "a"),
        ([], None),
        (5, None),
        (bcolz.carray([1]), "a"),
        (np.zeros((2, 2)), None),
        (np.zeros((2, 2), "i4,i4"), None),
        (np.zeros(2, "i4,i4"), ["zz", "f0"]),
    ]
    for columns, names in bad:
        for rootdir in (None, place):
            with pytest.raises(ValueError):
                bcolz.ctable(columns, names, rootdir=rootdir)
    with pytest.raises((ValueError, TypeError)):
        bcolz.ctable([[1], [2]], rootdir=place, dflt="x")
    assert not os.path.exists(place)
    with pytest.raises(ValueError):
        bcolz.ctable()
    with pytest.raises(KeyError):
        bcolz.ctable(rootdir=place, mode="r")
    with pytest.raises(FileNotFoundError, match="no table to open") as missing:
        bcolz.ctable(rootdir=place, mode="a")
    assert missing.value.filename == str(place)
    with pytest.raises(ValueError):
        bcolz.ctable(rootdir=place, mode="w")
    with pytest.raises(ValueError):
        bcolz.ctable(rootdir=place, mode="x")
    os.mkdir(place)
    with pytest.raises(FileNotFoundError):
        bcolz.ctable(rootdir=place)


def test_modes(tmp_path: Path) -> None:
    place = tmp_path / "t"
    t = bcolz.ctable([[1, 2], [3.0, 4.0]], names=["a", "b"], rootdir=place)
    assert (t.mode, t.rootdir, t.auto_flush) == ("w", str(place), True)
    t.attrs["unit"] = "K"
    with pytest.raises(ValueError):
        bcolz.ctable([[1]], rootdir=place, mode="a")
    reader = bcolz.ctable(rootdir=place, mode="r")
    for change in (
        lambda: reader.append((5, 5.0)),
        lambda: reader.resize(1),
        lambda: reader.trim(1),
        lambda: reader.addcol([1, 2]),
        lambda: reader.delcol("a"),
        lambda: reader.__setitem__(0, (5, 5.0)),
        lambda: reader.attrs.__setitem__("unit", "C"),
    ):
        with pytest.raises(OSError):
            change()
    with reader:
        assert reader.attrs["unit"] == "K"
    again = bcolz.open(place)
    assert (again.mode, again[:].tolist(), again.cparams) == ("a", [(1, 3.0), (2, 4.0)], t.cparams)
    with pytest.raises(OSError):
        again.copy(rootdir=place, mode="w")
    with pytest.raises(OSError):
        bcolz.ctable([again["a"], [5, 6]], rootdir=place, mode="w")
    assert again[:].tolist() == [(1, 3.0), (2, 4.0)]
    copy = again.copy(rootdir=tmp_path / "copy", cparams=bcolz.cparams(clevel=9))
    assert (copy[:].tolist(), copy["a"].cparams.clevel, copy.cparams.clevel) == (again[:].tolist(), 9, 9)
    new = bcolz.ctable([[7]], rootdir=place, mode="w")
    assert (new.names, len(new.attrs), sorted(os.listdir(place))) == (["f0"], 0, ["__attrs__", "__rootdirs__", "f0"])


def test_pickling(tmp_path: Path) -> None:
    memory = bcolz.ctable([[1, 2], ["x", "yz"]], names=["a", "b"])
    memory.attrs["unit"] = "K"
    stored = memory.copy(rootdir=tmp_path / "t", auto_flush=False)
    stored.append((3, "zz"))
    renamed, none = bcolz.ctable([[1, 2]]), bcolz.ctable([[1, 2]])
    renamed.addcol([3, 4], name="with space")
    none.delcol("f0")
    for table in (memory, stored, renamed):
        again = pickle.loads(pickle.dumps(table))
        assert (again.names, again.rootdir, again[:].tolist()) == (table.names, table.rootdir, table[:].tolist())
        assert again.attrs.getall() == table.attrs.getall()
    assert pickle.loads(pickle.dumps(none)).names == []


def test_columns_are_shared_in_memory() -> None:
    a = bcolz.carray([1, 2, 3])
    t = bcolz.ctable([a, [4, 5, 6]], names=["a", "b"])
    part = t[["a"]]
    part["a"][0] = 9
    assert (t["a"] is a, a[0], part.names, type(part)) == (True, 9, ["a"], bcolz.ctable)
    t["b"] = [7, 8, 9]
    assert t["b"][:].tolist() == [7, 8, 9]
    t.cols["c"] = np.ones(3)
    assert t.names == ["a", "b", "c"]
    assert [*t.cols] == t.names


def test_without_columns(tmp_path: Path) -> None:
    t = bcolz.ctable([[1, 2]], rootdir=tmp_path / "t")
    t.delcol("f0")
    assert (t.dtype, t.names, str(t), len(t)) == (np.dtype([]), [], "", 2)
    with pytest.raises(KeyError):
        t[0]
    with pytest.raises(KeyError):
        t[0] = 1
    assert bcolz.open(tmp_path / "t").names == []
    t.addcol([5, 6], "again")
    assert bcolz.open(tmp_path / "t")[:].tolist() == [(5,), (6,)]


def test_adding_and_removing_columns_on_disk(tmp_path: Path) -> None:
    t = bcolz.ctable([[1, 2], [3, 4]], names=["a", "b"], rootdir=tmp_path / "t")
    t.delcol("b", keep=True)
    assert bcolz.carray(rootdir=tmp_path / "t" / "b")[:].tolist() == [3, 4]
    with pytest.raises(OSError):
        t.addcol([5, 6], "b")
    for name in ("../out", "a/b", "", ".", "__attrs__"):
        with pytest.raises(ValueError):
            t.addcol([5, 6], name)
    moved = bcolz.carray([7, 8], rootdir=tmp_path / "moved")
    t.addcol(moved, "with space", move=True)
    assert not (tmp_path / "moved").exists()
    assert moved.rootdir == str(tmp_path / "t" / "with space")
    assert bcolz.open(tmp_path / "t")["with space"][:].tolist() == [7, 8]
    t.append((9, 9))
    assert bcolz.open(tmp_path / "t")[:].tolist() == [(1, 7), (2, 8), (9, 9)]


def test_columns_that_differ_in_length(tmp_path: Path) -> None:
    place = tmp_path / "t"
    bcolz.ctable([[1, 2, 3], [4, 5, 6]], names=["a", "b"], rootdir=place)
    bcolz.carray(rootdir=place / "b").trim(1)
    t = bcolz.open(place)
    assert (len(t), t[:].tolist(), t["a > 1"].tolist()) == (2, [(1, 4), (2, 5)], [(2, 5)])
    assert t[-1].tolist() == (2, 5)
    with pytest.raises(ValueError, match=r"resize\(2\)"):
        t.append((7, 8))
    t[np.array([False, True])] = (9, 5)
    t[-1] = (2, 5)
    t.resize(2)
    t.append((7, 8))
    assert bcolz.open(place)[:].tolist() == [(1, 4), (2, 5), (7, 8)]


@pytest.mark.parametrize("names", [["a", "b"], ["x", "b"], ["x", "y"]])
def test_another_process_creates_the_same_table_first(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    clear = storage.clear

    def clear_too_early(rootdir: Any, mode: str) -> None:
        clear(rootdir, mode)
        monkeypatch.undo()
        bcolz.ctable([[1, 2], [3, 4]], names=["a", "b"], rootdir=place)

    monkeypatch.setattr(storage, "clear", clear_too_early)
    with pytest.raises(FileExistsError):
        bcolz.ctable([[5], [6]], names=names, rootdir=place)
    assert bcolz.open(place)[:].tolist() == [(1, 3), (2, 4)]
    assert sorted(path.name for path in place.iterdir() if not path.name.startswith("__")) == ["a", "b"]


def test_after_an_interrupted_append(tmp_path: Path) -> None:
    place = tmp_path / "t"
    bcolz.ctable([[1, 2], [4, 5], [7, 8]], names=["a", "b", "c"], rootdir=place, chunklen=2)
    with bcolz.carray(rootdir=place / "b") as column:
        column.append([0, 0, 0])
    for auto_flush in (False, True):
        t = bcolz.ctable(rootdir=place, auto_flush=auto_flush)
        assert (len(t), t["b > 4"].tolist()) == (2, [(2, 5, 8)])
        if auto_flush:
            t.append((3, 6, 9))
        else:
            with pytest.raises(ValueError, match="differ in length"):
                t.append((3, 6, 9))
    for table in (t, bcolz.open(place)):
        assert table[:].tolist() == [(1, 4, 7), (2, 5, 8), (3, 6, 9)]
        assert {len(table.cols[name]) for name in table.names} == {3}


def test_appending_through_several_objects(tmp_path: Path) -> None:
    place = tmp_path / "t"
    bcolz.ctable([np.arange(3), np.arange(3.0)], rootdir=place, chunklen=4)
    tables = [bcolz.open(place) for _ in range(3)]
    expected = [*range(3)]
    for number in range(3, 40):
        tables[number % 3].append((number, number))
        expected.append(number)
    assert bcolz.open(place)["f0"][:].tolist() == bcolz.open(place)["f1"][:].tolist() == expected
    assert tables[0]["f0 > 36"]["f1"].tolist() == [37, 38, 39]


def test_columns_of_python_objects_on_disk(tmp_path: Path) -> None:
    t = bcolz.ctable([["a", 1, None], [1, 2, 3]], names=["o", "i"], rootdir=tmp_path / "t")
    t.append((b"x", 4))
    with pytest.raises(TegulaError, match="pickle"):
        bcolz.ctable(rootdir=tmp_path / "t")
    again = bcolz.ctable(rootdir=tmp_path / "t", allow_pickle=True)
    assert again["i > 2"].tolist() == [(None, 3), (b"x", 4)]


def test_part_of_a_table_that_is_only_read(tmp_path: Path) -> None:
    bcolz.ctable([[1], [2]], names=["a", "b"], rootdir=tmp_path / "t")
    part = bcolz.ctable(rootdir=tmp_path / "t", mode="r")[["b"]]
    with pytest.raises(OSError):
        part.append((3,))
    with pytest.raises(OSError):
        part[0] = (3,)
    assert part[:].tolist() == [(2,)]


def test_python_values() -> None:
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    t = bcolz.ctable([days, days.astype("M8[ns]"), [1, 2], [True, False]], names=["d", "n", "i", "b"])
    row = next(iter(t))
    assert [type(value) for value in row] == [type(days[0].item()), int, int, bool]
    assert t[1] == np.array([(days[1], days[1], 2, False)], t.dtype)[0]
    objects = bcolz.ctable(np.array([("x", 1), ([1], 2)], [("o", object), ("i", "i4")]))
    objects.append(("y", 3))
    assert objects["i >= 2"].tolist() == [([1], 2), ("y", 3)]
    assert [row.o for row in objects.where("i != 2")] == ["x", "y"]


def test_text_and_sizes() -> None:
    t = bcolz.ctable([np.arange(5000), np.arange(5000)])
    assert repr(t).startswith("ctable((5000,), [('f0', '<i8'), ('f1', '<i8')])")
    assert len(str(t)) < 500
    assert str(bcolz.ctable([np.arange(2) / 3, ["a", "b"]])) == "[(0.0, 'a') (0.3333333333333333, 'b')]"
    assert "f1 : carray" in repr(t.cols)
    assert t.nbytes == 80_000
    assert t.cbytes == sum(t[name].cbytes for name in t.names)
    assert np.asarray(t).dtype == t.dtype


def test_dataframes() -> None:
    frame = pd.DataFrame({"i": [1, 2], "s": ["a", "long"], "b": [b"x", b""], "o": [None, "mixed"], "z": ["a\0", "b"]})
    t = bcolz.ctable.fromdataframe(frame)
    assert [t[name].dtype.str for name in t.names] == ["<i8", "<U4", "|S1", "|O", "|O"]
    back = t.todataframe()
    for name in ("i", "s", "b", "z"):
        assert back[name].tolist() == frame[name].tolist()
    assert t.todataframe(columns=["s"]).shape == (2, 1)
    assert t.todataframe(columns=["first", "second"], orient="index")["second"].tolist()[:2] == [2, "long"]
    with pytest.raises(ValueError):
        t.todataframe(columns=["zz"])
    assert bcolz.ctable.fromdataframe(frame, names=["i"]).names == ["i"]
    assert bcolz.ctable([np.arange(2, dtype=">f4")]).todataframe()["f0"].dtype.isnative


def test_errors_of_dataframes() -> None:
    frame = pd.DataFrame({"i": [1, 2]})
    with pytest.raises(NotFoundError, match="zz"):
        bcolz.ctable.fromdataframe(frame, names=["zz"])
    with pytest.raises(KindError, match="DataFrame"):
        bcolz.ctable.fromdataframe({"i": [1, 2]})
    for names in (3, [["i"]]):
        with pytest.raises(KindError, match="names"):
            bcolz.ctable.fromdataframe(frame, names=names)
    with pytest.raises(KindError, match="names"):  # pandas takes a year for the times in it
        bcolz.ctable.fromdataframe(pd.DataFrame([[1]], columns=pd.date_range("2020", periods=1)), names=["2020"])
    for columns, options in (([np.ones((2, 2))], {}), ([[1]], {"orient": "diagonal"})):
        with pytest.raises(MetadataError, match="pandas"):
            bcolz.ctable(columns).todataframe(**options)


def test_times_with_a_zone_become_utc() -> None:
    days = pd.date_range("2020-01-01", periods=3, tz="America/New_York")
    for zoned in (days, days.as_unit("s")):
        t = bcolz.ctable.fromdataframe(pd.DataFrame({"t": zoned}))
        np.testing.assert_array_equal(t["t"][:], zoned.tz_convert(None).to_numpy(), strict=True)


def test_the_real_bcolz_in_turn(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = pytest.importorskip("bcolz")
        rows = rows_of(40)
        expected = rows[:13]
        place = str(tmp_path / "t")
        bcolz.ctable(expected, rootdir=place, chunklen=5)
        rng = np.random.default_rng(0)
        for step in range(24):
            library = (bcolz, real)[step % 2]
            t = library.open(place)
            np.testing.assert_array_equal(t[:], expected)
            action = rng.integers(5)
            if action < 3:
                more = rows_of(int(rng.integers(1, 12)), step)[t.names]
                t.append([np.ascontiguousarray(more[name]) for name in t.names])
                expected = np.concatenate([expected, structured(len(more), {name: more[name] for name in t.names})])
            elif action == 3:
                cut = int(rng.integers(0, min(9, len(expected))))
                t.trim(cut)
                expected = expected[: len(expected) - cut]
            elif step % 4 > 1 and len(t.names) > 2:
                t.delcol(t.names[0])
                expected = structured(len(expected), {name: expected[name] for name in t.names})
            t.flush()
            t.attrs[f"step{step}"] = [step]
        assert len(library.open(place).attrs) == 24
        np.testing.assert_array_equal(real.open(place, "r")[:], expected)
        np.testing.assert_array_equal(bcolz.open(place, "r")[:], expected)
