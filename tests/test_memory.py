"""Memory: an operation takes the memory of its values and of a few chunks."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from allocations import peak

import tegula
from tegula import config
from tegula.stores import LocalStore

MIB = 2**20
SIDE = 4096  # an array of 16 MiB in chunks of 256 KiB


@pytest.fixture(
    scope="module",
    params=[
        {"format": "zarr1", "codecs": None}, {"format": "zarr2", "codecs": {"id": "zlib", "level": 1}},
        {"codecs": None},
        {"codecs": "zstd"}, {"codecs": "zstd", "shards": (2048, 2048)}, {"codecs": "zstd", "order": "F"},
    ],
    ids=str,
)  # fmt: skip
def array(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tegula.Array:
    path = tmp_path_factory.mktemp("array") / "x"
    array = tegula.create_array(path, shape=(SIDE, SIDE), chunks=(512, 512), dtype="u1", **request.param)
    rng = np.random.default_rng(0)
    for row in range(0, SIDE, 2048):
        array[row : row + 2048] = rng.integers(0, 16, (2048, SIDE), "u1")
    return array


@pytest.mark.slow
@pytest.mark.sampled(one_in=14)
@pytest.mark.parametrize("threads", [1, 4])
def test_reading_takes_the_result_and_a_few_chunks(array: tegula.Array, threads: int) -> None:
    chunk = 512 * 512
    # a shard's neighbouring chunks are read at once
    spare = (threads + 1) * (4 * chunk if array.shards is None else 5 * MIB)
    with config.configure(threads=threads):
        assert peak(lambda: array[...]) < SIDE * SIDE + spare
        assert peak(lambda: array[:, 7]) < spare
        assert peak(lambda: array[::512, ::512]) < spare
        assert peak(lambda: array[5, 5]) < spare
        assert peak(lambda: array.oindex[[1, 2000, 4000], [3, 3000]]) < spare
        out = np.empty((SIDE, SIDE), "u1")
        assert peak(lambda: array.read(out=out).result()) < spare
        total = 0
        for row in array:
            total += int(row[0])
            break
        assert peak(lambda: next(iter(array))) < 512 * SIDE + spare


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("threads", [1, 4])
def test_writing_takes_a_few_chunks(array: tegula.Array, threads: int) -> None:
    values = np.asarray(array[...])
    spare = (threads + 1) * (4 * 512 * 512 if array.shards is None else 3 * 2048 * 2048)
    with config.configure(threads=threads):
        assert peak(lambda: array.__setitem__(..., values)) < spare
        assert peak(lambda: array.__setitem__((slice(100, 200), slice(None)), 3)) < spare
        array[100:200] = values[100:200]


def test_a_scalar_is_not_spread_out_in_memory(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=(2**40, 512), chunks=(512, 512), dtype="f8")
    assert peak(lambda: array.__setitem__(slice(5 * 512, 9 * 512), 1)) < 40 * MIB
    assert array.nchunks_initialized() == 4


def test_opening_and_looking_take_next_to_nothing(array: tegula.Array) -> None:
    def look() -> None:
        again = tegula.open_array(array.store)
        repr(again), again.info, again._repr_html_(), again.nbytes_stored()

    assert peak(look) < MIB


def test_resizing_takes_a_few_chunks(tmp_path: Path) -> None:
    array = tegula.create_array(
        LocalStore(tmp_path / "x"), shape=(SIDE, SIDE), chunks=(512, 512), dtype="u1", codecs=None
    )
    array[...] = 1
    with config.configure(threads=1):
        assert peak(lambda: array.resize(SIDE - 100, SIDE - 100)) < 3 * MIB


def test_a_huge_document_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "meta").open("wb") as file:
        file.truncate(2**30)
    tracemalloc.start()
    try:
        with config.configure(max_input_bytes=2**16), pytest.raises(tegula.MetadataError, match="max_input_bytes"):
            tegula.open(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**22
