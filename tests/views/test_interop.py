"""NumPy's conversion protocol and DLPack: arrays handed over, and memory of other libraries that receives elements."""

from __future__ import annotations

import array
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.errors import SelectionError, TegulaError

VALUES = np.arange(24, dtype="i4").reshape(6, 4)


def stored(values: Any = VALUES, **options: Any) -> tegula.Array:
    return tegula.create_array({}, data=values, **{"chunks": 2, **options})


class Tensor:
    """Memory that is reached by DLPack only; `legacy` is DLPack before its version 1.0."""

    def __init__(self, values: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.values = values
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Legacy(Tensor):
    def __dlpack__(self, stream: Any = None) -> Any:
        return self.values.__dlpack__(stream=stream)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.values


# --- arrays handed over


def test_conversion_follows_numpy() -> None:
    a = stored()
    for convert in (np.asarray, np.array):
        assert np.array_equal(convert(a), VALUES)
        assert convert(a, dtype="f8").dtype == "f8"
    assert np.array_equal(np.array(a, copy=True), VALUES)
    for view in (a, a.astype("f4")):
        with pytest.raises(ValueError, match="copy"):
            np.asarray(view, copy=False)
    with pytest.raises((ValueError, TypeError)):
        np.asarray(stored(np.array(["x"])), dtype="i4")


@given(st.sampled_from(["i1", "u8", "f2", "f4", "c16", "?"]), st.sampled_from([(), (0,), (3,), (2, 3), (1, 0, 2)]))
def test_dlpack_hands_over_all_elements(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    a = stored(values)
    found = np.from_dlpack(a)
    assert found.dtype == dtype
    assert np.array_equal(found, values)


def test_dlpack_says_what_it_can_not_do() -> None:
    a = stored()
    assert a.__dlpack_device__() == (1, 0)
    assert np.array_equal(np.from_dlpack(a, copy=True), VALUES)
    for fault in (
        lambda: np.from_dlpack(a, copy=False),
        lambda: np.from_dlpack(stored(np.array(["x"]))),
        lambda: np.from_dlpack(stored(np.ones(2, ml_dtypes.bfloat16))),
    ):
        with pytest.raises(BufferError) as raised:
            fault()
        assert isinstance(raised.value, TegulaError)


# --- memory that receives elements


@pytest.mark.parametrize("kind", [Tensor, Legacy])
def test_reading_into_memory_of_another_library(kind: type[Tensor]) -> None:
    memory = np.zeros((6, 8), "f8")
    out = kind(memory[::-1, ::2])
    assert stored().read(out=out).result() is out
    assert np.array_equal(memory[::-1, ::2], VALUES)
    assert not memory[:, 1::2].any()


def test_reading_into_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    out = torch.full((4, 6), -1, dtype=torch.int32).T
    assert stored().read((slice(2, 4), ...), out=out[2:4]).result() is not None
    assert out[2:4].tolist() == VALUES[2:4].tolist()
    assert set(out[:2].flatten().tolist()) == {-1}
    assert torch.from_dlpack(stored()).tolist() == VALUES.tolist()
    with pytest.raises(SelectionError, match="detach"):
        stored().read(out=torch.zeros(6, 4, requires_grad=True)).result()


def test_reading_into_buffers() -> None:
    row = stored().read(5, out=array.array("d", bytes(32))).result()
    assert row.tolist() == [20, 21, 22, 23]
    memory = bytearray(96)
    view = memoryview(memory).cast("i", (6, 4))
    assert stored().read(out=view).result() is view
    assert np.array_equal(np.frombuffer(memory, "i4").reshape(6, 4), VALUES)
    records = np.array([(1, 2.5), (3, 4.5)], [("x", "i4"), ("y", "f8")])
    assert stored(records).read("y", out=array.array("f", bytes(8))).result().tolist() == [2.5, 4.5]


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ([0] * 4, "list"),
        (bytes(4), "bytes"),
        (object(), "object"),
        (bytearray(5), "shape"),
        (np.broadcast_to(np.int32(0), 4), "is not writable"),
        (Tensor(np.zeros(4), (2, 0)), "device 2"),
        (Tensor(np.zeros(4), (8, 0)), "device 8"),
        (Tensor(np.broadcast_to(np.int32(0), 4)), "Tensor"),
        (Tensor(np.array(["x"] * 4)), "Tensor"),
        (Tensor(np.zeros(3)), "shape"),
        (stored(), "Array"),
        (np.zeros((), [("n", [("x", "<u2"), ("y", "<f4")]), ("z", "?")])[()], "void"),
    ],
    ids=range(12),
)
def test_other_things_are_refused(out: Any, says: str) -> None:
    with pytest.raises(SelectionError, match=says):
        stored().read(0, out=out).result()
