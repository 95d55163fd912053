"""The number of Python functions in a write by the kernel, and the writes that it leaves to the longer way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.walks import within

import tegula
from tegula import config
from tegula.engine.caches.chunk_cache import CHUNKS
from tegula.engine.reading import executors


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tegula.Store:
    return tegula.MemoryStore() if request.param == "memory" else tegula.LocalStore(tmp_path)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans of the writes that took the longer way."""
    plans: list[Any] = []
    write = executors._write

    def note(array: Any, plan: Any, values: Any) -> None:
        plans.append(plan)
        write(array, plan, values)

    monkeypatch.setattr(executors, "_write", note)
    return plans


def new_array(store: Any, format: str = "zarr3", **options: Any) -> tegula.Array:
    defaults = {"shape": (100, 100), "chunks": (10, 10), "dtype": "i4", "format": format}
    return tegula.create_array(store, **{**defaults, **options})


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_the_kernel_writes_an_aligned_chunk_in_few_calls(store: Any, kernel: Any, format: str) -> None:
    array, values = new_array(store, format), np.ones((10, 10), "i4")
    with config.configure(executor="kernel"):
        # of a store in Python the document is looked at, and the store's own methods are called
        assert within(
            7 if isinstance(store, tegula.LocalStore) else 40, lambda: array.__setitem__(np.s_[:10, :10], values)
        )
        assert np.array_equal(array[:10, :10], values)


@pytest.mark.parametrize("side", [10, 50], ids=["inner chunk", "whole shard"])
def test_the_kernel_writes_into_a_shard_in_few_calls(tmp_path: Path, kernel: Any, side: int) -> None:
    array, values = new_array(tmp_path / "a", shards=(50, 50)), np.ones((side, side), "i4")
    with config.configure(executor="kernel"):
        assert within(11, lambda: array.__setitem__(np.s_[:side, :side], values))
        assert array[...].sum() == side**2


@pytest.mark.parametrize("executor", ["kernel", "reference"])
@pytest.mark.parametrize(
    "selection", [..., np.s_[3], np.s_[::2, 5:33], np.s_[90:3:-7], np.s_[-1, ...], np.s_[95:400, 7:8]], ids=str
)
@pytest.mark.parametrize("layout", ["C", "F", "reversed", "broadcast"])
def test_values_of_any_layout_are_written(store: Any, kernel: Any, executor: str, selection: Any, layout: str) -> None:
    array, expected = new_array(store), np.zeros((100, 100), "i4")
    shape = expected[selection].shape
    values: Any = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    if layout == "broadcast":
        values = np.broadcast_to(np.int32(7), shape)
    else:
        values = values[::-1] if layout == "reversed" else values.copy(order=layout)
    with config.configure(executor=executor):
        array[selection] = values
        expected[selection] = values
        assert np.array_equal(array[...], expected)


@pytest.mark.parametrize(
    ("selection", "values", "options"),
    [
        (np.s_[:10], 5, {}),
        (np.s_[:10], np.int32(5), {}),
        (np.s_[:10], np.ones(100, "i4"), {}),
        (np.s_[:10], np.ones((1, 10, 100), "i4"), {}),
        (np.s_[:10], np.ones((10, 100), "f8"), {}),
        (np.s_[:10], np.ones((10, 100), ">i4"), {}),
        (np.s_[:10], np.ma.masked_array(np.ones((10, 100), "i4")), {}),
        (np.s_[:0], np.ones((0, 100), "i4"), {}),
        (np.s_[[3, 1]], np.ones((2, 100), "i4"), {}),
        (np.s_[:10], np.ones(10, "i4"), {"shape": 100, "chunks": 10, "format": "bcolz"}),
        (np.s_["x"], np.ones(100, "i4"), {"shape": 100, "chunks": 10, "dtype": [("x", "i4"), ("y", "u1")]}),
    ],
    ids=["int", "scalar", "row", "axis before", "floats", "byte order", "subclass", "empty", "list", "dense", "field"],
)
def test_other_writes_take_the_longer_way(
    store: Any, kernel: Any, planned: list[Any], selection: Any, values: Any, options: dict[str, Any]
) -> None:
    array = new_array(store, **{"format": "zarr2", **options})
    expected = np.zeros(array.shape, array.dtype)
    with config.configure(executor="kernel"):
        array[selection] = values
        expected[selection] = values
        assert len(planned) == 1
        assert np.array_equal(array[...], expected)


def test_a_write_of_many_chunks_takes_the_longer_way(store: Any, kernel: Any, planned: list[Any]) -> None:
    array = new_array(store, shape=5000, chunks=1, dtype="u1")
    with config.configure(executor="kernel"):
        array[:4096] = np.zeros(4096, "u1")
        assert not planned
        array[:4097] = np.zeros(4097, "u1")
        assert len(planned) == 1


@pytest.mark.parametrize("executor", ["kernel", "reference"])
@pytest.mark.parametrize("keeps", [False, True])
def test_chunks_equal_to_the_fill_value_are_stored_as_the_setting_says(
    store: Any, kernel: Any, executor: str, keeps: bool
) -> None:
    array = new_array(store)
    with config.configure(executor=executor, write_empty_chunks=keeps):
        array[:10, :10] = np.zeros((10, 10), "i4")
        assert array.nchunks_initialized() == keeps
        array[:10, :10] = np.ones((10, 10), "i4")
        array[:10, :10] = np.zeros((10, 10), "i4")
        assert array.nchunks_initialized() == keeps


@pytest.mark.parametrize("executor", ["kernel", "reference"])
def test_an_array_that_is_opened_for_reading_is_not_written(store: Any, kernel: Any, executor: str) -> None:
    new_array(store)
    array = tegula.open_array(store, mode="r")
    with config.configure(executor=executor), pytest.raises(tegula.ReadOnlyError, match="for reading"):
        array[:10, :10] = np.ones((10, 10), "i4")
    assert not array.nchunks_initialized()


@pytest.mark.parametrize("executor", ["kernel", "reference"])
def test_a_replaced_or_shortened_array_is_not_written(store: Any, kernel: Any, executor: str) -> None:
    values = np.ones((10, 10), "i4")
    with config.configure(executor=executor):
        array = new_array(store)
        array[:10, :10] = values
        tegula.open_array(store, mode="r+").resize((50, 100))
        with pytest.raises(tegula.SelectionError, match="resized") as caught:
            array[50:60, :10] = values
        assert caught.value.path
        array[40:50, :10] = values
        new_array(store, dtype="i8", overwrite=True)
        with pytest.raises(tegula.NotFoundError, match="replaced"):
            array[:10, :10] = values
        assert not tegula.open_array(store).nchunks_initialized()


def test_errors_of_a_write_name_the_array_and_the_chunk(kernel: Any, tmp_path: Path) -> None:
    array = new_array(tmp_path / "a")
    (tmp_path / "a" / "c" / "0" / "0" / "0").mkdir(parents=True)
    (tmp_path / "a" / "c" / "0" / "0" / "0" / "file").touch()
    with config.configure(executor="kernel"), pytest.raises(tegula.StoreError) as caught:
        array[:10, :10] = np.ones((10, 10), "i4")
    assert caught.value.path
    assert caught.value.path.endswith("/a")
    assert caught.value.key == "c/0/0"


def test_cache_switched_on_during_a_write_does_not_keep_the_old_chunk(store: Any, kernel: Any) -> None:
    array = new_array(store)
    switch, write = config.configure(cache_bytes=2**20), array.stored

    class Described:
        """The kernel's description; others read the old chunk into a new cache just before it is replaced."""

        def __getattr__(self, name: str) -> Any:
            return getattr(described, name)

        def set(self, *arguments: Any) -> bool:
            switch.__enter__()
            assert not array[:10, :10].any()
            return described.set(*arguments)

    with config.configure(executor="kernel"):
        array[90:, 90:] = np.ones((10, 10), "i4")
        described: Any = write.kernel
        object.__setattr__(write, "kernel", Described())
        try:
            array[:10, :10] = np.ones((10, 10), "i4")
            assert array[:10, :10].all()
        finally:
            object.__setattr__(write, "kernel", described)
            switch.__exit__(None, None, None)


def test_read_begun_before_the_cache_was_switched_off_adds_nothing(store: Any) -> None:
    array = new_array(store)
    with config.configure(cache_bytes=2**20):
        held = CHUNKS.of(array.stored)
    with config.configure(cache_bytes=2**20):
        CHUNKS.put(held, "c/0/0", (b"", (0, 0.0), held.changes), {(): np.zeros((10, 10), "i4")})
        assert not CHUNKS.nbytes


def test_a_write_follows_the_executor_and_the_cache_from_call_to_call(
    store: Any, kernel: Any, planned: list[Any]
) -> None:
    array, values = new_array(store), np.ones((10, 10), "i4")
    for executor, cache_bytes, planning in [
        ("kernel", 0, 0),
        ("reference", 0, 1),
        ("kernel", 2**20, 1),
        ("kernel", 0, 0),
    ]:
        with config.configure(executor=executor, cache_bytes=cache_bytes):
            planned.clear()
            array[:10, :10] = values
            assert len(planned) == planning
            assert array[:10, :10].all()
