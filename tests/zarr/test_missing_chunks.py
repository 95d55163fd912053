"""Arrays with ``missing_chunks="error"`` miss the chunks that zarr-python misses with ``array.read_missing_chunks``.

Of a shard that is stored, zarr-python misses no inner chunks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula

zarr = pytest.importorskip("zarr", minversion="3.4", reason="needs zarr-python of Python 3.12")


@pytest.mark.parametrize("shards", [None, (4, 6)])
def test_zarr_python_misses_the_same_chunks(shards: Any) -> None:
    random = np.random.default_rng(7)
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(store, shape=(11, 16), chunks=(2, 3), shards=shards, dtype="i4")
    for block in random.permutation(24)[:14]:
        row, column = divmod(int(block), 6)
        array[2 * row : 2 * row + 2, 3 * column : 3 * column + 3] = int(block) + 1
    strict = tegula.open(store, missing_chunks="error")
    results = []
    with zarr.config.set({"array.read_missing_chunks": False}):
        other = zarr.open_array(store, mode="r")
        for _ in range(120):
            rows, columns = (slice(*sorted(random.integers(0, size, 2).tolist())) for size in array.shape)
            if rows.start == rows.stop or columns.start == columns.stop:
                continue
            try:
                expected = other[rows, columns]
            except zarr.errors.ChunkNotFoundError:
                expected = None
            if expected is not None and expected.all():
                np.testing.assert_array_equal(strict[rows, columns], expected)
                results.append(False)
                continue
            assert shards is not None or expected is None
            results.append(expected is None)
            with pytest.raises(tegula.NotFoundError, match="not stored" if expected is None else "the inner chunk"):
                strict[rows, columns]
    assert 2 < sum(results) < len(results) - 2
