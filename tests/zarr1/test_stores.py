"""A directory as a mapping."""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tegula import zarr1 as zarr
from tegula.errors import NotFoundError, StoreError

KEYS = st.sampled_from(["meta", "attrs", "0.0", "0.1", "10.7", "x.partial", "a/b"])


class Mapping(RuleBasedStateMachine):
    """After the same operations, a `DirectoryStore` equals a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.store = zarr.DirectoryStore(self.directory.name)
        self.model: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.directory.cleanup()

    @rule(key=KEYS, value=st.binary(max_size=20))
    def put(self, key: str, value: bytes) -> None:
        self.store[key] = value
        self.model[key] = value

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        if key in self.model:
            del self.store[key]
            del self.model[key]
        else:
            with pytest.raises(KeyError):
                del self.store[key]

    @rule(key=KEYS)
    def pop(self, key: str) -> None:
        assert self.store.pop(key, None) == self.model.pop(key, None)

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.model.clear()

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.store.get(key) == self.model.get(key)
        assert (key in self.store) == (key in self.model)

    @rule(values=st.dictionaries(KEYS, st.binary(max_size=4), max_size=3))
    def update(self, values: dict[str, bytes]) -> None:
        self.store.update(values)
        self.model.update(values)

    @invariant()
    def same(self) -> None:
        assert dict(self.store) == self.model
        assert self.store == self.model
        assert len(self.store) == len(self.model)
        assert sorted(self.store.keys()) == sorted(self.model)
        assert self.store.size == sum(map(len, self.model.values()))


Mapping.TestCase.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestMapping = Mapping.TestCase


def test_missing_and_impossible_keys(tmp_path: Path) -> None:
    store = zarr.DirectoryStore(tmp_path)
    assert (len(store), [*store], store.size, "0.0" in store) == (0, [], 0, False)
    for key in ("0.0", "", "..", "../x", "/etc/passwd", "a//b", "a\0b", 5, None):
        assert key not in store
        with pytest.raises(NotFoundError):
            store[key]
        with pytest.raises(NotFoundError):
            del store[key]
    for key in ("", "..", "../x", "a//b"):
        with pytest.raises(StoreError):
            store[key] = b""
    assert [*tmp_path.iterdir()] == []


def test_values_are_buffers(tmp_path: Path) -> None:
    store = zarr.DirectoryStore(tmp_path)
    for value in (b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), np.frombuffer(b"abcd", "<i4")):
        store["0"] = value
        assert store["0"] == (tmp_path / "0").read_bytes() == b"abcd"
    for value in ("text", 42, None):
        with pytest.raises(StoreError) as caught:
            store["0"] = value
        assert isinstance(caught.value, TypeError)
    assert store["0"] == b"abcd"


def test_a_path_that_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    for name, what in (("file", "is not a directory"), ("broken", "is not a directory"), ("missing", "does not exist")):
        with pytest.raises(StoreError, match=what) as caught:
            zarr.DirectoryStore(tmp_path / name)
        assert isinstance(caught.value, ValueError)
    assert not (tmp_path / "missing").exists()


def test_identity(tmp_path: Path) -> None:
    store = zarr.DirectoryStore(tmp_path)
    store["0"] = b"1"
    assert store.path == str(tmp_path)
    assert repr(store) == f"DirectoryStore({str(tmp_path)!r})"
    assert pickle.loads(pickle.dumps(store)) == {"0": b"1"}


def test_a_subclass_is_used_through_its_own_methods(tmp_path: Path) -> None:
    seen: list[str] = []

    class Logged(zarr.DirectoryStore):
        def __setitem__(self, key: str, value: bytes) -> None:
            seen.append(key)
            super().__setitem__(key, value)

    z = zarr.zeros(10, 5, store=Logged(tmp_path))
    z[:] = 1
    assert sorted(seen) == ["0", "1", "attrs", "meta"]
    assert isinstance(z.store, Logged)
