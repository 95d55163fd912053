"""A program that uses as much of tegula as it can. It imports nothing itself once `run` has been called."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import tegula
from tegula import config
from tegula.errors import TegulaError
from tegula.stores import ABSENT, LocalStore, MappingStore, MemoryStore, ZipStore

FORMATS = ("zarr3", "zarr2", "zarr1", "bcolz")


def run(path: str) -> None:
    """Do everything below a directory."""
    for format in FORMATS:
        arrays(f"{path}/{format}", format)
        errors(f"{path}/errors-{format}", format)
    codecs(f"{path}/codecs")
    selections(f"{path}/selections")
    strings_and_objects(f"{path}/strings")
    groups_and_tables(f"{path}/groups")
    jobs(f"{path}/jobs")
    stores(f"{path}/stores")
    shown(f"{path}/zarr3")


def fails(call: Any, *args: Any, **options: Any) -> str:
    """Call a function that must fail, and return the message of the error."""
    try:
        call(*args, **options)
    except (TegulaError, TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        return str(error)
    raise AssertionError(f"{call} {args} did not fail")


def arrays(path: str, format: str) -> None:
    options: dict[str, Any] = {"shards": 40} if format == "zarr3" else {}
    a = tegula.create_array(path, data=np.arange(100), chunks=10, dtype="f4", format=format, **options)
    a[3:7] = 1
    a[[1, 50]] = [2, 3]
    a.append(np.ones(33))
    a.resize(80)
    a.attrs.update(unit="m", scale=2.5)
    del a.attrs["scale"]
    a.refresh()
    again = tegula.open(path, mode="r+")
    assert again[3:7].tolist() == [1] * 4
    assert (again.attrs["unit"], again.shape) == ("m", (80,))
    assert np.asarray(again[[1, 50]]).tolist() == [2, 3]
    assert again.astype("i4")[50] == 3
    again.write(slice(0, 5), np.zeros(5)).result()
    assert again.read(slice(0, 5)).result().tolist() == [0] * 5
    assert pickle.loads(pickle.dumps(again))[50] == 3
    assert [chunk.shape for chunk in map(np.asarray, again.blocks[0:2])]
    with config.configure(cache_bytes=2**20, threads=4):
        assert again[...].sum() == again[...].sum()
    asyncio.run(awaited(again))
    again.close()
    fails(lambda: again.attrs.__setitem__("x", object()))


async def awaited(a: Any) -> None:
    assert (await a.read(slice(0, 3))).tolist() == [0, 0, 0]


def errors(path: str, format: str) -> None:
    fails(tegula.open, path)
    fails(tegula.open, f"{path}.zip")
    a = tegula.create_array(path, shape=100, chunks=10, dtype="f4", format=format)
    a[...] = np.arange(100)
    for call in (lambda: a[1000], lambda: a["x"], lambda: a.__setitem__(0, "x"), lambda: a.resize(-1)):
        fails(call)
    fails(tegula.create_array, path, shape=3, dtype="i4", format=format)
    fails(tegula.create_array, f"{path}x", shape=3, dtype="nonsense")
    fails(tegula.create_array, f"{path}x", shape=3, dtipe="i4")
    fails(tegula.create_array, f"{path}x", shape=3, dtype="i4", codecs=["nonsense"])
    fails(tegula.open, "s4://nowhere/x")
    fails(getattr, tegula, "zeros_lik")
    chunks = [file for file in Path(path).rglob("*") if file.name in ("0", "__0.blp", "c/0")]
    chunks[0].write_bytes(b"damage")
    fails(lambda: a[...])
    assert not tegula.check(path).ok
    for file in Path(path).rglob("*"):
        if file.name in ("zarr.json", ".zarray", "meta", "storage") and file.is_file():
            file.write_bytes(b"{")
    fails(tegula.open, path)


def codecs(path: str) -> None:
    wanted: list[Any] = [
        "gzip", "zstd", "blosc", "crc32c", {"id": "lz4"}, {"id": "bz2"}, {"id": "lzma"}, {"id": "zlib"},
        {"id": "delta"}, {"id": "shuffle"}, {"id": "fletcher32"}, {"id": "quantize", "digits": 3},
    ]  # fmt: skip
    for number, codec in enumerate(wanted):
        for format in ("zarr3", "zarr2"):
            with contextlib.suppress(TegulaError):
                a = tegula.create_array(
                    f"{path}/{format}-{number}", shape=100, dtype="f8", chunks=10, codecs=[codec], format=format
                )
                a[...] = np.arange(100)
                assert a[::9].tolist() == [*np.arange(100.0)[::9]]
    for dtype in ("?", "i1", "c8", "M8[s]", "U3", "S3", "V3", [("x", "i4"), ("y", "f8")], "bfloat16"):
        a = tegula.create_array(MemoryStore(), shape=4, dtype=dtype)
        a[...] = np.zeros(4, a.dtype)
        assert a[...].dtype == a.dtype


def selections(path: str) -> None:
    a = tegula.create_array(path, data=np.arange(400).reshape(20, 20), chunks=(7, 7))
    assert a[1:3, [2, 5]].tolist() == [[22, 25], [42, 45]]
    assert a.oindex[[1, 2], [3, 4]].shape == (2, 2)
    assert a.vindex[[1, 2], [3, 4]].tolist() == [23, 44]
    assert a[np.arange(400).reshape(20, 20) % 2 == 0].size == 200
    a.oindex[[1, 2], :] = 0
    a.vindex[[1, 2], [3, 4]] = [1, 2]
    fails(np.add, a, 1)
    assert memoryview(np.asarray(a)).shape == (20, 20)
    out = np.empty((20, 20), a.dtype)
    a.read(out=out)


def strings_and_objects(path: str) -> None:
    for format in ("zarr3", "zarr2"):
        a = tegula.create_array(f"{path}/{format}", data=["a", "bcü", ""], dtype=str, chunks=2, format=format)
        a[1] = "new"
        assert a[...].tolist() == ["a", "new", ""]
        b = tegula.create_array(f"{path}/bytes-{format}", shape=3, dtype=bytes, chunks=2, format=format)
        b[0] = b"xyz"
        assert b[0] == b"xyz"
    a = tegula.create_array(f"{path}/json", shape=3, dtype=object, codecs=[{"id": "json2"}], format="zarr2")
    a[0] = {"x": [1, 2]}
    assert a[0] == {"x": [1, 2]}
    a = tegula.create_array(f"{path}/pickles", shape=3, dtype=object, format="bcolz", allow_pickle=True)
    a[...] = np.array([None, None, None], object)
    a[0] = (1, 2)
    a = tegula.open(f"{path}/pickles", allow_pickle=True)
    assert a[0] == (1, 2)


def groups_and_tables(path: str) -> None:
    for format in ("zarr3", "zarr2"):
        g = tegula.create_group(f"{path}/{format}", format=format)
        inner = g.create_group("a/b")
        x = inner.create_array("x", data=np.arange(10), dimension_names=["t"])
        inner["y"] = np.ones(3)
        g.attrs["title"] = "t"
        assert sorted(inner) == ["x", "y"]
        assert len(str(g.tree())) > 10
        assert x[3] == 3
        tegula.move(f"{path}/{format}/a", f"{path}/{format}/c")
        tegula.copy(f"{path}/{format}/c", f"{path}/{format}/d")
        if hasattr(g, "consolidate"):
            g.consolidate()
        assert tegula.open(f"{path}/{format}")["d/b/x"][3] == 3
        del g["c"]
        tegula.delete(f"{path}/{format}/d")
    for format in FORMATS:
        with contextlib.suppress(TegulaError):
            t = tegula.create_table(
                f"{path}/table-{format}", data={"a": np.arange(10), "b": np.arange(10) / 2}, format=format
            )
            t.append({"a": [1], "b": [2.0]})
            assert len(t) == 11
            assert t.query("(a > 3) & (b < 4)")["a"].tolist() == [4, 5, 6, 7]
            assert t[0]["a"] == 0
            repr(t), t._repr_html_()
            with contextlib.suppress(TegulaError):
                t.to_pandas()
            with contextlib.suppress(TegulaError):
                t.to_arrow()
    tegula.save(f"{path}/saved", np.arange(4))
    assert tegula.load(f"{path}/saved").tolist() == [0, 1, 2, 3]


def jobs(path: str) -> None:
    source = f"{path}/source"
    a = tegula.create_array(source, data=np.arange(1000.0).reshape(100, 10), chunks=(10, 10))
    for format in FORMATS:
        target = f"{path}/{format}"
        report = tegula.convert(source, target, format=format, verify=True)
        assert report.ok
        report.to_json(), report.to_html(), str(report)
        assert tegula.compare(source, target).equal
        assert tegula.checksum(source) == tegula.checksum(target)
        assert str(tegula.statistics(target))
        assert str(tegula.check(target))
    tegula.convert(source, f"{path}/estimate", dry_run=True)
    tegula.downsample(source, f"{path}/pyramid")
    a[3, 3] = -5
    assert not tegula.compare(source, f"{path}/zarr3").equal
    assert tegula.jobs.list_jobs(path) is not None


def stores(path: str) -> None:
    os.makedirs(path)
    with ZipStore(f"{path}/a.zip", mode="w") as archive:
        tegula.create_array(archive, data=np.arange(50), chunks=10)
    assert tegula.open(f"{path}/a.zip")[3] == 3
    for store in (
        MemoryStore(),
        MappingStore({}),
        LocalStore(f"{path}/local"),
        tegula.CachedStore(MemoryStore(), f"{path}/cache", 2**20),
    ):
        store.set("a/b", b"1")
        with contextlib.suppress(TegulaError):
            store.set("a/b", b"2", if_generation=ABSENT)
        assert [*store.list()] == ["a/b"]
        repr(store), fails(store.get, "../x") if not isinstance(store, (MemoryStore, MappingStore)) else None
        store.delete("a/b")
    fails(tegula.store_of, "http://[bad")
    with contextlib.suppress(TegulaError):
        tegula.open("memory://nothing-here")
    with contextlib.suppress(TegulaError):
        tegula.open("http://127.0.0.1:9/nothing")


def shown(path: str) -> None:
    node = tegula.open(path)
    repr(node), str(node), node._repr_html_(), node.info
    with contextlib.suppress(TegulaError):
        requests(path)


def requests(path: str) -> None:
    """Answer requests for a node as the server does."""
    application = import_module("tegula.server").app(tegula.open(path))

    async def get(url: str) -> int:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": url, "raw_path": url.encode(), "query_string": b"", "root_path": "",
            "headers": [(b"host", b"localhost:80")], "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        }  # fmt: skip
        await application(scope, receive, send)
        status: int = sent[0]["status"]
        return status

    async def several() -> list[int]:
        return [await get(url) for url in ("/zarr.json", "/c/0", "/-/values?select=0:3", "/as/float32/c/0", "/", "/x")]

    assert asyncio.run(several())[0] == 200
