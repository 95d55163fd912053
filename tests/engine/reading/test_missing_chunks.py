"""The setting ``missing_chunks``: chunks that are not stored read as fill values, or are an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config
from tegula.errors import MetadataError, NotFoundError


@pytest.fixture(params=["zarr1", "zarr2", "zarr3", "shards"])
def array(request: pytest.FixtureRequest) -> Any:
    """An array of six chunks, of which one is missing."""
    shards = request.param == "shards"
    options: dict[str, Any] = {"chunks": (2, 2), "shards": (4, 4)} if shards else {"chunks": (4, 4)}
    made = tegula.create_array({}, shape=(8, 12), dtype="i4", format="zarr3" if shards else request.param, **options)
    made[...] = np.arange(1, 97).reshape(8, 12)
    made[4:, :4] = 0
    return made


@pytest.fixture
def _error() -> Iterator[None]:
    with config.configure(missing_chunks="error"):
        yield


@pytest.mark.usefixtures("_error")
def test_reading_a_missing_chunk_is_an_error_that_names_it(array: Any) -> None:
    assert array[0, 5] == 6
    assert array[:4].sum() == sum(range(1, 49))
    for read in (
        lambda: array[...], lambda: array[5, 1], lambda: array[:, 2], lambda: array.oindex[[0, 5], [1]],
        lambda: array.vindex[[5], [1]], lambda: np.asarray(array), lambda: array.lazy[4:].read().result(),
        lambda: array.blocks[1, 0], lambda: array.read_async(np.s_[4:, :2]).result(),
    ):  # fmt: skip
        try:
            with pytest.raises(NotFoundError, match="not stored") as raised:
                read()
        except AttributeError:
            continue
        assert raised.value.key is not None
    with config.configure(missing_chunks="fill"):
        assert array[4:, :4].tolist() == [[0] * 4] * 4


@pytest.mark.usefixtures("_error")
@pytest.mark.parametrize("setting", [{}, {"executor": "reference"}, {"cache_bytes": 2**20}])
def test_every_executor_says_so(array: Any, setting: dict[str, Any]) -> None:
    with config.configure(**setting):
        for _ in range(2):
            assert array[0, 0] == 1
            with pytest.raises(NotFoundError):
                array[4:]


@pytest.mark.usefixtures("_error")
def test_parts_of_missing_chunks_are_written_as_before(array: Any) -> None:
    array[4, 0] = 7
    assert array[4:6, :2].tolist() == [[7, 0], [0, 0]]


@pytest.mark.usefixtures("_error")
def test_strings() -> None:
    texts = tegula.create_array({}, shape=4, chunks=2, dtype=str)
    texts[:2] = ["a", "b"]
    assert texts[:2].tolist() == ["a", "b"]
    with pytest.raises(NotFoundError):
        texts[...]


@pytest.mark.usefixtures("_error")
@pytest.mark.parametrize("job", ["statistics", "checksum", "convert"])
def test_jobs_that_read_elements_end_in_the_error(job: str) -> None:
    array = tegula.create_array({}, shape=(2000, 2000), chunks=(10, 10), dtype="i4")
    array[:10, :10] = 1
    jobs: dict[str, Callable[[], Any]] = {
        "statistics": lambda: tegula.statistics(array), "checksum": lambda: tegula.checksum(array),
        "convert": lambda: tegula.convert(array, {}, dtype="i8"),
    }  # fmt: skip
    with pytest.raises(NotFoundError, match="not stored"):
        jobs[job]()


@pytest.mark.usefixtures("_error")
def test_a_comparison_reports_the_error(array: Any) -> None:
    other = tegula.create_array({}, shape=array.shape, chunks=(8, 12), dtype="i4", fill_value=1)
    report = tegula.compare(array, other)
    assert not report.equal
    assert "the chunk is not stored" in str(report)


@pytest.mark.usefixtures("_error")
def test_check_reports_them(array: Any) -> None:
    report = tegula.check(array)
    assert report.counts["missing-chunk"] == 1
    assert not report.ok
    with config.configure(missing_chunks="fill"):
        assert tegula.check(array).ok


def test_the_setting_has_two_values() -> None:
    with pytest.raises(MetadataError):
        config.Config(missing_chunks="ignore")
