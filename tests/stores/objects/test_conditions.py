"""When a bucket is tested: before the first conditional write, and not earlier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores.crude_s3 import CrudeS3, crude_s3

import tegula
from tegula.errors import AlreadyExistsError, NotFoundError
from tegula.stores import LocalStore

pytest.importorskip("obstore")

pytestmark = pytest.mark.once(executors="both")


@pytest.fixture
def server() -> Iterator[CrudeS3]:
    with crude_s3() as server:
        yield server


def test_no_test_is_written_before_the_first_conditional_write(server: CrudeS3, tmp_path: Path) -> None:
    tegula.save(tmp_path, x=range(10), y=[1.5])
    for key in (store := LocalStore(tmp_path)).list():
        server.values[f"/bucket/data/{key}"] = store.get(key) or b"", {}

    def written() -> list[str]:
        return [key for method, key, _ in server.seen if method not in ("GET", "HEAD")]

    more: dict[str, Any] = {"storage_options": server.options}
    url = "s3://bucket/data"
    for mode in ("r", "r+", "a"):
        group = tegula.open(url, mode, **more)
        assert str(group.tree())
        assert "z" not in group
        array = tegula.open_array(f"{url}/x", "r+", **more)
        assert array[:].tolist() == [*range(10)]
    assert tegula.check(url, **more).ok
    assert tegula.store_of(url, **more).capabilities.conditional_write
    with pytest.raises(NotFoundError):
        tegula.copy(f"{url}/none", "s3://bucket/copy", **more)
    with pytest.raises(AlreadyExistsError):
        tegula.copy(f"{url}/x", f"{url}/y", **more)
    assert written() == []
    # whole chunks, and deleting, take no condition
    array[:] = range(10, 20)
    tegula.store_of(url, **more).delete("y/c/0")
    assert [key for key in written() if key.endswith("/x/c/0")]
    assert not any("probe" in key for key in written())
    array.attrs["a"] = 1
    assert any("probe" in key for key in written())
    # nor is it tested whether the bucket copies objects, where there are none to copy
    tegula.create_group(f"{url}/empty", **more)
    tegula.copy(f"{url}/empty", f"{url}/copy", **more)
    assert len({key for key in written() if "probe" in key}) == 1
