"""Reads and writes of handles after the array behind them was resized."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tegula.tensorstore as ts


def opened(module: ModuleType, driver: str, directory: Path | None = None) -> Any:
    layout = module.ChunkLayout(chunk_shape=[2, 2])
    spec = {"driver": driver, "kvstore": "memory://" if directory is None else f"file://{directory}/"}
    return module.open(spec, create=True, dtype=module.int32, shape=[3, 3], chunk_layout=layout).result()


def views(module: ModuleType, t: Any) -> dict[str, Any]:
    d = module.d
    return {
        "all": t,
        "from": t[1:],
        "to": t[:2],
        "fixed": t[0:3, 0:3],
        "row": t[0],
        "column": t[:, 1],
        "transposed": t.T,
        "strided": t[::2],
        "reversed": t[::-1],
        "moved": t[d[0].translate_to[5]],
        "labelled": t[d[0].label["x"]],
        "diagonal": t[d[0, 1].diagonal],
        "explicit": t[d[:].mark_bounds_implicit[False]],
        "vindex": t.vindex[[0, 1], :],
        "oindex": t.oindex[[0, 2]],
        "cast": t.astype(module.float32),
        "downsampled": module.downsample(t, [2, 1], "stride"),
    }


def attempt(function: Any) -> Any:
    try:
        return function()
    except ValueError:
        return "refused"


def seen_through(view: Any, now: Any) -> list[Any]:
    """Return the effects of reads and writes of a view on the whole array, which `now` shows."""
    filled = np.arange(now.size, dtype=np.int32).reshape(now.shape)
    seen = [
        str(view.domain),
        str(attempt(lambda: view.resolve().result().domain)),
        attempt(lambda: view.read().result().tolist()),
        attempt(lambda: np.array(view).shape),
    ]
    if view.writable and view.dtype.name == "int32":
        seen.append(attempt(lambda: view.write(-1).result()))
        seen.append(attempt(lambda: view.write(np.full(view.shape, -2, np.int32)).result()))
        seen.append(attempt(lambda: view.write(view).result()))
        seen.append(now.read().result().tolist())
        now[...] = filled
    return seen


def history(module: ModuleType, driver: str) -> list[Any]:
    """Return what is seen through handles while the array changes."""
    t = opened(module, driver)
    handles = views(module, t)
    seen: list[Any] = []
    for shape in ((5, 3), (2, 1), (4, 4)):
        now = t.resize(exclusive_max=shape).result()
        now[...] = np.arange(now.size, dtype=np.int32).reshape(now.shape)
        seen += [(shape, name, seen_through(view, now)) for name, view in handles.items()]
        target = module.array(np.zeros(shape, np.int32))
        seen.append(attempt(target.write(t).result))
        seen.append(target.read().result().tolist())
        seen.append(attempt(t[3].read().result).__class__)
        seen.append(t.spec().to_json()["metadata"]["shape"])
        seen.append(str(attempt(lambda: t.resize(exclusive_max=[None, 5]).result().domain)))
    return seen


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_reads_and_writes_follow_a_resize_as_in_tensorstore(driver: str) -> None:
    peer = pytest.importorskip("tensorstore")
    assert history(ts, driver) == history(peer, driver)


@pytest.mark.parametrize("driver", ["zarr", "zarr3", "zarr1", "bcolz"])
def test_an_old_handle_follows_a_resize(driver: str, tmp_path: Path) -> None:
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/"}
    layout = ts.ChunkLayout(chunk_shape=[2])
    t = ts.open(spec, create=True, dtype=ts.int32, shape=[3], chunk_layout=layout).result()
    view, copy = t[1:], pickle.loads(pickle.dumps(t))
    larger = t.resize(exclusive_max=[5]).result()
    assert (t.shape, larger.shape, t.resolve().result().shape) == ((3,), (5,), (5,))
    t.write(7).result()
    assert larger.read().result().tolist() == t.read().result().tolist() == [7] * 5
    assert view.read().result().tolist() == [7] * 4
    assert t[4].read().result() == 7
    assert copy.read().result().tolist() == [7] * 3  # opened by itself
    assert copy.resolve().result().read().result().tolist() == copy.read().result().tolist() == [7] * 5
    larger.resize(exclusive_max=[1]).result()
    assert t.read().result().tolist() == [7]
    with pytest.raises(ValueError, match="OUT_OF_RANGE"):
        t[4].read().result()


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_each_read_looks_at_the_bounds_if_asked_to(driver: str, tmp_path: Path) -> None:
    other = opened(ts, driver, tmp_path)
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/"}
    for recheck in (True, 2.0**33):
        watching = ts.open(spec, recheck_cached_metadata=recheck).result()
        ending = ts.open(spec, recheck_cached_metadata=1.0).result()
        before = watching.shape
        other = other.resize(exclusive_max=[before[0] + 2, 3]).result()
        assert (watching.shape, watching.read().result().shape) == (before, other.shape)
        assert ending.read().result().shape == before


def test_a_pickled_handle_has_the_bounds_that_are_stored(tmp_path: Path) -> None:
    t = opened(ts, "zarr3", tmp_path)
    t.resize(exclusive_max=[5, 3]).result()
    assert pickle.loads(pickle.dumps(t)).shape == (5, 3)


def test_a_resize_in_a_transaction_is_seen_inside_only(tmp_path: Path) -> None:
    t = opened(ts, "zarr", tmp_path)
    with ts.Transaction() as transaction:
        inside = t.with_transaction(transaction)
        inside.resize(exclusive_max=[5, 3]).result()
        assert inside.read().result().shape == (5, 3)
        assert t.read().result().shape == t.resolve().result().shape == (3, 3)
    assert t.resolve().result().shape == t.read().result().shape == (5, 3)
