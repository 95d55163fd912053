"""Random views of arrays are read and written as in TensorStore and in NumPy."""

from typing import Any

import numpy as np
import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

import tegula.tensorstore as ts

PACKAGES = (tensorstore, ts)
steps = st.sampled_from([1, 1, 1, 2, 3, -1, -2])


@st.composite
def terms(draw: Any, size: int) -> str:
    """An indexing term for a dimension of a size whose origin is 0."""
    if size == 0:
        return ":"
    kind = draw(st.sampled_from(["all", "slice", "step", "int", "array", "mask"]))
    if kind == "slice":
        start = draw(st.integers(0, size))
        return f"{start}:{draw(st.integers(start, size))}"
    if kind == "step":
        return f"::{draw(steps)}"
    if kind == "int":
        return str(draw(st.integers(0, size - 1)))
    if kind == "array":
        return str(draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=3)))
    if kind == "mask":
        return str(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    return ":"


@st.composite
def views(draw: Any, shape: tuple[int, ...]) -> str:
    """An expression of a view of ``x``."""
    way = draw(st.sampled_from(["", ".oindex", ".vindex"]))
    results = [draw(terms(size)) for size in shape]
    arrays = [number for number, term in enumerate(results) if term.startswith("[")]
    if way != ".oindex":  # these are broadcast together
        for number in arrays[1:]:
            results[number] = ":"
    if way == "" and draw(st.booleans()):
        results.insert(draw(st.integers(0, len(results))), "None")
    return f"x{way}[{', '.join(results)}]"


@st.composite
def chains(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, size)) for size in shape)
    expression = draw(views(shape))
    if draw(st.booleans()):
        expression += draw(st.sampled_from([".T", ".translate_to[7]", "[ts.d[:].translate_by[-3]]", "[...]", ""]))
    if len(shape) > 1 and draw(st.integers(0, 4)) == 0:
        expression = expression.replace("x", "x[ts.d[0, 1].diagonal]", 1) if len(set(shape[:2])) == 1 else expression
    return shape, chunks, expression


def opened(package: Any, driver: str, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Any:
    values = np.arange(1, 1 + int(np.prod(shape)), dtype=np.uint16).reshape(shape)
    if driver == "array":
        return package.array(values.copy())
    store = package.open(
        {"driver": driver, "kvstore": {"driver": "memory"}},
        create=True,
        dtype=package.uint16,
        shape=shape,
        chunk_layout=package.ChunkLayout(chunk_shape=chunks),
    ).result()
    store[...] = values
    return store


def view(package: Any, store: Any, expression: str) -> Any:
    try:
        return eval(expression, {"x": store, "ts": package, "np": np})
    except (IndexError, ValueError) as error:
        return type(error).__mro__


@settings(deadline=None, max_examples=120)
@given(chains(), st.sampled_from(["array", "zarr"]))
def test_views_read_the_same(chain: Any, driver: str) -> None:
    shape, chunks, expression = chain
    theirs, ours = (view(package, opened(package, driver, shape, chunks), expression) for package in PACKAGES)
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple)
        return
    assert str(ours.domain) == str(theirs.domain)
    values = ours.read().result()
    assert np.array_equal(values, theirs.read().result())
    assert values.flags.c_contiguous
    assert np.array_equal(ours.read(order="F").result(), values)
    assert str(ours.chunk_layout) == str(theirs.chunk_layout)


@settings(deadline=None, max_examples=120)
@given(chains(), st.sampled_from(["array", "zarr"]), st.booleans())
def test_views_are_written_the_same(chain: Any, driver: str, scalar: bool) -> None:
    shape, chunks, expression = chain
    stores = [opened(package, driver, shape, chunks) for package in PACKAGES]
    targets = [view(package, store, expression) for package, store in zip(PACKAGES, stores)]
    if isinstance(targets[0], tuple):
        return
    if targets[1].size == 0:  # TensorStore may then write arbitrary memory
        before = stores[1].read().result()
        targets[1].write(999).result()
        assert np.array_equal(stores[1].read().result(), before)
        return
    values: Any = 999
    if not scalar:
        size = int(np.prod(targets[1].shape))
        values = np.arange(500, 500 + size, dtype=np.uint16).reshape(targets[1].shape)
        if "[[" in expression or ", [" in expression or "x[[" in expression or ".T" in expression:
            values = 777  # which of several values for one element is kept is not specified
    for target in targets:
        target.write(values).result()
    assert np.array_equal(stores[1].read().result(), stores[0].read().result())


@settings(deadline=None, max_examples=40)
@given(chains(), st.sampled_from(["int32", "float32", "bool", "json", "ustring", "float64", "uint8"]))
def test_casts_of_views_mean_the_same(chain: Any, name: str) -> None:
    shape, chunks, expression = chain
    results = []
    for package in PACKAGES:
        shown = view(package, opened(package, "zarr", shape, chunks), expression)
        if not isinstance(shown, tuple):
            results.append(package.cast(shown, package.dtype(name)).read().result().tolist())
    assert results == [] or results[0] == results[1]


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_downsampled_views_mean_the_same(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    factors = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    # a block that is cut on both sides reads memory it should not there
    origin = tuple(data.draw(st.integers(-2, 2)) * factor for factor in factors)
    method = data.draw(st.sampled_from(["stride", "mean", "min", "max", "median", "mode"]))
    name = data.draw(st.sampled_from(["uint8", "int16", "float32", "bool"]))
    size = int(np.prod(shape))
    values = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)))
    results = []
    for package in PACKAGES:
        store = package.array(values.reshape(shape).astype(name)).translate_to[origin]
        results.append(package.downsample(store, factors, method))
    theirs, ours = results
    assert str(ours.domain) == str(theirs.domain)
    assert np.array_equal(ours.read().result(), theirs.read().result())
    expression = data.draw(views(tuple(ours.shape)))
    theirs, ours = (view(p, s.translate_to[0], expression) for p, s in zip(PACKAGES, results))
    if not isinstance(theirs, tuple) and "::-" not in expression and "[" not in expression[1:].replace("x[", "", 1):
        full = results[1].translate_to[0].read().result()
        assert np.array_equal(ours.read().result(), view(ts, ts.array(full), expression).read().result())


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_stacks_mean_the_same(data: Any) -> None:
    count = data.draw(st.integers(1, 4))
    sizes = [data.draw(st.integers(1, 4)) for _ in range(count)]
    results = []
    how = data.draw(st.sampled_from(["concat", "stack", "overlay"]))
    axis = data.draw(st.integers(0, 1))
    offsets = [data.draw(st.integers(-3, 3)) for _ in range(count)]
    for package in PACKAGES:
        layers = []
        for number, size in enumerate(sizes):
            shape = (size, 2) if how == "overlay" or axis == 0 else (2, size)
            if how == "stack":
                shape = (2, 2)
            layer = package.array(np.full(shape, number, np.int32) + np.arange(shape[1], dtype=np.int32) * 10)
            layers.append(layer.translate_by[offsets[number], 0] if how == "overlay" else layer)
        if how == "overlay":
            results.append(package.overlay(layers))
        else:
            results.append(getattr(package, how)(layers, axis=axis))
    theirs, ours = results
    assert str(ours.domain) == str(theirs.domain)
    error = theirs.read().exception()
    if error is not None:
        with pytest.raises(ValueError) as raised:
            ours.read().result()
        assert kind_and_code(raised.value) == kind_and_code(error)
        return
    assert np.array_equal(ours.read().result(), theirs.read().result())
    for store in results:
        store.write(5).result()
    assert np.array_equal(ours.read().result(), theirs.read().result())


def test_indices_beyond_the_end_are_found_when_reading() -> None:
    view = ts.array([1, 2, 3], dtype=ts.int32)[[0, 5]]
    assert view.shape == (2,)
    with pytest.raises(ValueError, match=r"OUT_OF_RANGE: dimension 0: 5 is outside"):
        view.read().result()


@pytest.mark.parametrize("driver", ["array", "zarr", "zarr3"])
@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("dims", ["0", "1", ":"])
@pytest.mark.parametrize("flags", ["True", "True:", ":True"])
def test_reads_and_writes_take_implicit_bounds_from_the_array(driver: str, cast: bool, dims: str, flags: str) -> None:
    seen = []
    for package in PACKAGES:
        x = opened(package, driver, (4, 4), (2, 2))
        v = x[0:1, 1:2][eval(f"ts.d[{dims}].mark_bounds_implicit[{flags}]", {"ts": package})]
        if cast:
            v = package.cast(v, package.uint32)
        results = [v.read().result().tolist(), np.asarray(v).tolist()]
        target = package.array(np.zeros(np.shape(results[0]), np.uint32))
        target[package.d[:].translate_to[v.resolve().result().origin]].write(v).result()
        results.append(target.read().result().tolist())
        if not cast:
            v.write(np.uint16(99)).result()
            results.append(x.read().result().tolist())
        seen.append(results)
    assert seen[0] == seen[1]
