"""Stores of tegula are stores of zarr-python 3: they pass its conformance suite, and round trips unwrap them."""

import asyncio
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

import tegula

zarr = pytest.importorskip("zarr", minversion="3")
from zarr.abc.store import RangeByteRequest  # noqa: E402
from zarr.core.buffer import cpu, default_buffer_prototype  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

import tegula.zarr  # noqa: E402
from tegula.stores.wrapping import WrappingStore  # noqa: E402
from tegula.zarr import TegulaStore  # noqa: E402


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
    made = eval(run, {"asyncio": asyncio, "function": function})  # noqa: S307 - fixtures are found by these names
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
        return {"store": tegula.ZipStore(tmp_path / "a.zip")}
