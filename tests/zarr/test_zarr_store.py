"""Stores of tegula are stores of zarr-python 3: they pass its conformance suite, and round trips unwrap them."""

import asyncio
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

import tegula

pytest.importorskip("zarr", minversion="3")
import zarr
from zarr.core.buffer import cpu
from zarr.testing.store import StoreTests

import tegula.zarr
from tegula.zarr import TegulaStore

pytestmark = pytest.mark.once(executors="both")


class Suite(StoreTests[TegulaStore, cpu.Buffer]):
    """The suite of zarr-python, with its coroutines run as functions."""

    store_cls = TegulaStore
    buffer_cls = cpu.Buffer

    def __init_subclass__(cls) -> None:
        for base in cls.__mro__:
            for name, function in vars(base).items():
                if name.startswith("test_") and inspect.iscoroutinefunction(function) and name not in vars(cls):
                    setattr(cls, name, _run(function))

    @pytest.fixture
    def store(self, store_kwargs: dict[str, Any]) -> TegulaStore:
        return asyncio.run(self.store_cls.open(**store_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> TegulaStore:
        return self.store_cls(**store_kwargs)

    async def set(self, store: TegulaStore, key: str, value: cpu.Buffer) -> None:
        store.store.set(store._prefix + key, value.to_bytes())

    async def get(self, store: TegulaStore, key: str) -> cpu.Buffer:
        raw = store.store.get(store._prefix + key)
        assert raw is not None
        return cpu.Buffer.from_bytes(raw)

    def test_store_repr(self, store: TegulaStore) -> None:
        assert repr(store).startswith("TegulaStore('")

    def test_store_supports_writes(self, store: TegulaStore) -> None:
        assert store.supports_writes
        assert store.supports_deletes

    def test_store_supports_listing(self, store: TegulaStore) -> None:
        assert store.supports_listing


def _run(function: Any) -> Any:
    names = [*inspect.signature(function).parameters]
    run = f"lambda {', '.join(names)}: asyncio.run(function({', '.join(names)}))"
    made = eval(run, {"asyncio": asyncio, "function": function})
    made.pytestmark = getattr(function, "pytestmark", [])
    return made


class TestLocal(Suite):
    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"store": tegula.LocalStore(tmp_path)}


class TestLocalBelowAPath(Suite):
    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"store": tegula.LocalStore(tmp_path), "path": "a/b"}


class TestMapping(Suite):
    @pytest.fixture
    def store_kwargs(self) -> dict[str, Any]:
        return {"store": tegula.MappingStore({})}

    def test_serializable_store(self, store: TegulaStore) -> None:
        store.store.set("a", b"1")
        copy = pickle.loads(pickle.dumps(store))  # of the values: a mapping is no place that could be shared
        assert copy.store.get("a") == b"1"
        assert copy.path == store.path


class TestZip(Suite):
    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"store": tegula.ZipStore(tmp_path / "a.zip", "a")}

    def test_serializable_store(self, store: TegulaStore) -> None:
        store.store.set("a", b"1")
        store.store.flush()
        copy = pickle.loads(pickle.dumps(store))  # an archive that is opened again
        assert copy.store.get("a") == b"1"
        assert str(copy) == str(store)


def test_round_trips_unwrap() -> None:
    inner = tegula.MemoryStore()
    store = tegula.zarr.store(inner)
    assert tegula.store_of(store) is inner
    assert tegula.zarr.store(store) == store
    assert tegula.zarr.store(zarr.storage.LocalStore("x")).store == tegula.LocalStore("x")


def test_a_node_is_the_root_of_its_store(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g")
    group["a/b"] = [1, 2]
    store = tegula.zarr.store(group["a"])
    assert zarr.open_group(store, mode="r")["b"][:].tolist() == [1, 2]
    assert tegula.zarr.store(tmp_path / "g", path="a") == store
    assert tegula.zarr.store(tmp_path / "g") != store


@pytest.mark.parametrize("item", ["zarr2", "n5"])
@pytest.mark.parametrize("pipeline", ["tegula.zarr.Pipeline", "zarr.core.codec_pipeline.BatchedCodecPipeline"])
def test_zarr_python_writes_into_other_formats_through_a_view(tmp_path: Path, item: str, pipeline: str) -> None:
    tegula.create_group(tmp_path / "g", format=item)
    tegula.create_array(tmp_path / "g", path="old", shape=(4, 3), chunks=(2, 2), dtype="i2", format=item)
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        group = zarr.open_group(tegula.zarr.store(tmp_path / "g"), mode="r+")
        array = group.create_array("t", shape=(4, 3), chunks=(2, 3), dtype="f4")
        array[:] = 1.5
        array.attrs["units"] = "K"
        array.append([[2.0, 3.0, 4.0]])
        old = group["old"]
        old[1:, ::2] = 7
        old.resize((2, 5))
        old[:, 4] = [3, 0]
        old.attrs["a"] = 1
        again = zarr.open_group(tegula.zarr.store(tmp_path / "g"), mode="r+")
        assert again["t"][3:].tolist() == [[1.5, 1.5, 1.5], [2, 3, 4]]
        assert again["old"][...].tolist() == [[0, 0, 0, 0, 3], [7, 0, 7, 0, 0]]
        again["t"][0] = 8
        assert array[0].tolist() == [8, 8, 8]
    found = tegula.open(tmp_path / "g")
    assert found["t"].format == found["old"].format == item
    assert found["t"].attrs.asdict() == {"units": "K"}
    assert found["t"][::3].tolist() == [[8, 8, 8], [1.5, 1.5, 1.5]]
    assert found["old"].attrs.asdict() == {"a": 1}
    assert found["old"][...].tolist() == [[0, 0, 0, 0, 3], [7, 0, 7, 0, 0]]
    assert tegula.check(tmp_path / "g").ok


@pytest.mark.parametrize("item", ["zarr2", "n5"])
def test_zarr_python_deletes_and_replaces_nodes_of_other_formats(tmp_path: Path, item: str) -> None:
    """Nothing of a node stays, and what takes its place has its format."""
    for inner in (tegula.MemoryStore(), tmp_path / "g"):
        alone = sorted(tegula.create_group(inner, format=item).store.list())
        group = zarr.open_group(tegula.zarr.store(inner), mode="r+")
        for dtype in ("i4", "i4", "f8"):
            array = group.create_array("a", shape=4, chunks=2, dtype=dtype, overwrite=True)
            assert array[:].tolist() == [0, 0, 0, 0]
            array[:] = 7
        del group["a"]
        assert sorted(tegula.store_of(inner).list()) == alone
        again = zarr.open_group(tegula.zarr.store(inner), mode="w")
        again.create_array("x", shape=2, dtype="i4")
        found = tegula.open(inner)
        assert [found.format, found["x"].format] == [item, item]
        new = zarr.create_array(tegula.zarr.store(inner), shape=2, dtype="i4", overwrite=True)
        new[:] = 3
        assert (tegula.open(inner).format, tegula.open(inner)[:].tolist()) == (item, [3, 3])
        assert tegula.check(inner).ok


def test_a_read_only_store_refuses_to_write() -> None:
    old = tegula.create_array({}, shape=3, dtype="i2", format="bcolz")
    store = tegula.zarr.store(old)
    assert store.read_only
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_array(store, mode="r")[:] = 1
