"""Appending and growing through one object: what other programs have left beyond the edge is never seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.injection.waves import WaveStore

import tegula
from tegula import MemoryStore, StoreError, config

OLD = 9
LAYOUTS: dict[str, dict[str, Any]] = {
    "zarr1": {"format": "zarr1", "chunks": (4, 3)},
    "zarr2": {"format": "zarr2", "chunks": (4, 3)},
    "zarr3": {"format": "zarr3", "chunks": (4, 3)},
    "shards": {"format": "zarr3", "chunks": (2, 3), "shards": (4, 3)},
    "varying": {"format": "zarr3", "chunks": [[3, 1, 4], [3, 2]]},
}
STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "resize", "left behind", "attributes"]), st.integers(1, 11)), max_size=8
)


class Watched(WaveStore):
    """A store in which another reader looks at an array before each chunk is written."""

    watching = False

    def passing(self, request: str) -> None:
        action, _, key = request.partition(" ")
        if self.watching and action == "set" and key[-1].isdigit():
            assert OLD not in self.now()[...], f"old values are seen before {key} is written"

    def now(self) -> tegula.Array:
        """Return the array as another process would open it."""
        return tegula.open_array(MemoryStore({key: self.values.get(key) or b"" for key in self.values.list_prefix("")}))


def leave_behind(store: Watched, rows: int) -> None:
    """Do what a program does that grows an array, writes, and is killed after it has stored the old shape again."""
    documents = {key: store.values.get(key) or b"" for key in store.values.list_prefix("") if not key[-1].isdigit()}
    array = tegula.open_array(store.values, mode="r+")
    before = array.shape[0]
    array.resize(before + rows, array.shape[1])
    array[before:] = OLD
    for key, raw in documents.items():
        store.values.set(key, raw)


@pytest.mark.slow
@pytest.mark.sampled(one_in=6)
@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("concurrency", [0, 8], ids=["local", "remote"])
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=25, deadline=None)
@given(steps=STEPS, left=st.integers(0, 30))
def test_old_chunks_are_never_seen(executor: str, concurrency: int, layout: str, steps: Any, left: int) -> None:
    store = Watched(concurrency=concurrency)
    expected = np.ones((5, 5), "u1")
    with config.configure(executor=executor):
        tegula.create_array(store.values, data=expected, fill_value=0, **LAYOUTS[layout])
        if left:
            leave_behind(store, left)
        array = tegula.open_array(store, mode="r+")
        store.watching = True
        for step, number in steps:
            added = np.full((number, 5), step == "append", "u1")
            if step == "append":
                array.append(added)
            elif step == "resize":
                array.resize(len(expected) + number, 5)
            elif step == "attributes":
                array.attrs["a"] = number
            elif step == "left behind" and layout != "varying":  # whose document says how long the chunks are
                leave_behind(store, number)
            if step in ("append", "resize"):
                expected = np.concatenate([expected, added])
                assert np.array_equal(store.now()[...], expected)
    assert np.array_equal(array[...], expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("concurrency", [0, 8], ids=["local", "remote"])
def test_an_append_looks_beyond_what_earlier_ones_have_looked_at(concurrency: int, axis: int) -> None:
    store = Watched(concurrency=concurrency)
    array = tegula.create_array(store, shape=(4, 4), chunks=(4, 4), dtype="u1", fill_value=0)
    key_beyond = "c/5/0" if axis == 0 else "c/0/5"
    other = tegula.create_array(MemoryStore(), data=np.full((4, 4), OLD, "u1"), chunks=(4, 4), fill_value=0)
    store.values.set(key_beyond, other.store.get("c/0/0"))
    store.watching = True
    for _ in range(8):
        array.append(np.ones((4, 3) if axis else (3, 4), "u1"), axis=axis)
    assert array.shape == ((4, 28) if axis else (28, 4))


class Full(tegula.MemoryStore):
    """A store that takes no more values once it is full."""

    is_full = False

    def set(self, key: str, *args: Any, **options: Any) -> Any:
        if self.is_full:
            raise StoreError("there is no room", key=key)
        self.is_full = key == "zarr.json" and self.get(key) is not None  # the new length is the last value
        return super().set(key, *args, **options)


def test_an_append_that_can_not_be_taken_back_says_so() -> None:
    array = tegula.create_array(store := Full(), shape=2, chunks=2, dtype="i4")
    with pytest.raises(StoreError, match="no room") as raised:
        array.append([1, 2, 3])
    assert "the length 5 stays" in raised.value.__notes__[-1]
    assert tegula.open_array(store).shape == (5,)
