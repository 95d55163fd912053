"""Stored elements that are structures, strings or bytes are read and written as in NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.indexing import whole
from tegula.metadata.data_types import as_data_type
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.node import NodeDriver
from tegula.tensorstore.drivers.zarr2 import ZarrSpec
from tegula.tensorstore.kvstore.kvstore import KvStore

RECORD = [("a", "<i2"), ("b", ">f4", (2, 3)), ("c", "S2"), ("d", "S1")]
CASES = [
    (">i4", None, False),
    (">i4", None, True),
    ("S4", None, False),
    ("S4", None, True),
    ("V3", None, False),
    ("M8[s]", None, False),
    ("U3", None, False),
    ("?", None, False),
    (RECORD, None, False),
    (RECORD, None, True),
    *((RECORD, name, False) for name in "abcd"),
]


def driver_of(array: tegula.Array, elements: Elements | None = None, *, fill_missing: bool | None = None) -> NodeDriver:
    """Return the driver of an array that no spec describes further."""
    source = ZarrSpec()
    source.fill_missing = fill_missing
    return NodeDriver(source, KvStore.open("memory://").result(), array, elements)


def stored(dtype: Any, seed: int) -> tegula.Array:
    dtype = np.dtype(dtype)
    array = tegula.create_array(tegula.MemoryStore(), shape=(3, 4), chunks=(2, 3), dtype=dtype, format="zarr2")
    rng = np.random.default_rng(seed)
    if dtype.kind == "U":
        array[...] = rng.choice(["a", "bcd", "é"], (3, 4))
    elif dtype.kind == "b":
        array[...] = rng.integers(0, 2, (3, 4)).astype(bool)
    else:
        raw = rng.integers(65, 90, (3, 4, dtype.itemsize), dtype=np.uint8)
        array[...] = raw.view(dtype)[..., 0]
    return array


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw a selection of NumPy; no index array names an element twice."""
    joint = draw(st.integers(1, 2))
    results: list[Any] = []
    for size in shape:
        kind = draw(st.sampled_from(["slice", "slice", "int", "array"]))
        if kind == "int":
            results.append(draw(st.integers(0, size - 1)))
        elif kind == "array":
            numbers = draw(st.permutations(range(size)))[: draw(st.integers(1, size))]
            lengths = [1] * joint
            lengths[draw(st.integers(0, joint - 1))] = len(numbers)
            results.append(np.array(numbers).reshape(lengths))
        else:
            start = draw(st.integers(0, size))
            part = slice(start, draw(st.integers(start, size)), draw(st.sampled_from([1, 1, 2])))
            covered = range(size)[part]
            backwards = draw(st.booleans()) and len(covered) > 0
            stop = covered[0] - 1 if backwards and covered[0] else None
            results.append(slice(covered[-1], stop, -part.step) if backwards else part)
    try:
        np.broadcast_shapes(*(each.shape for each in results if isinstance(each, np.ndarray)))
    except ValueError:
        return tuple(slice(0, size, 1) for size in shape)
    return tuple(results)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(CASES), st.integers(0, 99), st.data())
def test_parts_of_elements(case: Any, seed: int, data: Any) -> None:
    dtype, field, void = case
    array = stored(dtype, seed)
    driver = driver_of(array, Elements(array.metadata.data_type, field, void))
    everything = whole(driver.domain.shape)
    wanted = driver.read(everything)
    assert wanted.dtype == driver.dtype.numpy_dtype
    assert wanted.shape == driver.domain.shape
    chosen = data.draw(indices(wanted.shape))
    part = wanted[chosen]
    transform = everything.index(chosen)
    actual = driver.read(transform)
    assert actual.shape == part.shape
    assert np.array_equal(actual, part)
    new = np.random.default_rng(seed + 1).permutation(wanted.ravel())[: part.size].reshape(part.shape)
    driver.write(transform, new)
    wanted[chosen] = new
    assert np.array_equal(driver.read(everything), wanted)


def test_what_elements_are_shown_as() -> None:
    def shown(dtype: Any, **options: Any) -> tuple[str, tuple[int, ...]]:
        elements = Elements(as_data_type(np.dtype(dtype)), **options)
        return elements.dtype.name, elements.shape

    assert shown(">i4") == ("int32", ())
    assert shown(">i4", void=True) == ("byte", (4,))
    assert shown("S4") == ("char", (4,))
    assert shown("V2") == ("byte", (2,))
    assert shown("<U4") == ("<U4", ())
    assert shown(RECORD, field="b") == ("float32", (2, 3))
    assert shown(RECORD, field="c") == ("char", (2,))
    assert shown(RECORD, void=True) == ("byte", (29,))
    assert shown(RECORD)[1] == ()


def test_missing_chunks_are_refused_if_asked_for() -> None:
    array = tegula.create_array(tegula.MemoryStore(), shape=4, chunks=2, dtype="u1", format="zarr2")
    array[:2] = 5
    driver = driver_of(array, fill_missing=False)
    assert driver.read(whole((4,)).index(slice(0, 2))).tolist() == [5, 5]
    with pytest.raises(ValueError, match=r'NOT_FOUND: chunk \{1\} stored at "1" is missing'):
        driver.read(whole((4,)))
    assert array[:].tolist() == [5, 5, 0, 0]


def test_what_is_said_of_missing_chunks_wins_against_the_setting() -> None:
    array = tegula.create_array(tegula.MemoryStore(), shape=4, chunks=2, dtype="u1", format="zarr2")
    with config.configure(missing_chunks="error"):
        assert driver_of(array, fill_missing=True).read(whole((4,))).tolist() == [0, 0, 0, 0]
        for said in (None, False):
            with pytest.raises(ValueError, match=r'NOT_FOUND: chunk \{[01]\} stored at "[01]" is missing'):
                driver_of(array, fill_missing=said).read(whole((4,)))


@pytest.mark.parametrize(("said", "setting"), [(False, "fill"), (False, "error"), (None, "error")])
def test_parts_of_elements_are_written_into_missing_chunks(said: bool | None, setting: str) -> None:
    """The other parts of these elements become those of the fill value, though reads must not use it."""
    array = tegula.create_array(tegula.MemoryStore(), shape=4, chunks=2, dtype="S3", format="zarr2")
    with config.configure(missing_chunks=setting):
        driver = driver_of(array, fill_missing=said)
        driver.write(whole((4, 3)).index((0, 1)), np.array(b"x"))
        assert driver.read(whole((4, 3)).index(slice(0, 2))).tolist() == [[b"", b"x", b""], [b"", b"", b""]]
        with pytest.raises(ValueError, match=r"chunk \{1\}"):
            driver.read(whole((4, 3)))


def test_reads_that_refuse_missing_chunks_look_up_each_once() -> None:
    asked: list[str] = []

    class Counting(tegula.MemoryStore):
        def get(self, key: str, *args: Any, **options: Any) -> Any:
            asked.append(key)
            return super().get(key, *args, **options)

        def exists(self, key: str) -> bool:
            asked.append(key)
            return super().exists(key)

    array = tegula.create_array(Counting(), shape=4, chunks=2, dtype="u1", format="zarr2")
    array[:] = 5
    driver = driver_of(array, fill_missing=False)
    asked.clear()
    assert driver.read(whole((4,))).tolist() == [5, 5, 5, 5]
    assert sorted(key for key in asked if not key.startswith(".")) == ["0", "1"]


def test_statistics_say_whether_chunks_are_stored() -> None:
    array = tegula.create_array(tegula.MemoryStore(), shape=(400, 400), chunks=(2, 2), dtype="u1", format="zarr2")
    array[10, 20] = 1
    driver = driver_of(array)

    def asked(*indices: Any) -> tuple[bool, bool]:
        return driver.storage_statistics(whole((400, 400)).index(indices))

    assert asked(slice(0, 400, 1), slice(0, 400, 1)) == (False, False)
    assert asked(slice(0, 400, 1), 21) == (False, False)
    assert asked(slice(399, None, -1), 22) == (True, False)
    assert asked(slice(11, 400, 2), slice(20, 400, 2)) == (False, False)
    assert asked(slice(12, 400, 2), slice(20, 400, 2)) == (True, False)
    assert asked(10, 20) == (False, True)
    assert asked(np.arange(400), np.arange(400)[::-1]) == (True, False)
    assert asked(np.arange(400), np.arange(400) * 2 % 400) == (False, False)
