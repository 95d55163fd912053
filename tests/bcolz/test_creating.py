"""Functions that create, open and iterate over carrays and ctables; parameters and their defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bcolz as real
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula import bcolz
from tegula.errors import TegulaError

finite = st.floats(-50, 50, allow_nan=False).map(lambda x: round(x, 2))


@given(
    arguments=st.one_of(
        st.tuples(st.integers(-50, 300)),
        st.tuples(st.integers(-50, 50), st.integers(-50, 300)),
        st.tuples(st.integers(-50, 50), st.integers(-50, 50), st.integers(-9, 9).filter(bool)),
        st.tuples(finite, finite, finite.filter(lambda x: abs(x) > 0.05)),
    ),
    dtype=st.sampled_from([None, "i8", "f8", ">i4"]),
)
def test_arange_is_that_of_numpy(arguments: Any, dtype: Any) -> None:
    if dtype is None and not isinstance(arguments[min(1, len(arguments) - 1)], int):
        dtype = "f8"
    expected = np.arange(*arguments, dtype=dtype)
    if np.dtype(dtype).kind == "i" and not all(isinstance(number, int) for number in arguments):
        return  # NumPy truncates start and step, each by itself
    found = bcolz.arange(*arguments, dtype=dtype, chunklen=7)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found[:], expected)


def test_long_aranges_are_computed_in_blocks() -> None:
    np.testing.assert_array_equal(bcolz.arange(3, 600_000, 2)[:], np.arange(3, 600_000, 2))
    np.testing.assert_array_equal(bcolz.arange(0.5, 300_000.0, 1.25)[:], np.arange(0.5, 300_000.0, 1.25))


@pytest.mark.slow
@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize(
    "shape",
    [0, 5, 5.0, (7,), (4, 2), (3, 0 + 1, 2), 100_000],
)
@pytest.mark.parametrize("dtype", ["f8", "i2", "bool", "S3", ">i4", ("i4", (2,))])
def test_filled_arrays(tmp_path: Path, disk: bool, shape: Any, dtype: Any) -> None:
    lengths = tuple(map(int, shape)) if isinstance(shape, tuple) else (int(shape),)
    rootdir = str(tmp_path / "c") if disk else None
    for function, expected in ((bcolz.zeros, np.zeros(lengths, dtype)), (bcolz.ones, np.ones(lengths, dtype))):
        c = function(shape, dtype, rootdir=rootdir, mode="w")
        np.testing.assert_array_equal(c[:], expected)
        assert (c.shape, c.dtype) == (expected.shape, expected.dtype)
        if disk:
            np.testing.assert_array_equal(real.open(rootdir)[:], expected)


def test_fill_keeps_its_value() -> None:
    c = bcolz.fill((2, 3), 7, "i2", chunklen=3)
    c.resize(5)
    assert (c.dflt, c.chunklen, c[:].tolist()) == (7, 3, [[7] * 3] * 5)


@pytest.mark.parametrize("default", ["abc", 5, 1.5, True, [1, "x"]])
def test_objects_are_filled_with_their_default(tmp_path: Path, default: Any) -> None:
    for place in (None, str(tmp_path / "c")):
        c = bcolz.fill(3, default, "O", rootdir=place)
        c.resize(4)
        assert (c[:].tolist(), c.dflt) == ([default] * 4, default)
    theirs = real.open(str(tmp_path / "c"))
    assert (theirs.dflt, theirs[3]) == (default, default)
    for unable in ((1, 2), {1}, b"x", object()):
        with pytest.raises(TegulaError, match="default"):
            bcolz.carray(np.array([None]), dflt=unable)


def test_an_error_of_the_iterable_is_its_own() -> None:
    def numbers() -> Any:
        yield 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more") as caught:
        bcolz.fromiter(numbers(), "i4", 2)
    assert not isinstance(caught.value, TegulaError)


def test_filled_tables(tmp_path: Path) -> None:
    t = bcolz.ones(5, "i4,f8,S2", rootdir=str(tmp_path / "t"))
    assert type(t) is bcolz.ctable
    np.testing.assert_array_equal(t[:], np.ones(5, "i4,f8,S2"))
    np.testing.assert_array_equal(real.open(str(tmp_path / "t"))[:], np.ones(5, "i4,f8,S2"))


@given(
    count=st.integers(0, 60),
    reported=st.sampled_from([-1, 0, 10, 100]),
    chunklen=st.integers(1, 20),
    dtype=st.sampled_from(["i4", "f8", "U3", "O", "i4,f8"]),
)
def test_fromiter_uses_all_elements(count: int, reported: int, chunklen: int, dtype: str) -> None:
    values = [(n, n / 2) if "," in dtype else str(n) if dtype == "U3" else n for n in range(count)]
    for source in (iter(values), (value for value in values), values):
        made = bcolz.fromiter(source, dtype, reported, chunklen=chunklen)
        assert type(made) is (bcolz.ctable if "," in dtype else bcolz.carray)
        np.testing.assert_array_equal(made[:], np.array(values, dtype))


@given(
    length=st.integers(0, 60),
    chunklen=st.integers(1, 20),
    blen=st.one_of(st.none(), st.integers(1, 70)),
    bounds=st.tuples(st.integers(0, 70), st.one_of(st.none(), st.integers(0, 70))),
)
def test_blocks(length: int, chunklen: int, blen: int | None, bounds: tuple[int, int | None]) -> None:
    values = np.arange(length * 2).reshape(-1, 2)
    ours, theirs = bcolz.carray(values, chunklen=chunklen), real.carray(values, chunklen=chunklen)
    found = [*bcolz.iterblocks(ours, blen, *bounds)]
    expected = [*real.iterblocks(theirs, blen, *bounds)]
    assert [block.tolist() for block in found] == [block.tolist() for block in expected]
    table = bcolz.ctable((ours[:, 0], ours[:, 1] / 2), chunklen=chunklen)
    several = [block.tolist() for block in bcolz.iterblocks(table, blen, *bounds)]
    assert [row for block in several for row in block] == table[slice(*bounds)].tolist()
    assert {*map(len, several[:-1])} <= {blen or chunklen}


def test_walk(tmp_path: Path) -> None:
    for name in ("b", "deep/er/a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        bcolz.carray([], rootdir=tmp_path / name)
    bcolz.ctable(([1], [2]), rootdir=str(tmp_path / "c"))
    damaged = bcolz.carray([1], rootdir=tmp_path / "damaged")
    damaged.flush()
    (tmp_path / "damaged" / "meta" / "sizes").write_bytes(b"{")
    (tmp_path / "file").write_bytes(b"")

    def names(**options: Any) -> list[str]:
        return [Path(found.rootdir).name for found in bcolz.walk(tmp_path, mode="r", **options)]

    assert names() == ["b", "c", "a"]
    assert names(classname="carray") == ["b", "a"]
    assert names(classname="ctable") == ["c"]


def test_open_finds_the_class(tmp_path: Path) -> None:
    bcolz.carray([1], rootdir=tmp_path / "c")
    bcolz.ctable(([1], [2]), rootdir=str(tmp_path / "t"))
    assert type(bcolz.open(tmp_path / "c")) is bcolz.carray
    assert type(bcolz.open(str(tmp_path / "t"), mode="r")) is bcolz.ctable


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (bcolz.arange, ValueError),
        (lambda: bcolz.arange(0, 5, 0), ValueError),
        (lambda: bcolz.arange(5, dtype="i4,i4"), ValueError),
        (lambda: bcolz.zeros(5, "nonsense"), TypeError),
        (lambda: bcolz.arange("5"), TypeError),
        (lambda: bcolz.arange(float("nan")), ValueError),
        (lambda: bcolz.arange(0, float("inf")), ValueError),
        (lambda: bcolz.arange(1e300), ValueError),
        (lambda: bcolz.arange(0, 1, 1e-320), ValueError),
        (lambda: bcolz.arange(0, 1, float("nan")), ValueError),
        (lambda: bcolz.arange(-3, 7, dtype="u2"), ValueError),
        (lambda: bcolz.arange(3, dtype="U3"), TypeError),
        (lambda: bcolz.arange(3, dtype="?"), TypeError),
        (lambda: bcolz.zeros("12"), TypeError),
        (lambda: bcolz.zeros((2, None)), TypeError),
        (lambda: bcolz.zeros((2, -3)), ValueError),
        (lambda: bcolz.zeros(float("nan")), ValueError),
        (lambda: bcolz.zeros((0, 10**18, 10**18)), ValueError),
        (lambda: bcolz.fromiter(5, "i4", 1), TypeError),
        (lambda: bcolz.fromiter(["x"], "i4", 1), ValueError),
        (lambda: bcolz.fromiter([None], "i4", 1), TypeError),
        (lambda: bcolz.fromiter([2**40], "i4", 1), ValueError),
        (lambda: bcolz.carray([1], expectedlen=float("nan")), ValueError),
        (lambda: bcolz.carray([1], expectedlen=float("inf")), ValueError),
        (lambda: [*bcolz.iterblocks(bcolz.arange(5), 0)], ValueError),
        (lambda: bcolz.cparams(clevel="5"), ValueError),
        (lambda: bcolz.cparams(clevel=-1), ValueError),
        (lambda: bcolz.cparams(shuffle=3), ValueError),
        (lambda: bcolz.cparams(cname="none"), ValueError),
        (lambda: bcolz.cparams(quantize=-1), ValueError),
        (lambda: bcolz.cparams(quantize=0.5), ValueError),
        (lambda: setattr(bcolz.defaults, "cparams", {"clevel": 5}), ValueError),
        (lambda: setattr(bcolz.defaults, "cparams", 5), ValueError),
        (lambda: setattr(bcolz.defaults, "vm", "none"), ValueError),
        (lambda: setattr(bcolz.defaults, "out_flavor", "none"), ValueError),
        (lambda: bcolz.blosc_set_nthreads(0), ValueError),
    ],
)
def test_errors(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(TegulaError) as caught:
        wrong()
    assert isinstance(caught.value, error)


def test_defaults_hold_within_a_context() -> None:
    before = dict(bcolz.defaults.cparams)

    def use() -> None:
        with bcolz.defaults_ctx(cparams=bcolz.cparams(clevel=1, cname="zstd"), vm="python", out_flavor="numpy"):
            assert (bcolz.carray([1]).cparams.cname, bcolz.defaults.eval_vm) == ("zstd", "python")
            assert bcolz.defaults.eval_out_flavor == "numpy"
            bcolz.cparams.setdefaults(clevel=9)
            assert bcolz.cparams().clevel == 9
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert (bcolz.defaults.cparams, bcolz.defaults.out_flavor) == (before, "bcolz")
    assert bcolz.defaults.vm == real.defaults.vm


def test_threads_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    before = bcolz.set_nthreads(1)
    try:
        assert (bcolz.set_nthreads(2), bcolz.blosc_set_nthreads(3)) == (1, 2)
    finally:
        assert bcolz.set_nthreads(before) == 3
    bcolz.print_versions()
    assert bcolz.blosc_version()[0] in capsys.readouterr().out
    assert {*bcolz.blosc_compressor_list()} >= {"blosclz", "lz4", "zlib", "zstd"}
    assert repr(bcolz.cparams()) == repr(real.cparams())
    assert {bcolz.cparams(): 1}[bcolz.cparams()] == 1
    assert bcolz.detect_number_of_cores() >= 1


def test_every_public_name_of_bcolz_is_there() -> None:
    insides = {
        *(
            "Version",
            "atexit",
            "dask",
            "git_description",
            "min_dask_version",
            "min_numexpr_version",
            "ncores",
            "numexpr",
        ),
        *("pandas", "py2help", "py2help_tests", "tables", "test", "tests"),
    }
    public = {name for name in vars(real) if not name.startswith("_")}
    assert public - insides <= {*dir(bcolz)}
    assert {*bcolz.__all__} <= {*dir(bcolz)}
    for cls in ("carray", "cparams"):
        names = {name for name in dir(getattr(real, cls)) if not name.startswith("_")}
        assert names <= {*dir(getattr(bcolz, cls))}


def test_mode_w_replaces_a_directory_by_what_is_made_from_it(tmp_path: Path) -> None:
    root = str(tmp_path / "c")
    bcolz.carray(np.arange(50), rootdir=root, chunklen=7)
    (tmp_path / "c" / "notes.txt").write_text("of others")
    found = bcolz.carray(bcolz.open(root, mode="r"), dtype="f4", rootdir=root, mode="w", chunklen=9)
    assert found[:].tolist() == real.open(root, mode="r")[:].tolist() == [*range(50)]
    found.append([50])
    found.flush()
    assert len(bcolz.open(root, mode="r")) == 51
    table = bcolz.ctable([found[:], np.ones(51)], names=["a", "b"], rootdir=root, mode="w")
    table.append((7.0, 8.0))
    table.flush()
    assert bcolz.open(root, mode="r").cols["a"][:].tolist() == [*range(51), 7]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert sorted(path.name for path in (tmp_path / "c").iterdir() if path.is_dir()) == ["a", "b"]


def test_what_mode_w_would_replace_is_untouched_after_an_error(tmp_path: Path) -> None:
    root = str(tmp_path / "c")
    bcolz.carray(np.arange(50), rootdir=root, chunklen=7)

    def rows() -> Any:
        yield from range(30)
        raise RuntimeError("no more rows")

    for act in (
        lambda: bcolz.fromiter(rows(), "i8", -1, rootdir=root, mode="w", chunklen=5),
        lambda: bcolz.ctable([np.arange(3), np.arange(4)], rootdir=root, mode="w"),
        lambda: bcolz.carray(np.arange(3), rootdir=root, mode="w", cparams=bcolz.cparams(quantize=3)),
    ):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        try:
            act()
        except (RuntimeError, TegulaError, TypeError):
            assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
            assert bcolz.open(root, mode="r")[:].tolist() == [*range(50)]
        else:
            pytest.fail("it did not fail")
