"""Views as stores: what other functions and libraries see of them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
import tegula.zarr
from tegula.errors import ReadOnlyError, SelectionError
from tegula.views.store import ViewStore

VALUES = np.arange(70.0).reshape(10, 7)


def view_of(values: Any = VALUES, **options: Any) -> tegula.View:
    return tegula.create_array({}, data=values, **{"chunks": 4, **options}).lazy


@pytest.mark.parametrize(
    "values",
    [
        VALUES.astype(">f8"),
        np.array([True, False, True]),
        np.array(["a", "", "bcd"], "U3"),
        np.array(["2020-01-01", "NaT"], "M8[s]"),
        np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
        np.float32(3),
        np.zeros((0, 3)),
    ],
)
def test_elements_of_every_type_are_those_of_the_view(values: Any) -> None:
    view = view_of(values, format="zarr2", chunks=2)[..., ::-1] if np.ndim(values) else view_of(values, format="zarr2")
    array = tegula.open(ViewStore(view))
    np.testing.assert_array_equal(array[...], np.asarray(view))
    assert (array.shape, array.format, array.read_only) == (view.shape, "zarr3", True)


def test_text_of_any_length() -> None:
    view = view_of(np.array(["a", "bc", ""], object), dtype="string", chunks=2)[::-1]
    assert tegula.open(view)[...].tolist() == ["", "bc", "a"]
    store = view.as_store()
    assert store.size("c/0") == len(store.get("c/0") or b"")


def test_keys_of_the_store() -> None:
    store = view_of(dimension_names=["y", "x"], attributes={"units": "K"})[2:].as_store()
    assert [*store.list_prefix("")] == ["zarr.json", *(f"c/{row}/{column}" for row in range(2) for column in range(2))]
    assert store.list_dir("") == (["zarr.json"], ["c/"])
    for key in store.list_prefix(""):
        value, generation = store.get(key, with_generation=True)
        assert (len(value), value[1:5], generation) == (store.size(key), store.get(key, (1, 4)), generation)
        assert store.exists(key)
    for key in ("c/9/0", "c/0", "x", "a/zarr.json", "c/0/0/0"):
        assert (store.get(key), store.size(key), store.exists(key)) == (None, None, False)
    with pytest.raises(ReadOnlyError, match="assign to the view"):
        store.set("zarr.json", b"")
    with pytest.raises(ReadOnlyError, match="assign to the view"):
        store.delete("zarr.json")
    array = tegula.open(pickle.loads(pickle.dumps(store)))
    assert (array.dimension_names, array.attrs["units"]) == (("y", "x"), "K")
    np.testing.assert_array_equal(array[...], VALUES[2:])


def test_a_group_of_views() -> None:
    store = ViewStore({"a": view_of(), "b": view_of()[3]}, {"title": "two"})
    group = tegula.open(store)
    assert (sorted(group), group.attrs["title"], group["b"].shape) == (["a", "b"], "two", (7,))
    np.testing.assert_array_equal(group["a"][1:, ::2], VALUES[1:, ::2])
    assert store.list_dir("b/") == (["b/zarr.json"], ["b/c/"])
    assert {key.partition("/")[0] for key in store.list_prefix("")} == {"zarr.json", "a", "b"}
    assert all(key.startswith("a/c/1/") for key in store.list_prefix("a/c/1/"))


def test_operations_take_views(tmp_path: Path) -> None:
    view = view_of()[::2].T
    report = tegula.convert(view, tmp_path / "a.zarr", format="zarr2", verify=True)
    assert report.arrays[0].shape == (7, 5)
    np.testing.assert_array_equal(tegula.open(tmp_path / "a.zarr")[...], VALUES[::2].T)
    assert tegula.compare(view, tmp_path / "a.zarr").equal
    assert tegula.checksum(view) == tegula.checksum(tmp_path / "a.zarr")
    assert str(tegula.statistics(view)) == str(tegula.statistics(tmp_path / "a.zarr"))
    assert not tegula.check(view).findings


def test_an_error_of_the_array_names_the_key() -> None:
    array = tegula.create_array({}, data=VALUES)
    shown = tegula.open(array.lazy[5:])
    array.resize(3, 7)
    with pytest.raises(SelectionError, match="c/0/0"):
        shown[...]


def test_chunks_are_of_a_moderate_size() -> None:
    whole = tegula.create_array({}, shape=(5000, 3000), chunks=(5000, 3000), dtype="f8").lazy
    assert tegula.open(whole).chunks == (5000, 3000)
    parts = [tegula.create_array({}, shape=(rows, 3000), chunks=(7, 3000), dtype="f8") for rows in (4000, 5001)]
    chunks = tegula.open(tegula.concat([*parts, parts[0]])).chunks
    assert np.prod(chunks) * 8 <= 2**24


@pytest.mark.slow
def test_zarr_python_sees_one_array() -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    view = tegula.concat([view_of(format="zarr2"), view_of(format="bcolz", chunks=(4, 7))])
    array = zarr.open_array(tegula.zarr.store(view), mode="r")
    np.testing.assert_array_equal(array[...], np.concatenate([VALUES, VALUES]))
