"""Layers at any places, compared with NumPy's assignments of one after the other."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import MetadataError, SelectionError, UnsupportedError
from tegula.views import layers
from tegula.views.layers import Layer, arranged


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_later_layers_hide_earlier_ones(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 3))
    boxes = data.draw(
        st.lists(st.tuples(*[st.tuples(st.integers(-4, 4), st.integers(0, 4))] * ndim), min_size=1, max_size=5)
    )
    # the elements of each layer count from a number of its own; -1 stands for no layer
    whole = np.full((12,) * ndim, -1)
    placed = []
    for number, box in enumerate(boxes):
        shape = tuple(size for _, size in box)
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape) + 1000 * number
        begin = tuple(start for start, _ in box)
        placed.append(Layer(tegula.create_array({}, data=values, chunks=2).lazy, begin))
        whole[tuple(slice(start + 4, start + 4 + size) for start, size in box)] = values
    view, origin = arranged(placed, "here")
    inside = whole[tuple(slice(start + 4, start + 4 + size) for start, size in zip(origin, view.shape))]
    assert np.count_nonzero(whole >= 0) == np.count_nonzero(inside >= 0)
    for index in np.ndindex(view.shape):
        if inside[index] >= 0:
            assert view[index][...] == inside[index]
        else:
            with pytest.raises(SelectionError, match="no layer"):
                view[index][...]
    if view.size and (inside >= 0).all():
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(view))[...], inside)


def test_gaps_are_errors_for_readers_and_writers() -> None:
    array = tegula.create_array({}, data=[1, 2, 3])
    view = arranged([Layer(array.lazy, (0,)), Layer(array.lazy, (5,))], "here").view
    assert (view.shape, view[3:3][...].tolist(), view[5:][...].tolist()) == ((8,), [], [1, 2, 3])
    for act in (lambda: view[2:4][...], lambda: view[3:5].read().result(), lambda: view.__setitem__(4, 0)):
        with pytest.raises(SelectionError, match="no layer"):
            act()
    view[6:] = 7
    assert array[...].tolist() == [1, 7, 7]
    assert view.to_dask(chunks=4)[5:].compute().tolist() == [1, 7, 7]


def test_layers_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (tegula.create_array({}, data=np.zeros((3, 3), dtype)).lazy for dtype in ("f8", "f4"))
    for second in (Layer(other, (0, 0)), Layer(one[0], (0,))):
        with pytest.raises(MetadataError, match="layer 1"):
            arranged([Layer(one, (0, 0)), second], "here")
    with pytest.raises(MetadataError, match="too far"):
        arranged([Layer(one, (0, 0)), Layer(one, (2**63, 0))], "here")
    monkeypatch.setattr(layers, "_MOST_PARTS", 20)
    arranged([Layer(one, (3 * place, 0)) for place in range(20)], "here")
    with pytest.raises(UnsupportedError, match="overlap"):
        arranged([Layer(one, (0, place)) for place in range(20)], "here")
