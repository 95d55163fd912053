"""Views compared with NumPy: chains of selections, assignments, and what else an array can do."""

from __future__ import annotations

import pickle
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import MetadataError, ReadOnlyError, SelectionError, UnsupportedError

from .chains import steps

VALUES = np.arange(120).reshape(10, 12)


def stored(values: Any = VALUES, **options: Any) -> tegula.Array:
    return tegula.create_array({}, data=values, **{"chunks": 4, **options})


# --- selecting


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_chains_of_selections_are_those_of_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 6), max_size=4)))
    values = np.arange(prod(shape)).reshape(shape)
    chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    array = tegula.create_array({}, data=values, chunks=chunks)
    view, expected = array.lazy, values
    for _ in range(data.draw(st.integers(0, 4))):
        step = data.draw(steps(expected.shape))
        try:
            selected = step.of_array(expected)
        except IndexError:  # index arrays that can't be broadcast together
            with pytest.raises(SelectionError):
                step.of_view(view)
            break
        if selected.ndim > 8 or selected.size > 5000:
            break
        if step.kind != "transpose" and not shape and selected.size > 1:
            with pytest.raises(SelectionError, match="repeated"):
                step.of_view(view)
            break
        if isinstance(step.value, tuple) and not step.value:
            break  # reads
        view, expected = step.of_view(view), selected
        assert view.shape == expected.shape
    result = view[...]
    assert (type(result), result.shape, result.dtype) == (np.ndarray, expected.shape, expected.dtype)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view))[...], expected)

    # an assignment changes the same elements, if none occurs twice
    if expected.size == np.unique(expected).size:
        new = expected * 7 + 1
        view[...] = new
        values.reshape(-1)[expected.reshape(-1)] = new.reshape(-1)
        np.testing.assert_array_equal(array[...], values)


def test_a_selection_reads_nothing(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "a", data=VALUES, chunks=4)
    view = array.lazy[2:, ::3].T[1:, [0, 2]]
    tegula.delete(tmp_path / "a")
    assert (view.shape, view.ndim, view.size, view.dtype, view.itemsize, view.nbytes) == ((3, 2), 2, 6, "i8", 8, 48)
    with pytest.raises(tegula.TegulaError, match="deleted"):
        view.read().result()


def test_kinds_of_selection() -> None:
    view = stored().lazy
    rows, columns = np.array([7, 1]), np.array([3, 3])
    np.testing.assert_array_equal(view.oindex[rows, columns][...], VALUES[np.ix_(rows, columns)])
    np.testing.assert_array_equal(view.vindex[rows, columns][...], VALUES[rows, columns])
    np.testing.assert_array_equal(view.vindex[VALUES % 7 == 0][...], VALUES[VALUES % 7 == 0])
    np.testing.assert_array_equal(view[:, None, ::-2][...], VALUES[:, None, ::-2])
    np.testing.assert_array_equal(view.transpose(1, 0)[2:][...], VALUES.T[2:])
    np.testing.assert_array_equal(view.transpose((-1, 0))[2:][...], VALUES.T[2:])
    assert view.lazy is view
    assert type(view[2, 3][()]) is np.int64
    assert view[2, 3][...].shape == ()
    assert (view[[2], [3]][()].shape, view[2, None, 3][()].shape) == ((1,), (1,))
    assert [int(one) for one in view[3, :2]] == [36, 37]


def test_an_index_array_can_change_after_the_selection() -> None:
    rows = np.array([5, 2])
    view = stored().lazy[rows]
    rows[:] = 0
    np.testing.assert_array_equal(view[...], VALUES[[5, 2]])


@pytest.mark.parametrize("selection", [10, (0, 12), (0, 0, 0), [11], "a", 1.5, (..., ...), True, slice(None, None, 0)])
def test_selections_that_do_not_fit_are_refused_at_once(selection: Any) -> None:
    with pytest.raises(SelectionError) as caught:
        stored().lazy[selection]
    assert caught.value.path is not None


@pytest.mark.parametrize("axes", [(0,), (0, 0), (0, 2), (0, 1, 2), ("a", "b"), (0.0, 1.0)])
def test_orders_that_are_none_are_refused(axes: tuple[Any, ...]) -> None:
    with pytest.raises(SelectionError, match="order of the 2 axes"):
        stored().lazy.transpose(axes)


def test_axes_are_selected_by_name() -> None:
    view = stored(dimension_names=["time", "x"]).lazy
    part = view.sel(x=[1, 3], time=slice(0, 10, 5))
    np.testing.assert_array_equal(part[...], VALUES[::5, [1, 3]])
    assert part.dimension_names == ("time", "x")
    assert part.T.dimension_names == ("x", "time")
    assert (part[0].dimension_names, part[:, None].dimension_names) == (("x",), ("time", None, "x"))
    assert view.vindex[[0, 1], [1, 2]].dimension_names == (None,)
    with pytest.raises(SelectionError, match="no axis 'y'; the names are time, x"):
        view.sel(y=0)
    with pytest.raises(SelectionError, match="have no names"):
        stored().lazy.sel(x=0)


def test_fields_of_records_are_selected() -> None:
    records = np.array([(1, 2.5, [1, 2]), (3, 4.5, [3, 4])], [("a", "i4"), ("b", "f8"), ("c", "i2", 2)])
    array = stored(records, format="zarr2")
    view = array.lazy
    np.testing.assert_array_equal(view["a"][::-1][...], records["a"][::-1])
    np.testing.assert_array_equal(view["b", 1:][...], records["b"][1:])
    np.testing.assert_array_equal(view[1:][["a", "b"]]["b"][...], records["b"][1:])
    assert view[1]["a"][()] == 3
    view["a"][1:] = 9
    assert array["a"].tolist() == [1, 9]
    for selection in ("d", ["a", "d"], "c"):
        with pytest.raises(SelectionError, match="field"):
            view[selection]
    with pytest.raises(SelectionError):
        view["a"]["b"]


def test_elements_are_converted_when_they_are_read() -> None:
    view = stored().lazy[:, 2].astype("f4")[::2]
    assert (view.dtype, view.nbytes) == ("f4", 20)
    np.testing.assert_array_equal(view[...], VALUES[::2, 2].astype("f4"), strict=True)
    assert type(view[0][()]) is np.float32
    with pytest.raises(MetadataError, match="data type"):
        stored().lazy.astype("nonsense")


# --- reading and writing


@pytest.mark.parametrize("dtype", ["i8", "f4"])
@pytest.mark.parametrize("converted", [False, True])
def test_elements_are_read_into_memory(dtype: str, converted: bool) -> None:
    view = stored().lazy[1::2, ::-3].T
    view = view.astype("f8") if converted else view
    out = np.zeros(view.shape, dtype)
    assert view.read(out=out).result() is out
    np.testing.assert_array_equal(out, VALUES[1::2, ::-3].T)
    with pytest.raises(SelectionError, match="out has the shape"):
        view.read(out=np.zeros(3)).result()


def test_assignments_write_through() -> None:
    array, expected = stored(), VALUES.copy()
    array.lazy[2:5].T[::2] = expected[2:5].T[::2] = 7
    array.lazy[..., 0] = expected[..., 0] = np.arange(10)
    array.lazy.oindex[[1, 2], [3, 4]] = -1
    expected[np.ix_([1, 2], [3, 4])] = -1
    array.lazy.vindex[[5, 6], [7, 8]] = expected[[5, 6], [7, 8]] = [3, 4]
    array.lazy[9, 9] = expected[9, 9] = 1
    array.lazy[0].write(5).result()
    expected[0] = 5
    np.testing.assert_array_equal(array[...], expected)
    with pytest.raises(SelectionError):
        array.lazy[0] = [1, 2]


def test_views_of_arrays_that_are_open_for_reading_are_not_written(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "a", data=VALUES)
    view = tegula.open(tmp_path / "a").lazy
    assert view.read_only
    with pytest.raises(ReadOnlyError):
        view[0] = 1


def test_an_array_that_has_shrunk_is_noticed() -> None:
    array = stored()
    views = [array.lazy[5:], array.lazy[[1, 8]], array.lazy[9]]
    inside = array.lazy[:3, [1, 2]]
    array.resize(6, 12)
    for view in views:
        with pytest.raises(SelectionError, match="select from the array again"):
            view[...]
    np.testing.assert_array_equal(inside[...], VALUES[:3, [1, 2]])
    array.resize(20, 12)
    np.testing.assert_array_equal(views[0][...], [*VALUES[5:6], *np.zeros((4, 12))])


def test_operators_say_how_to_read() -> None:
    view = stored().lazy
    for act in (lambda: view + 1, lambda: view == VALUES, lambda: view < 3, lambda: 3 in view, lambda: np.sqrt(view)):
        with pytest.raises(UnsupportedError, match="read the elements first"):
            act()
    with pytest.raises(UnsupportedError, match=r"a\[\.\.\.\]"):
        view += 1
    assert np.add.reduce(view[0]) == VALUES[0].sum()
    assert (float(view[1, 1]), int(view[1, 1]), complex(view[1, 1]), bool(view[1, 1])) == (13.0, 13, 13 + 0j, True)
    assert [*range(20)][view[0, 3]] == 3
    assert view == view  # noqa: PLR0124 - as members of lists are compared
    assert len({view, view}) == 1


# --- other libraries


def test_chunks_are_those_that_divide_the_view() -> None:
    view = stored(chunks=(4, 6)).lazy
    parts = [view[4:], view[3:], view[::2], view[7::-1]]
    assert [part.chunks for part in parts] == [(4, 6), None, (2, 6), (4, 6)]
    assert (view[::5].chunks, view[[1, 2]].chunks, view[1:3].chunks, view[None, 0].chunks) == (
        (1, 6), (2, 6), (2, 6), (1, 6),
    )  # fmt: skip


def test_to_dask() -> None:
    view = stored(chunks=(4, 6)).lazy[1:, ::-1].T
    for chunks in ("auto", None, (5, -1)):
        lazy = view.to_dask(chunks=chunks)
        np.testing.assert_array_equal(lazy.compute(), VALUES[1:, ::-1].T)
    assert view.to_dask(chunks=None).numblocks == (2, 3)
    names = {one.to_dask().name for one in (view, view[:], view[1:], view.astype("f4"))}
    assert len(names) == 3


def test_dlpack_and_displays() -> None:
    view = stored(dimension_names=["y", "<x>"]).lazy[:2, 3]
    np.testing.assert_array_equal(np.from_dlpack(view), VALUES[:2, 3])
    assert repr(view).startswith("<tegula.View (2,) int64 of <tegula.Array")
    assert "tegula.View" in view._repr_html_()
    assert "&lt;x&gt;" in stored(dimension_names=["y", "<x>"]).lazy._repr_html_()
    with pytest.raises(ValueError, match="copy"):
        np.asarray(view, copy=False)
