"""Windows into large uncompressed chunks in remote stores: values as in memory, from the bytes around them only."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waves import RangedWaveStore, WaveStore, of_chunks

import tegula
from tegula.engine.reading import windows
from tegula.engine.reading.remote import IN_FLIGHT, ShardReader
from tegula.engine.reading.windows import window_of
from tegula.errors import CodecError, TegulaError

pytestmark = pytest.mark.once(executors="both")

SHAPE = (24, 20, 16)
VALUES = np.random.default_rng(0).integers(-(2**15), 2**15, SHAPE).astype("i2")
STORES = [WaveStore, RangedWaveStore]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make windows of chunks that are small."""
    shrink(monkeypatch)


def shrink(patch: pytest.MonkeyPatch, gap: int = 40, span: int = 100) -> None:
    patch.setattr(windows, "_LARGE", 100)
    made = ShardReader.__init__

    def init(self: ShardReader, store: Any) -> None:
        made(self, store)
        self.gap, self.span = gap, span

    patch.setattr(ShardReader, "__init__", init)


def stored(store: tegula.Store, values: Any = VALUES, **options: Any) -> tegula.Array:
    array = tegula.create_array(store, shape=values.shape, dtype=values.dtype, **{"codecs": None, **options})
    array[...] = values
    return array


def bytes_read(requests: list[str]) -> int:
    return sum(int(length) for request in of_chunks(requests) for length in re.findall(r"\(\d+, (\d+)\)", request))


def axis(size: int) -> st.SearchStrategy[Any]:
    index = st.integers(-size, size - 1)
    return st.one_of(
        index,
        st.slices(size),
        st.lists(index, min_size=1, max_size=4).map(np.array),
    )


@settings(max_examples=150, deadline=None)
@given(st.tuples(*map(axis, SHAPE)), st.sampled_from([0, 40, 700, 10**6]), st.sampled_from([7, 100, 10**6]), st.data())
def test_any_selection_is_read_as_from_memory(selection: Any, gap: int, span: int, data: st.DataObject) -> None:
    chunks = data.draw(st.sampled_from([SHAPE, (12, 20, 16), (24, 7, 16), (10, 9, 5)]))
    format = data.draw(st.sampled_from(["zarr3", "zarr2"]))
    dtype = data.draw(st.sampled_from(["i2", ">i2"]))
    kind = data.draw(st.sampled_from(STORES))
    values = VALUES.astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, gap, span)
        array = stored(kind(quiet=0), values, chunks=chunks, format=format)
        assert windows.has_windows(array.stored)
        assert np.array_equal(array.oindex[selection], outer(values, selection))
        points = tuple(np.resize(part, 3) for part in selection if isinstance(part, np.ndarray))
        if len(points) == len(SHAPE):
            assert np.array_equal(array.vindex[points], values[points])
        basic = tuple(slice(None) if isinstance(part, np.ndarray) else part for part in selection)
        assert np.array_equal(array[basic], values[basic])
    assert IN_FLIGHT._held == 0


def outer(values: Any, selection: tuple[Any, ...]) -> Any:
    """Return what an orthogonal selection selects."""
    for number in reversed(range(len(selection))):
        values = values[(*[slice(None)] * number, selection[number])]
    return values


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.usefixtures("small")
def test_only_the_bytes_around_a_window_are_read_in_one_wave(kind: type[WaveStore]) -> None:
    store = kind()
    array = stored(store, chunks=(12, 20, 16))
    row, plane = 2 * 16, 2 * 16 * 20
    for selection, most in [
        (np.s_[5, 3, 2:9], 14),  # within one row
        (np.s_[5, 3:6], 3 * row),  # rows beside each other
        (np.s_[3:6], 3 * plane),
        (np.s_[:, 4, :], 24 * row),  # one row of each plane, of two chunks
        (np.s_[0:24:6, 4:6, 1], 4 * (row + 2)),
    ]:
        with store.waves() as log:
            assert np.array_equal(array[selection], VALUES[selection])
        assert len(log) == 1
        assert bytes_read(log.requests) <= most
    with store.waves() as log:  # most of the chunk
        assert np.array_equal(array[:8], VALUES[:8])
    assert of_chunks(log.requests) == ["get c/0/0/0"]


@pytest.mark.usefixtures("small")
def test_fields_and_structures() -> None:
    values = np.zeros(SHAPE[:2], [("a", "i2"), ("b", "f8")])
    values["a"], values["b"] = VALUES[..., 0], VALUES[..., 1]
    array = stored(RangedWaveStore(), values)
    assert np.array_equal(array[5, 3:6], values[5, 3:6])
    assert np.array_equal(array["b", 5, 3:6], values["b"][5, 3:6])


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.usefixtures("small")
def test_absent_and_damaged_chunks(kind: type[WaveStore]) -> None:
    store = kind()
    array = tegula.create_array(store, shape=SHAPE, dtype="i2", chunks=(12, 20, 16), codecs=None, fill_value=9)
    array[12:] = VALUES[12:]
    assert (array[3:5, 2] == 9).all()
    assert np.array_equal(array[11:14, 2], np.concatenate([np.full((1, 16), 9), VALUES[12:14, 2]]))
    store.values.set("c/1/0/0", (store.values.get("c/1/0/0") or b"")[:-700])
    assert np.array_equal(array[13], VALUES[13])
    with pytest.raises(CodecError, match="c/1/0/0"):
        array[23]
    tegula.delete(store)
    with pytest.raises(TegulaError):
        array[13]


class Changing(RangedWaveStore):
    """Before every fifth request the chunk is replaced."""

    count = 0

    def passing(self, request: str) -> None:
        self.count += 1
        if self.count % 5 == 0 and self.values.get("c/0/0/0") is not None:
            self.values.set("c/0/0/0", bytes([self.count % 250 + 1]) * VALUES.nbytes)


@pytest.mark.parametrize("ranged", [True, False])
@pytest.mark.usefixtures("small")
def test_all_ranges_of_a_chunk_are_of_one_generation(ranged: bool) -> None:
    store = Changing() if ranged else type("Plain", (WaveStore,), {"passing": Changing.passing, "count": 0})()
    array = stored(store, np.full(SHAPE, 0x0101, "i2"))
    store.concurrency = 4
    seen = set()
    for _ in range(20):
        found = np.ascontiguousarray(array[::8, 1]).view("u1")
        assert (found == found.flat[0]).all()
        seen.add(found.flat[0])
    assert len(seen) > 1


def test_a_real_window_is_a_small_part_of_a_large_chunk() -> None:
    store = RangedWaveStore()
    array = tegula.create_array(store, shape=(4096, 4096), chunks=(4096, 4096), dtype="u1", codecs=None)
    array[...] = np.arange(4096, dtype="u2").astype("u1")
    with store.waves() as log:
        assert array[100:110, 50].tolist() == [50] * 10
    assert len(of_chunks(log.requests)) == 1
    assert bytes_read(log.requests) < 2**16
    window = window_of(array.stored, (0, 0), (slice(0, 4096, 1024), 3))
    assert window is not None
    assert (window.outer, window.ranges) == (1, [(1024 * 4096 * number + 3, 1) for number in range(4)])
    packed = tegula.create_array(RangedWaveStore(), shape=2**23, chunks=2**23, dtype="u1", codecs="zstd")
    assert not windows.has_windows(packed.stored)
