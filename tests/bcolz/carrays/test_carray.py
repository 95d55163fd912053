"""The carray against NumPy and the real bcolz: same calls, same results; one directory, both libraries."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import tempfile
import tracemalloc
from math import prod
from pathlib import Path
from typing import Any

import bcolz as real
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import bcolz
from tegula.errors import TegulaError

DTYPES = ["bool", "i1", "u2", ">i4", "i8", "u8", "f4", ">f8", "S3", "U2", "M8[ns]", "m8[ns]"]
Values = np.ndarray[Any, Any]


def made_of(dtype: str, length: int, seed: int, inner: tuple[int, ...] = ()) -> Values:
    numbers = np.random.RandomState(seed).randint(0, 100, (length, *inner))
    return numbers.astype("i8").astype(dtype) if dtype[0] in "Mm" else numbers.astype(dtype)


def same(found: Any, expected: Any) -> None:
    """Check that both have the same type and value."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
    else:
        assert found == expected


changes = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 30), st.integers(0, 99)),
    st.tuples(st.just("trim"), st.integers(0, 8), st.just(0)),
    st.tuples(st.just("resize"), st.integers(0, 45), st.just(0)),
    st.tuples(st.just("set"), st.integers(0, 40), st.integers(1, 20)),
    st.tuples(st.just("mask"), st.integers(2, 5), st.integers(0, 99)),
    st.tuples(st.just("flush"), st.just(0), st.just(0)),
)


def change(array: Any, step: tuple[str, int, int], dtype: str) -> None:
    what, first, second = step
    inner = array.shape[1:]
    if what == "append":
        array.append(made_of(dtype, first, second, inner))
    elif what == "trim":
        array.trim(min(first, len(array)))
    elif what == "resize":
        array.resize(first)
    elif what == "set":
        count = len(range(len(array))[first : first + second])
        array[first : first + second] = made_of(dtype, count, second, inner)
    elif what == "mask" and not inner:
        chosen = np.arange(len(array)) % first == 0
        array[chosen] = made_of(dtype, int(chosen.sum()), second)
    else:
        array.flush()


def change_of(values: Any, step: tuple[str, int, int], dtype: str) -> Any:
    """Apply the change to a NumPy array."""
    what, first, second = step
    inner = values.shape[1:]
    if what == "append":
        return np.concatenate([values, made_of(dtype, first, second, inner)], dtype=values.dtype)
    if what == "trim":
        return values[: len(values) - min(first, len(values))]
    if what == "resize":
        zeros = np.zeros((max(0, first - len(values)), *inner), values.dtype)
        return np.concatenate([values, zeros], dtype=values.dtype)[:first]
    values = values.copy()
    if what == "set" or (what == "mask" and not inner):
        change(values, step, dtype)
    return values


@settings(max_examples=40)
@given(
    dtype=st.sampled_from(DTYPES),
    inner=st.sampled_from([(), (), (3,), (2, 1)]),
    chunklen=st.integers(1, 12),
    steps=st.lists(changes, max_size=6),
    data=st.data(),
)
def test_the_same_calls_have_the_same_results(
    dtype: str, inner: tuple[int, ...], chunklen: int, steps: list[Any], data: st.DataObject
) -> None:
    start = made_of(dtype, 15, 1, inner)
    ours, theirs = bcolz.carray(start, chunklen=chunklen), real.carray(start, chunklen=chunklen)
    model = start
    for step in steps:
        change(ours, step, dtype)
        change(theirs, step, dtype)
        model = change_of(model, step, dtype)
    same(ours[:], model)
    if theirs[:].tobytes() != model.tobytes():
        return  # bcolz sometimes repeats other rows where a resize in memory has added zeros
    assert (len(ours), ours.shape, ours.dtype, ours.ndim, ours.nbytes) == (
        len(theirs), theirs.shape, theirs.dtype, theirs.ndim, theirs.nbytes,
    )  # fmt: skip
    assert (ours.nchunks, ours.nleftover, ours.partitions) == (theirs.nchunks, theirs.nleftover, theirs.partitions)
    same(ours[:], theirs[:])
    same(ours.leftover_array[: ours.nleftover], theirs.leftover_array[: theirs.nleftover])
    same(np.asarray(ours), np.asarray(theirs))
    length = len(ours)
    bounds = st.one_of(st.none(), st.integers(-50, 50))
    key = slice(data.draw(bounds), data.draw(bounds), data.draw(st.one_of(st.none(), st.integers(1, 7))))
    same(ours[key], theirs[key])
    if not length:
        return
    index = data.draw(st.integers(-length, length - 1))
    same(ours[index], theirs[index])
    indices = np.array(data.draw(st.lists(st.integers(-length, length - 1), min_size=1, max_size=9)))
    same(ours[indices], theirs[indices])
    same(ours[indices.tolist()], theirs[indices.tolist()])
    arguments = (key.start or 0, key.stop, key.step or 1, data.draw(st.one_of(st.none(), st.integers(0, 9))))
    skip = data.draw(st.integers(0, 9))
    rows, expected = [*ours.iter(*arguments, skip=skip)], [*theirs.iter(*arguments, skip=skip)]
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected):
        same(row, other)
    if inner:
        rest = (key, slice(0, 1))
        same(ours[rest], theirs[rest])
        return
    mask = np.random.RandomState(index % 100).randint(0, 4, length) == 0
    same(ours[mask], theirs[mask])
    same(ours[bcolz.carray(mask, chunklen=3)], theirs[mask])
    assert [*ours.where(mask, arguments[3], skip)] == [*theirs.where(mask, arguments[3], skip)]
    assert [*bcolz.carray(mask, chunklen=3).wheretrue(arguments[3], skip)] == [
        *real.carray(mask).wheretrue(arguments[3], skip)
    ]
    assert str(ours) == str(ours[:])


@settings(max_examples=20)
@given(
    dtype=st.sampled_from(DTYPES),
    inner=st.sampled_from([(), (), (3,)]),
    chunklen=st.integers(1, 12),
    steps=st.lists(st.tuples(changes, st.booleans()), max_size=6),
)
def test_both_libraries_change_one_directory_in_turn(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: str,
    inner: tuple[int, ...],
    chunklen: int,
    steps: list[tuple[Any, bool]],
) -> None:
    rootdir = str(tmp_path_factory.mktemp("turns") / "c")
    start = made_of(dtype, 15, 1, inner)
    model = bcolz.carray(start, chunklen=chunklen)
    bcolz.carray(start, chunklen=chunklen, rootdir=rootdir).attrs["made"] = [1, "x"]
    for step, is_ours in steps:
        change(model, step, dtype)
        with (bcolz if is_ours else real).carray(rootdir=rootdir) as array:
            change(array, step, dtype)
        for library in (bcolz, real):
            opened = library.carray(rootdir=rootdir, mode="r")
            assert opened.attrs["made"] == [1, "x"]
            same(opened[:], model[:])


@settings(max_examples=40)
@given(dtype=st.sampled_from(["bool", "i1", "u1", "u4", "i8", "u8", "f4", "f8"]), length=st.integers(0, 400))
def test_sums_are_those_of_numpy(dtype: str, length: int) -> None:
    values = made_of(dtype, length, length)
    found, expected = bcolz.carray(values, chunklen=7).sum(), values.sum()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected)


def test_results_that_bcolz_gets_wrong(tmp_path: Path) -> None:
    trues = bcolz.carray(np.ones(25, bool), chunklen=10, rootdir=tmp_path / "trues")
    assert trues.sum() == 25
    assert bcolz.carray(np.full(300, 200, "u1")).sum() == 60000
    for index in (-26, 25):
        with pytest.raises(IndexError):
            trues[index]


@pytest.mark.parametrize("dtype", ["i4,f8", "V3", "c16", "f2", "M8[D]", "M8[s]", "longdouble"])
def test_other_types_in_memory(dtype: str) -> None:
    values = np.zeros(23, dtype) if dtype[0] in "iV" else np.arange(23).astype("i8").astype(dtype)
    ours, theirs = bcolz.carray(values, chunklen=10), real.carray(values, chunklen=10)
    same(ours[:], values)
    same(ours[7], theirs[7])
    assert [*ours] == [*theirs]


def test_buffered_rows_are_read() -> None:
    c = bcolz.carray(np.empty(0, "i4"), chunklen=4)
    for number in range(10):
        c.append(number)
        assert (len(c), c[-1], c[number]) == (number + 1, number, number)
    assert [*c] == [*range(10)]
    c.append([10])
    assert c.sum() == 55
    c.append([11])
    assert c[[11, 0]].tolist() == [11, 0]
    c.append([12])
    c[12] = 7
    assert c[:][-2:].tolist() == [11, 7]


@pytest.mark.parametrize("place", [None, "c"])
def test_memory_for_appended_rows_is_used_again_and_freed(tmp_path: Path, place: str | None) -> None:
    rootdir = None if place is None else tmp_path / place
    row = np.zeros(2**17)  # two rows fill the memory for rows that are not stored yet
    c = bcolz.carray(np.empty((0, row.size)), chunklen=2, rootdir=rootdir, cparams=bcolz.cparams(clevel=0))
    tracemalloc.start()
    try:
        for number in range(5):
            c.append(row + number)
        c.flush()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert rootdir is None or held < row.nbytes
    assert (c[:] == np.arange(5)[:, None]).all()


def test_rows_are_copied() -> None:
    values = np.zeros((1, 2))
    c = bcolz.carray(values)
    c.append(values)
    values[:] = 1
    c[0][:] = 2
    for row in c:
        row[:] = 3
    assert not c[:].any()


def test_rows_are_stored_when_the_object_is_deleted(tmp_path: Path) -> None:
    c = bcolz.carray([1, 2], rootdir=tmp_path / "c")
    c.append([3, 4])
    view = c.view()
    del c
    gc.collect()
    assert view[:].tolist() == bcolz.open(tmp_path / "c", mode="r")[:].tolist() == [1, 2, 3, 4]
    with bcolz.open(tmp_path / "c") as c:
        c.append(5)
    assert real.open(str(tmp_path / "c"))[:].tolist() == [1, 2, 3, 4, 5]
    c.purge()
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_rows_are_stored_when_the_program_ends(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from tegula import bcolz\n"
        "c = bcolz.carray([1, 2], rootdir=sys.argv[1])\n"
        "c.append([3])\n"
        "if hasattr(os, 'fork') and os.fork() == 0:\n"
        "    sys.exit()\n"
        "if hasattr(os, 'wait'):\n"
        "    os.wait()\n"
        "c.append([4])\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "c")], check=True, timeout=300)
    assert bcolz.open(tmp_path / "c")[:].tolist() == [1, 2, 3, 4]


def test_a_deleted_directory_is_not_created_again(tmp_path: Path) -> None:
    c = bcolz.carray([1], rootdir=tmp_path / "c")
    c.append(2)
    other = bcolz.carray(rootdir=tmp_path / "c")
    other.purge()
    del c
    gc.collect()
    assert not (tmp_path / "c").exists()
    with pytest.raises(OSError, match="deleted"):
        other.purge()


def test_modes(tmp_path: Path) -> None:
    place = tmp_path / "c"
    with pytest.raises(OSError, match="mode is 'r'"):
        bcolz.carray([1], rootdir=place, mode="r")
    assert not place.exists()
    c = bcolz.carray(np.arange(25), rootdir=place, chunklen=10)
    c.attrs["a"] = 1
    with pytest.raises(FileExistsError):
        bcolz.carray([1], rootdir=place)
    reader = bcolz.open(place, mode="r")
    for forbidden in (
        lambda: reader.append(1),
        lambda: reader.trim(1),
        lambda: reader.resize(3),
        lambda: reader.__setitem__(0, 1),
        lambda: reader.attrs.__setitem__("a", 2),
        lambda: reader.attrs.__delitem__("a"),
    ):
        with pytest.raises(OSError, match="mode is 'r'"):
            forbidden()
    for attrs in (c.attrs, bcolz.carray([1]).attrs):
        for action in (attrs.__getitem__, attrs.__delitem__):
            with pytest.raises(tegula.NotFoundError, match="no attribute 'b'"):
                action("b")
    reader.mode = "a"
    reader.append(25)
    reader.mode = "r"
    assert len(bcolz.open(place)) == 26
    empty = bcolz.open(place, mode="w")
    assert (len(empty), empty.attrs.getall()) == (0, {"a": 1})
    assert bcolz.carray([5], rootdir=place, mode="w").attrs.getall() == {}
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(FileNotFoundError):
            bcolz.open(missing)


def test_invalid_arguments_delete_nothing(tmp_path: Path) -> None:
    c = bcolz.carray([1, 2], rootdir=tmp_path / "c")
    for wrong in ({"dflt": "x"}, {"cparams": bcolz.cparams(quantize=1)}, {"chunklen": 2**40}, {"dtype": "i4,O"}):
        with pytest.raises(TegulaError):
            bcolz.carray([5], rootdir=tmp_path / "c", mode="w", **wrong)
    assert bcolz.open(tmp_path / "c")[:].tolist() == [1, 2]
    again = bcolz.carray(c, rootdir=tmp_path / "c", mode="w", chunklen=1)
    assert (again[:].tolist(), again.chunklen) == ([1, 2], 1)


def test_moving_the_directory(tmp_path: Path) -> None:
    c = bcolz.carray([1, 2], rootdir=tmp_path / "old")
    c.append(3)
    os.rename(tmp_path / "old", tmp_path / "new")
    c.rootdir = str(tmp_path / "new")
    assert c[:].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="memory"):
        bcolz.carray([1]).rootdir = "x"


@pytest.mark.parametrize("dtype", ["c8", ">c16"])
@pytest.mark.parametrize("default", [1 + 2j, complex(0.1, -np.inf), complex(np.nan, 1), -2j, 3.5, complex(-0.0, -0.0)])
def test_complex_defaults(tmp_path: Path, dtype: str, default: complex) -> None:
    expected = np.full(5, default, dtype)
    for place in (None, str(tmp_path / "c")):
        c = bcolz.carray(expected[:2], dflt=default, rootdir=place)
        c.resize(5)
        assert c[:].tobytes() == expected.tobytes()
    theirs = real.open(str(tmp_path / "c"))
    theirs.resize(9)
    theirs.flush()
    np.testing.assert_array_equal(bcolz.open(tmp_path / "c")[:], np.full(9, default, dtype))


def test_arrays_of_records(tmp_path: Path) -> None:
    rows = np.rec.array([(1, 2.0, b"x")], dtype=[("a", "i4"), ("b", "f8"), ("c", "S3")])
    nested = np.zeros(1, [("r", rows.dtype), ("n", "i2")])
    for values in (rows, nested):
        for place in (None, str(tmp_path / "c")):
            c = bcolz.carray(values, rootdir=place, mode="w")
            c.append(values)
            c.flush()
            assert c[:].tolist() == 2 * values.tolist()
        assert bcolz.open(place)[:].tolist() == c[:].tolist()
    rows = np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    real.carray(rows, rootdir=str(tmp_path / "theirs")).flush()
    assert bcolz.open(tmp_path / "theirs")[:].tolist() == rows.tolist()


def test_parameters_are_kept(tmp_path: Path) -> None:
    parameters = bcolz.cparams(clevel=3, shuffle=bcolz.BITSHUFFLE, cname="zstd", quantize=2)
    made = {"cparams": parameters, "dflt": 1.5, "expectedlen": 10**6, "rootdir": tmp_path / "c"}
    ours = bcolz.carray(np.linspace(0, 1, 50), **made)
    opened, theirs = bcolz.open(tmp_path / "c"), real.open(str(tmp_path / "c"))
    for c in (ours, opened):
        assert (c.cparams, c.dflt, c.expectedlen, c.chunklen) == (parameters, 1.5, 10**6, theirs.chunklen)
    assert repr(theirs.cparams) == repr(parameters)
    assert theirs.dflt == 1.5
    np.testing.assert_array_equal(theirs[:], ours[:])
    np.testing.assert_allclose(ours[:], np.linspace(0, 1, 50), atol=0.01)
    opened.resize(51)
    assert opened[50] == 1.5
    assert opened.copy().cparams == bcolz.cparams()
    with pytest.raises(TypeError):
        bcolz.carray([1], cparams=parameters)


def test_sizes(tmp_path: Path) -> None:
    c = bcolz.carray(np.zeros(10**5), rootdir=tmp_path / "c")
    stored = sum(path.stat().st_size for path in (tmp_path / "c" / "data").iterdir())
    assert stored < sys.getsizeof(c) < c.nbytes == 8 * 10**5
    assert f"nbytes := 781.25 KB; cbytes := {c.cbytes / 1024:.2f} KB" in repr(c)


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(0, 70),
    dtype=st.sampled_from(["i8", "u1", "f4", "S5", "U3", "?"]),
    inner=st.sampled_from([(), (2, 3)]),
    chunklen=st.none() | st.integers(1, 30),
    opened=st.booleans(),
)
def test_bytes_are_counted_as_bcolz_does(
    length: int, dtype: str, inner: tuple[int, ...], chunklen: int | None, opened: bool
) -> None:
    rows = np.arange(length * prod(inner)).astype(dtype).reshape(length, *inner)
    seen: list[Any] = []
    for library in (bcolz, real):
        with tempfile.TemporaryDirectory() as root:
            place = os.path.join(root, "c")
            c = library.carray(rows, rootdir=place, chunklen=chunklen)
            if opened:
                c.flush()
                c = library.carray(rootdir=place)
            printed = (
                repr(c).replace(root, "") if rows.dtype.kind != "f" else ""
            )  # which bcolz can't print with NumPy 2
            seen.append((c.nbytes, c.cbytes, printed.splitlines()[:6]))
    assert seen[0] == seen[1]


def test_empty_arrays_are_printed_as_by_bcolz(tmp_path: Path) -> None:
    nothing = np.empty(0, [("a", "i4"), ("b", "S3"), ("c", "f4", (2,))])
    for name, make in {
        "c": lambda b, rootdir: b.carray(np.empty((0, 3)), rootdir=rootdir, mode="w"),
        "o": lambda b, rootdir: b.carray(np.empty(0, object), dtype=np.dtype("O"), rootdir=rootdir, mode="w"),
        "t": lambda b, rootdir: b.ctable(nothing, rootdir=rootdir, mode="w"),
    }.items():
        for rootdir in (None, str(tmp_path / name)):
            theirs, ours = repr(make(real, rootdir)), repr(make(bcolz, rootdir))
            assert theirs == ours
            if rootdir is not None and name != "o":  # of which bcolz counts another number once they are opened
                assert repr(real.open(rootdir)) == repr(bcolz.open(rootdir))


def test_python_objects_need_allow_pickle(tmp_path: Path) -> None:
    values = ["a", (1, 2), None, {"k": [1]}]
    rows = np.empty(4, object)
    rows[:] = values
    c = bcolz.carray(rows, rootdir=tmp_path / "c")
    c.append("bcd")
    assert [*c] == [*values, "b c d".replace(" ", "")]
    c[1] = (3, 4)
    c.flush()
    with pytest.raises(TegulaError, match="allow_pickle"):
        bcolz.open(tmp_path / "c")
    again = bcolz.open(tmp_path / "c", allow_pickle=True)
    assert (again[1], again[-1], len(again)) == ((3, 4), "bcd", 5)
    assert real.open(str(tmp_path / "c"))[3] == {"k": [1]}
    with bcolz.defaults_ctx(allow_pickle=True):
        assert bcolz.open(tmp_path / "c")[0] == "a"
    assert not bcolz.defaults.allow_pickle
    bcolz.ctable((rows, [1, 2, 3, 4]), rootdir=str(tmp_path / "t"))
    assert bcolz.open(tmp_path / "t", allow_pickle=True)["f0"][0] == "a"
    with pytest.raises(TypeError):
        bcolz.carray([(1, "a")], dtype="O,O")


@pytest.mark.parametrize("shape", [(0,), (5,), (999,), (1001,), (50_000,), (3, 2000), (2000, 3), (40, 4, 40)])
@pytest.mark.parametrize("dtype", ["i4", "f8", "U5"])
def test_text_is_that_of_numpy(shape: tuple[int, ...], dtype: str) -> None:
    values = np.random.RandomState(1).randint(-(10**4), 10**4, shape).astype(dtype)
    assert str(bcolz.carray(values)) == str(values)
    assert bcolz.array2string(bcolz.carray(values), edgeitems=2) == np.array2string(values, edgeitems=2)


@pytest.mark.parametrize("place", [None, "c"])
def test_reshape(tmp_path: Path, place: str | None) -> None:
    values = np.arange(24 * 50)
    c = bcolz.carray(values, chunklen=100, rootdir=place and str(tmp_path / place), dflt=5)
    c.attrs["a"] = 1
    for shape in ((-1, 4), np.array([50, 2, 12]), np.int64(1200), (1, np.int16(1200))):
        c = c.reshape(shape)
        np.testing.assert_array_equal(c[:], values.reshape(shape))
        assert (c.dflt, c.attrs.getall()) == (5, {"a": 1})
    if place:
        np.testing.assert_array_equal(real.open(str(tmp_path / place))[:], values.reshape(shape))
        assert os.listdir(tmp_path) == ["c"]
    for wrong in ((-1, -1), (7, -1), (1199,), ()):
        with pytest.raises(ValueError, match=r"shape|left"):
            c.reshape(wrong)
    for wrong in ("12", 1200.0, (1.5,), None, (None,)):
        with pytest.raises(TypeError, match="newshape") as caught:
            c.reshape(wrong)
        assert isinstance(caught.value, TegulaError)


@pytest.mark.parametrize("place", [None, "c"])
def test_views_and_copies(tmp_path: Path, place: str | None) -> None:
    c = bcolz.carray(np.arange(20), chunklen=8, rootdir=place and str(tmp_path / place))
    view = c.view()
    view[3] = 100
    assert c[3] == 100
    view.append(20)
    view.resize(30)
    assert (len(c), len(view), view[20]) == (20, 30, 20)
    copy = c.copy(rootdir=str(tmp_path / "copy"), chunklen=3)
    copy[:] = 0
    assert c.sum() == 190 - 3 + 100
    assert real.open(str(tmp_path / "copy")).sum() == 0
    for other in (pickle.loads(pickle.dumps(c)), bcolz.carray(c), bcolz.carray(c, dtype="f8")):
        np.testing.assert_array_equal(other[:], c[:])
    assert pickle.loads(pickle.dumps(c)).rootdir == c.rootdir


def test_pickles_of_arrays_in_memory_are_complete() -> None:
    c = bcolz.carray([1, 2], dflt=3, cparams=bcolz.cparams(clevel=9), chunklen=5)
    c.attrs["any"] = {1, 2}
    c.append(9)
    again = pickle.loads(pickle.dumps(c))
    again.append(10)
    assert (again[:].tolist(), again.dflt, again.chunklen) == ([1, 2, 9, 10], 3, 5)
    assert (again.cparams, again.attrs["any"]) == (c.cparams, {1, 2})
    assert len(c) == 3


def test_attributes() -> None:
    attrs = bcolz.carray([1]).attrs
    assert (str(attrs), repr(attrs), len(attrs)) == ("*no attrs*", "*no attrs*", 0)
    attrs["a"], attrs["b"] = 1, "x"
    assert [*attrs] == [("a", 1), ("b", "x")]
    assert (str(attrs), repr(attrs)) == ("a : 1b : x", "a : 1\nb : 'x'\n")
    assert "a" in attrs
    assert attrs.attrs == attrs.getall() == dict(attrs) == {"a": 1, "b": "x"}
    del attrs["a"]
    with pytest.raises(KeyError):
        attrs["a"]


def test_expressions_see_the_callers_variables() -> None:
    c = bcolz.carray(np.arange(10))
    limit = 7
    assert c["c > limit"].tolist() == [8, 9]
    c["c > limit"] = 0
    assert c.sum() == 28
    assert limit == 7
    other = bcolz.carray([True])
    for wrong in ("c + 1", "other"):
        with pytest.raises(IndexError):
            c[wrong]
    assert len(other) == 1


def test_the_stored_array_is_a_tegula_array(tmp_path: Path) -> None:
    c = bcolz.carray(np.arange(10), rootdir=tmp_path / "c", chunklen=4)
    array = tegula.open_array(tmp_path / "c")
    assert (array.format, array.chunks) == ("bcolz", (4,))
    np.testing.assert_array_equal(array[:], c[:])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda c: c[None], NotImplementedError),
        (lambda c: c[...], NotImplementedError),
        (lambda c: c[::-1], NotImplementedError),
        (lambda c: c[1.5], NotImplementedError),
        (lambda c: c[()], ValueError),
        (lambda c: c[["a"]], IndexError),
        (lambda c: c[np.array([0.5])], IndexError),
        (lambda c: c[[99]], IndexError),
        (lambda c: c[np.array([True])], IndexError),
        (lambda c: c.__setitem__(np.array([True]), 1), ValueError),
        (lambda c: c.__setitem__(0, "a"), ValueError),
        (lambda c: c[bcolz.carray([True])], IndexError),
        (lambda c: c.trim(11), ValueError),
        (lambda c: c.trim("1"), TypeError),
        (lambda c: c.resize(-1), ValueError),
        (lambda c: c.resize(float("nan")), ValueError),
        (lambda c: c.append([[1, 2]]), ValueError),
        (lambda c: c.append("a"), ValueError),
        (lambda c: c.iter(0, 5, -1), NotImplementedError),
        (lambda c: c.where(1), ValueError),
        (lambda c: c.where(np.array([True])), ValueError),
        (lambda c: c.where(np.ones((10, 1), bool)), NotImplementedError),
        (lambda c: c.reshape((2, 5)).where(np.ones(2, bool)), NotImplementedError),
        (lambda c: c.wheretrue(), ValueError),
        (lambda _: bcolz.carray(np.ones((2, 2), bool)).wheretrue(), NotImplementedError),
        (lambda _: bcolz.carray(["a"]).sum(), TypeError),
        (lambda _: bcolz.carray(), ValueError),
        (lambda _: bcolz.carray([1], mode="x"), ValueError),
        (lambda _: bcolz.carray([1], chunklen=0), ValueError),
        (lambda _: bcolz.carray([1], cparams={"clevel": 1}), ValueError),
        (lambda _: bcolz.carray([1], dtype="nonsense"), TypeError),
        (lambda _: bcolz.carray([1], dflt="a"), ValueError),
        (lambda _: bcolz.carray([1], expectedlen="a"), TypeError),
        (lambda c: c[1:3, None, 2], IndexError),
        (lambda c: c.__setitem__((1, None, 2), 0), IndexError),
        (lambda _: bcolz.carray([1, 2, 3], dtype=("i4", (2,))), ValueError),
        (lambda _: bcolz.carray(np.empty((2, 0))), TypeError),
        (lambda _: bcolz.carray(["a"], dtype="i4"), ValueError),
        (lambda _: bcolz.carray(np.empty((0, 2**28))), ValueError),
    ],
)
def test_errors_are_tegulas_and_those_that_bcolz_raises(wrong: Any, error: type[Exception]) -> None:
    c = bcolz.carray(np.arange(10))
    with pytest.raises(TegulaError) as caught:
        wrong(c)
    assert isinstance(caught.value, error)


def test_next_continues_an_iteration() -> None:
    c = bcolz.carray([1, 2])
    assert [next(c), next(c)] == [1, 2]
    with pytest.raises(StopIteration):
        next(c)
    assert next(c) == 1
    rows = iter(c.view())
    assert [next(rows), *rows.iter(1), *rows] == [1, 2, 2]


def test_selections_of_several_axes() -> None:
    values = np.arange(60).reshape(5, 4, 3)
    c = bcolz.carray(values, chunklen=2)
    assert type(c.reshape(-1)[(3,)]) is int
    same(c[(1,)], values[1])
    same(c[values[:, 0, 0] > 5,], values[values[:, 0, 0] > 5])
    for key in ((1, 2), (-1, 2, 0), (slice(None, None, 2), 1), (3, [0, 2]), (slice(1, 4), [3, 0], -1), (2, ..., 1)):
        same(c[key], values[key])
        c[key] = values[key] = -7
        same(c[:], values)
    same(c[[0, 3], 1], values[[0, 3], 1])
    same(c[values[:, 0, 0] > 5], values[values[:, 0, 0] > 5])


def test_chunks_and_leftovers() -> None:
    values = np.arange(25).reshape(-1, 1)
    c = bcolz.carray(values, chunklen=10)
    assert [chunk.tolist() for chunk in c.chunks] == [values[:10].tolist(), values[10:20].tolist()]
    same(c.chunks[-1], values[10:20])
    assert (len(c.chunks), [chunk.shape for chunk in c.chunks[1:]]) == (2, [(10, 1)])
    with pytest.raises(tegula.SelectionError):
        c.chunks[2]
    assert (c.leftover_elements, c.leftover_bytes, c.itemsize, c.atomsize) == (5, 40, 8, 8)
    assert c.leftover_array.shape == (10, 1)
    assert c.leftover_ptr
    c.free_cachemem()
    assert c[24].tolist() == [24]


def test_files_that_resemble_chunks_are_ignored(tmp_path: Path) -> None:
    """A file whose name resembles that of a chunk is not read as one."""
    c = bcolz.carray(np.arange(25), chunklen=10, rootdir=tmp_path / "c")
    (tmp_path / "c" / "data" / "__7.blp").write_bytes(b"junk")
    (tmp_path / "c" / "data" / ".___0.blp").write_bytes(b"junk")
    assert bcolz.open(tmp_path / "c")[:].tolist() == [*range(25)]
    c.append(np.arange(25, 60))
    c.flush()
    assert bcolz.open(tmp_path / "c")[:].tolist() == c[:].tolist() == [*range(60)]


def test_a_view_of_a_carray_that_is_read_only_grows_in_memory(tmp_path: Path) -> None:
    bcolz.carray(np.arange(5), rootdir=str(tmp_path / "c")).flush()
    for change in (lambda view: view.append([1]), lambda view: view.resize(6)):
        view = bcolz.open(str(tmp_path / "c"), mode="r").view()
        with pytest.raises(OSError, match="'r'"):
            view[0] = 1
        change(view)
        assert len(view) == 6
    assert bcolz.open(str(tmp_path / "c"), mode="r")[:].tolist() == [0, 1, 2, 3, 4]
