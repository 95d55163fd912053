"""Jobs on nodes on a web server, which can't be listed: by the chunk grid and consolidated metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.servers.static import StaticServer

import tegula
from tegula import config
from tegula.cli.progress import _amounts_of
from tegula.stores import MemoryStore

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow]

VALUES = np.arange(60).reshape(6, 10)
FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]


@pytest.fixture
def site(http_server: StaticServer) -> tuple[str, Path]:
    """Return a URL and the directory that is served there."""
    bucket = http_server.bucket()
    return bucket.url, http_server.directory(bucket)


def contents(store: Any) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def hierarchy(directory: Path, format: str) -> tegula.Group:
    group = tegula.create_group(directory, format=format)
    group.create_array("a/x", shape=(6, 10), chunks=(2, 5), dtype="i4", attributes={"units": "K"})[:3] = VALUES[:3]
    group.create_array("a-b", shape=(), dtype="f8", fill_value=7)
    group.create_array("empty", shape=(4, 0), dtype="f8")
    if format == "zarr3":
        group.create_array("s", shape=(6, 10), chunks=(1, 5), shards=(2, 10), dtype="i4")[4:] = VALUES[4:]
    group.consolidate()
    return group


@pytest.mark.parametrize("format", FORMATS)
def test_jobs_on_an_array(site: tuple[str, Path], format: str) -> None:
    url, directory = site
    array = tegula.create_array(directory / "x", shape=(6, 10), chunks=(2, 10), dtype="i4", format=format)
    array[:3] = VALUES[:3]
    copy, converted = MemoryStore(), MemoryStore()
    assert tegula.copy(f"{url}/x", copy).arrays == 1
    assert contents(copy) == contents(tegula.store_of(directory / "x"))
    assert tegula.convert(f"{url}/x", converted, format="zarr3", chunks=(3, 3), verify=True).ok
    for other in (copy, converted, directory / "x"):
        assert tegula.compare(f"{url}/x", other).equal
    report = tegula.check(f"{url}/x")
    assert [(found.kind, found.severity) for found in report.findings] == [("not-listed", "note")]
    assert (report.arrays, report.chunks) == (1, 3 if format == "bcolz" else 2)
    assert tegula.open_array(f"{url}/x").nbytes_stored() == array.nbytes_stored()
    assert "can't be listed" in str(tegula.open(f"{url}/x").info)
    assert tegula.statistics(f"{url}/x").max == 29
    assert tegula.checksum(f"{url}/x") == tegula.checksum(array)


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_jobs_on_a_consolidated_group(site: tuple[str, Path], format: str) -> None:
    url, directory = site
    hierarchy(directory, format)
    copy, converted = MemoryStore(), MemoryStore()
    local_copy = tegula.copy(directory, MemoryStore())
    assert tegula.copy(url, copy) == local_copy
    assert contents(copy) == contents(tegula.store_of(directory))
    assert tegula.convert(url, converted, format="zarr3", verify=True).ok
    for source in (url, tegula.open(url), tegula.open_group(url, consolidated=True)):
        for other in (copy, converted, directory):
            assert tegula.compare(source, other).equal
    report = tegula.check(url)
    assert report.counts == {"not-listed": 1}
    local_report = tegula.check(directory)
    assert (report.arrays, report.groups, report.chunks) == (
        local_report.arrays,
        local_report.groups,
        local_report.chunks,
    )
    assert [*tegula.statistics(url).parts] == [*tegula.statistics(directory).parts]
    assert tegula.checksum(url) == tegula.checksum(directory)
    assert tegula.copy(url, MemoryStore(), path="deep/er").arrays == local_copy.arrays
    assert dict(_amounts_of((tegula.open(url),))) == dict(_amounts_of((tegula.open(directory),)))


def test_faults_are_found(site: tuple[str, Path]) -> None:
    url, directory = site
    hierarchy(directory, "zarr3")
    (directory / "a/x/c/0/1").write_bytes(b"damaged")
    (directory / "empty/zarr.json").write_bytes(b"{")
    (directory / "a-b/zarr.json").unlink()
    report = tegula.check(url)
    assert report.counts == {"not-listed": 1, "damaged-chunk": 1, "metadata": 1, "consolidated-gone": 1}
    (directory / "zarr.json").write_bytes(b"{")
    assert tegula.check(url).counts == {"not-listed": 1, "metadata": 1}
    with pytest.raises(tegula.TegulaError):
        tegula.copy(url, MemoryStore())


def test_a_table_of_bcolz(site: tuple[str, Path]) -> None:
    url, directory = site
    table = tegula.create_table(directory, {"u": np.arange(9), "v": np.ones(9)}, format="bcolz", chunks=4)
    copy = MemoryStore()
    tegula.copy(url, copy)
    for found in (tegula.open(url), tegula.open(copy)):
        assert isinstance(found, tegula.Table)
        assert found[:].tolist() == table[:].tolist()
    assert tegula.check(url).counts == {"not-listed": 1}
    assert tegula.compare(url, directory).equal


def test_what_can_not_be_known_is_an_error_that_says_what_to_do(site: tuple[str, Path]) -> None:
    url, directory = site
    tegula.create_group(directory / "g").create_array("x", shape=3, dtype="i4")
    tegula.create_array(directory / "huge", shape=10**12, chunks=10, dtype="i4")[5] = 1
    for job in (
        tegula.check,
        lambda source: tegula.copy(source, MemoryStore()),
        lambda source: tegula.convert(source, MemoryStore()),
        lambda source: tegula.compare(source, source),
        tegula.statistics,
        tegula.checksum,
    ):
        with pytest.raises(tegula.UnsupportedError, match="consolidated metadata"):
            job(f"{url}/g")
    for job in (
        lambda source: tegula.copy(source, MemoryStore()),
        lambda source: tegula.convert(source, MemoryStore()),
        tegula.check,
    ):
        with pytest.raises(tegula.UnsupportedError, match="max_chunks"):
            job(f"{url}/huge")
    part = MemoryStore()
    tegula.convert(f"{url}/huge", part, select=slice(20))
    assert tegula.open(part)[5] == 1
    tegula.create_array(directory / "x", shape=30, chunks=10, dtype="i4")
    array = tegula.open_array(f"{url}/x")
    with config.configure(max_chunks=2), pytest.raises(tegula.UnsupportedError, match="max_chunks"):
        array.nbytes_stored()
    with pytest.raises(tegula.NotFoundError):
        tegula.check(f"{url}/nothing")
    with pytest.raises(tegula.ReadOnlyError):
        tegula.copy(part, f"{url}/copy")
