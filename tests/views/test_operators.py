"""Arrays as numbers and operands: what reads their elements, and what is refused."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import TegulaError
from tegula.testing import Fault, FaultyStore


@pytest.mark.parametrize("value", [np.float32(2.5), np.int16(-3), np.bool_(False), np.uint64(2**63), np.complex64(1j)])
def test_an_array_without_dimensions_is_a_number(value: Any) -> None:
    a = tegula.array(value)
    kinds: list[Any] = [bool, complex, *([] if a.dtype.kind == "c" else [float, int])]
    for kind in kinds:
        assert kind(a) == kind(np.asarray(value))
    if a.dtype.kind in "iu":
        assert operator.index(a) == operator.index(value)
    else:
        with pytest.raises(TypeError):
            operator.index(a)
    assert tegula.array([[value]]).__bool__() == bool(value)


@pytest.mark.parametrize("convert", [float, int, complex, operator.index])
@pytest.mark.parametrize("shape", [(1,), (2, 2), (0,)])
def test_an_array_with_dimensions_is_not_a_number(convert: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(TypeError):
        convert(tegula.zeros(shape, dtype="i4"))


@pytest.mark.parametrize("shape", [(2, 2), (0,)])
def test_the_truth_of_several_elements_is_ambiguous(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        bool(tegula.zeros(shape))


BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(divmod, operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, operator.iadd, operator.imul),
    *(np.add, np.equal, np.hypot),
]  # fmt: skip


@pytest.mark.parametrize("act", BINARY)
@pytest.mark.parametrize("other", [1, 2.5, np.int8(1), np.arange(4)])
def test_operators_are_refused_without_reading(act: Any, other: Any) -> None:
    store = FaultyStore(tegula.MemoryStore())
    a = tegula.create_array(store, shape=4, dtype="i4")
    store.arm(Fault("crash"))
    for one, two in ((a, other), (other, a)):
        with pytest.raises(TypeError, match=r"a\[\.\.\.\]") as found:
            act(one, two)
        assert isinstance(found.value, TegulaError)
    for unary in (operator.neg, operator.pos, abs, operator.invert, np.sqrt, np.isnan):
        with pytest.raises(TegulaError):
            unary(a)


def test_nodes_are_compared_by_path_and_metadata() -> None:
    store = tegula.MemoryStore()
    a, b = tegula.zeros(3, store=store, path="a"), tegula.zeros(3, store=store, path="b")
    assert a == tegula.open(store, path="a")
    assert a != b
    assert a in [b, a]
    assert len({a, b, tegula.open(store, path="a")}) == 2
    assert {a: 1}[tegula.open(store, path="a")] == 1
    for other in (None, "a", b"a", object(), store):
        assert a != other
        assert not a == other  # noqa: SIM201 - another operator


def test_numpy_reads_arrays_for_reductions_and_copies() -> None:
    a = tegula.array(np.arange(6.0).reshape(2, 3))
    assert (np.sum(a), np.max(a), np.mean(a), np.median(a)) == (15, 5, 2.5, 2.5)
    assert np.concatenate([a, a]).shape == (4, 3)
    assert np.array_equal(a, np.arange(6.0).reshape(2, 3))
