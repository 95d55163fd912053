"""What opening a bucket again costs, and that it still notices what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stores.crude_s3 import CrudeS3, crude_s3
from tests.walks import ROOT, calls

import tegula
from tegula import config
from tegula.stores.objects.store import ObjectStore

pytest.importorskip("obstore")

pytestmark = pytest.mark.once(executors="both")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CrudeS3]:
    monkeypatch.setenv("HOME", str(tmp_path))
    with crude_s3() as server:
        yield server


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_reopening_a_bucket_and_reading_a_chunk_takes_few_calls(server: CrudeS3, format: str, kernel: Any) -> None:
    more = {"storage_options": server.options}
    array = tegula.create_array("s3://b/x", shape=(20, 20), chunks=(10, 10), dtype="i4", format=format, **more)
    array[...] = np.arange(400).reshape(20, 20)

    def read() -> Any:
        return tegula.open("s3://b/x", **more)[:10, :10]

    with config.configure(executor="kernel"):
        for _ in range(2):  # imports libraries, and makes connections
            assert read()[9, 9] == 189
        # a thread asks for the document beside the chunk, unless it comes too late
        found = min((calls(read, ROOT) for _ in range(9)), key=len)
    assert 50 < len(found) <= (150 if format == "zarr3" else 190), "\n".join(map(str, found))
    # settings and files are looked at once, and the identity is made once
    assert sum(function == "_states" for _, function in found) == 1
    assert not any(function in ("sort_options", "own_credentials", "identity") for _, function in found)


def test_a_store_has_one_identity(server: CrudeS3) -> None:
    one, two, other = (tegula.store_of(f"s3://b/{name}", storage_options=server.options) for name in "xxy")
    assert one.identity == two.identity != other.identity
    assert isinstance(one.identity, str)
    assert server.endpoint in one.identity
    obstore = pytest.importorskip("obstore.store")
    values = obstore.MemoryStore()
    first, second, third = (ObjectStore(values, name) for name in "aab")
    assert first.identity is second.identity is not third.identity


@pytest.mark.parametrize("change", ["options", "environment", "file"])
def test_changed_credentials_sign_the_next_request(
    server: CrudeS3, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"endpoint": server.endpoint, "region": "us-east-1", "allow_http": "true"}
    if change == "file":
        pytest.importorskip("boto3")

    def use(key: str) -> None:
        if change == "options":
            options.update(access_key_id=key, secret_access_key="secret")
        elif change == "environment":
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        else:
            folder = tmp_path / ".aws"
            folder.mkdir(exist_ok=True)
            (folder / "credentials").write_text(
                f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n"
            )

    if change != "environment":
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    for key in ("first", "second", "third-one"):
        use(key)
        assert tegula.store_of("s3://b/x", storage_options=options).get("a") is None
        assert f"Credential={key}/" in server.seen[-1][2]
