"""Expressions over carrays and columns: NumPy as the oracle, and the lookup of names."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula import TegulaError, bcolz

OUTSIDE = 1000
VMS = ["numexpr", "python", *(["dask"] if bcolz.dask_here else [])]


@settings(max_examples=60)
@given(
    length=st.integers(0, 60),
    chunklen=st.integers(1, 20),
    blen=st.none() | st.integers(1, 70),
    vm=st.sampled_from(VMS),
    text=st.sampled_from(
        ["a + 2 * b - 3", "(a > b) & (c < 7)", "where(a > 3, c, b)", "-a ** 2", "sin(c) + OUTSIDE", "a < k"]
    ),
)
def test_blocks_give_the_result_of_all_rows(length: int, chunklen: int, blen: int | None, vm: str, text: str) -> None:
    rng = np.random.default_rng(length)
    values = {
        "a": rng.integers(-9, 9, length),
        "b": rng.integers(-9, 9, length).astype("f4"),
        "c": rng.random(length),
        "k": 2,
    }
    arrays = {**values, "a": bcolz.carray(values["a"], chunklen=chunklen), "b": bcolz.carray(values["b"])}
    functions = {"where": np.where, "sin": np.sin, "OUTSIDE": OUTSIDE}
    expected = eval(text, functions, values)
    found = bcolz.eval(text, vm=vm, user_dict=arrays, blen=blen)
    assert type(found) is bcolz.carray
    np.testing.assert_allclose(found[:], expected, rtol=1e-6)
    np.testing.assert_array_equal(bcolz.eval(text, vm=vm, user_dict=arrays, out_flavor="numpy"), found[:])


def ask(text: str, /, *, vm: str | None = None, blen: int | None = None, **values: Any) -> Any:
    found = bcolz.eval(text, vm=vm, blen=blen, user_dict=values)
    return found[:] if isinstance(found, bcolz.carray) else found


@settings(max_examples=30)
@given(length=st.integers(1, 50), blen=st.integers(1, 60), vm=st.sampled_from(VMS))
def test_reductions_combine_all_blocks(length: int, blen: int, vm: str) -> None:
    a = np.random.default_rng(length).integers(1, 3, length)
    c = bcolz.carray(a, chunklen=7)
    for text, expected in {
        "sum(c)": a.sum(),
        "sum(c * 2)": a.sum() * 2,
        "prod(c)": a.prod(),
        "min(c)": a.min(),
        "max(c)": a.max(),
        "sum(c - min(c))": (a - a.min()).sum(),
    }.items():
        found = ask(text, vm=vm, blen=blen, c=c)
        assert np.ndim(found) == 0
        assert found == expected
    np.testing.assert_array_equal(ask("c - min(c)", vm=vm, blen=blen, c=c), a - a.min())


def test_a_sum_of_rows() -> None:
    a = np.arange(24.0).reshape(4, 3, 2)
    c = bcolz.carray(a, chunklen=2)
    for vm in VMS:
        np.testing.assert_array_equal(ask("sum(c)", vm=vm, c=c), a.sum(axis=None if vm == "numexpr" else 0))
        np.testing.assert_array_equal(ask("np.sum(c)", vm=vm, c=c), a.sum())
        for axis in (0, 1, 2):
            np.testing.assert_array_equal(ask(f"sum(c, axis={axis})", vm=vm, blen=3, c=c), a.sum(axis=axis))
        np.testing.assert_array_equal(ask("c + c", vm=vm, c=c), a + a)


def test_scalars_give_a_scalar() -> None:
    assert ask("2 * n", n=3) == 6
    assert ask("sin(n)", vm="python", n=3) == math.sin(3)
    assert not ask("text == 'other'", vm="python", text="one")


def test_arrays_of_one_row_fit_any_length() -> None:
    many, one, none = bcolz.arange(5), np.array([2]), bcolz.carray(np.empty(0, "i8"))
    assert ask("many * one", many=many, one=one).tolist() == [0, 2, 4, 6, 8]
    assert ask("one * many", many=many, one=one).tolist() == [0, 2, 4, 6, 8]
    assert len(ask("none * 2", none=none)) == len(ask("none * one", none=none, one=one)) == 0


@pytest.mark.parametrize(
    ("text", "types", "expected"),
    [
        ("a + b", "i1 i1", "i4"),
        ("a * b", "u2 i2", "i4"),
        ("a + b", "u4 i4", "i8"),
        ("a + 3000000000", "i4 i4", "i8"),
        ("sqrt(a)", "i1 i1", "f8"),
        ("2 * a", "f4 f4", "f4"),
        ("2.5 * a", "f4 f4", "f8"),
        ("a * k", "f4 f4", "f8"),
        ("a + b", "u8 u1", "u8"),
        ("a < 0.1", "f4 f4", "b1"),
        ("a + b", "f2 f4", "f4"),
        ("2.5 * a", "f2 f2", "f8"),
        ("a * b", "c8 f4", "c16"),
        ("a", ">f8 >f8", "f8"),
    ],
)
def test_types_are_those_of_numexpr(text: str, types: str, expected: str) -> None:
    a, b = (np.array([100, 1]).astype(kind) for kind in types.split())
    found = ask(text, vm="numexpr", a=a, b=b, k=0.5)
    assert found.dtype == expected
    values = {"a": a.astype({"i": "i8", "u": "i8", "f": "f8", "c": "c16"}[a.dtype.kind]), "b": b.astype("i8")}
    values |= {"k": 0.5, "sqrt": np.sqrt}
    np.testing.assert_array_equal(found, eval(text, {}, values))
    single = np.array([0.1], "f4")
    assert not ask("a == 0.1", vm="numexpr", a=single)[0]
    assert ask("a == 0.1", vm="python", a=single)[0] == (single == 0.1)[0]


def test_functions_that_numexpr_lacks() -> None:
    days = np.array(["2020-01-01", "2021-01-01"], "M8[D]")
    assert ask("text == 'b'", vm="numexpr", text=np.array(["a", "b"])).tolist() == [False, True]
    assert ask("day > limit", vm="numexpr", day=days, limit=days[0]).tolist() == [False, True]
    assert ask("large > 5", vm="numexpr", large=np.array([1, 2**63], "u8")).tolist() == [False, True]


def test_names() -> None:
    def inner(here: bcolz.carray) -> Any:
        return bcolz.eval("here + OUTSIDE", out_flavor="numpy")

    c = bcolz.carray([3, 4])
    assert inner(c).tolist() == [1003, 1004]
    assert bcolz.eval("c", user_dict={"c": np.array([7])})[:].tolist() == [7]
    assert bcolz.eval("c + 0")[:].tolist() == c[:].tolist()
    with pytest.raises(NameError, match="unheard_of"):
        ask("c + unheard_of", c=c)
    for sequence in ([1, 2], (1, 2), np.zeros(2, "i4,i4")):
        with pytest.raises(ValueError, match="sequence"):
            ask("sequence * 2", sequence=sequence)
    with pytest.raises(ValueError, match="length"):
        ask("c + d", c=c, d=np.arange(3))


@pytest.mark.parametrize(
    "text", ["__import__('os')", "c.__class__", "(lambda: 1)()", "c[0]", "c +", "open('x')", "[n for n in c]"]
)
@pytest.mark.parametrize("vm", VMS)
def test_nothing_else_is_evaluated(text: str, vm: str) -> None:
    with pytest.raises(TegulaError):
        bcolz.eval(text, vm=vm, user_dict={"c": bcolz.carray([1, 2])})


def test_bad_options() -> None:
    for options in ({"vm": "abacus"}, {"out_flavor": "vanilla"}):
        with pytest.raises(TegulaError):
            bcolz.eval("1 + n", user_dict={"n": np.arange(2)}, **options)


def test_results_in_a_directory(tmp_path: Path) -> None:
    place = str(tmp_path / "sum")
    a = np.arange(100)
    bcolz.eval("a + a", rootdir=place, chunklen=9, cparams=bcolz.cparams(clevel=1))
    stored = bcolz.open(place, "r")
    assert (stored.chunklen, stored.cparams.clevel, len(stored)) == (9, 1, 100)
    np.testing.assert_array_equal(stored[:], a + a)


def test_selecting_from_a_carray() -> None:
    a = np.arange(10)
    c = bcolz.carray(a)
    assert c["a > 7"].tolist() == [8, 9]
    c["a > 7"] = 0
    assert c[:].tolist() == [*range(8), 0, 0]
    with pytest.raises(IndexError):
        c["a + 7"]
