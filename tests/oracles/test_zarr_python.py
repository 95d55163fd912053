"""zarr-python reads what tegula writes, tegula reads what zarr-python writes, and both write the same documents."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula

Cases = Callable[..., st.SearchStrategy[Any]]
Convert = Callable[[Any], Any]
LOOKS = settings(max_examples=200, deadline=None)


pytestmark = pytest.mark.filterwarnings("ignore:.*specification")  # some data types have none for Zarr v3


@LOOKS
@given(st.data())
def test_zarr_reads_what_we_write(cases: Cases, as_zarr_store: Convert, data: st.DataObject) -> None:
    case = data.draw(cases())
    store = tegula.MemoryStore()
    case.create(store)
    case.check(zarr.open_array(as_zarr_store(store), mode="r")[...])


@LOOKS
@given(st.data())
def test_we_read_what_zarr_writes(cases: Cases, as_our_store: Convert, data: st.DataObject) -> None:
    case = data.draw(cases())
    theirs = zarr.storage.MemoryStore()
    case.create_zarr(theirs)
    store = as_our_store(theirs)
    case.check(tegula.open_array(store)[...])
    ours = tegula.MemoryStore()
    case.create(ours)
    if case.format == "zarr3":
        assert ours.get("zarr.json").decode() == store.get("zarr.json").decode()
    else:  # zarr-python 3 formats the documents of Zarr v2 in its own way
        assert {"dimension_separator": ".", **json.loads(ours.get(".zarray"))} == json.loads(store.get(".zarray"))
    if not case.fill_is_nan:
        assert sorted(ours.list()) == sorted(set(store.list()) - {".zattrs"})


def basic_selections(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Ints and slices as zarr-python takes them: steps are positive."""

    def axis(n: int) -> st.SearchStrategy[Any]:
        slices = st.builds(slice, st.integers(-n, n), st.integers(-n, n), st.integers(1, 3))
        return st.one_of(slices, st.integers(-n, n - 1)) if n else st.just(slice(None))

    return st.tuples(*map(axis, shape))


def orthogonal_selections(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[Any, ...]]:
    def axis(n: int) -> st.SearchStrategy[Any]:
        indices = st.lists(st.integers(0, n - 1), min_size=1, max_size=6).map(np.array)
        mask = st.lists(st.booleans(), min_size=n, max_size=n).map(lambda flags: np.array(flags, bool))
        return (
            st.one_of(st.builds(slice, st.integers(0, n), st.integers(0, n)), indices, mask)
            if n
            else st.just(slice(None))
        )

    return st.tuples(*map(axis, shape))


@LOOKS
@given(st.data())
def test_selections_are_read_alike(cases: Cases, as_zarr_store: Convert, data: st.DataObject) -> None:
    case = data.draw(cases())
    store = tegula.MemoryStore()
    ours = case.create(store)
    theirs = zarr.open_array(as_zarr_store(store), mode="r")
    selection = data.draw(basic_selections(case.shape))
    expected = np.asarray(theirs[selection], case.dtype)
    assert np.asarray(ours[selection], case.dtype).tobytes() == expected.tobytes()
    assert np.shape(ours[selection]) == expected.shape
    if case.shape:
        selection = data.draw(orthogonal_selections(case.shape))
        expected = np.asarray(theirs.oindex[selection], case.dtype)
        assert ours.oindex[selection].astype(case.dtype).tobytes() == expected.tobytes()
    if case.shape and 0 not in case.shape:
        points = tuple(data.draw(st.lists(st.integers(0, n - 1), min_size=4, max_size=4)) for n in case.shape)
        expected = np.asarray(theirs.vindex[points], case.dtype)
        assert ours.vindex[points].astype(case.dtype).tobytes() == expected.tobytes()


@pytest.mark.slow
@LOOKS
@given(st.data(), st.booleans())
def test_one_changes_what_the_other_made(
    cases: Cases, as_zarr_store: Convert, as_our_store: Convert, data: st.DataObject, we_begin: bool
) -> None:
    """One library writes parts, changes the shape and appends values, then the other."""
    case = data.draw(cases())
    selection = data.draw(basic_selections(case.shape))
    expected = case.values.copy()
    expected[selection] = case.fill if 0 in case.shape else case.values.flat[0]
    if we_begin:
        first = tegula.MemoryStore()
        case.create(first)
        store = as_zarr_store(first)
        other: Any = zarr.open_array(store, mode="r+")
    else:
        first = zarr.storage.MemoryStore()
        case.create_zarr(first)
        store = as_our_store(first)
        other = tegula.open_array(store, mode="r+")
    other[selection] = expected[selection]
    if case.shape:
        more = expected[:2]
        other.append(more)
        expected = np.concatenate([expected, more]).astype(case.dtype)  # which would be native
        shape = tuple(data.draw(st.integers(n // 2, n)) for n in expected.shape)
        other.resize(shape)
        expected = expected[tuple(slice(n) for n in shape)]
    if we_begin:
        again: Any = tegula.open_array(as_our_store(store))
    else:
        again = zarr.open_array(as_zarr_store(store), mode="r")
    assert again.shape == expected.shape
    assert np.asarray(again[...], case.dtype).tobytes() == expected.tobytes()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), max_size=12),
    st.sampled_from(["zarr2", "zarr3"]),
    st.integers(1, 4),
    st.booleans(),
)
def test_text_and_bytes(
    as_zarr_store: Convert, as_our_store: Convert, words: list[str], format: str, chunk: int, binary: bool
) -> None:
    values = np.empty(len(words), object)
    values[:] = [word.encode() for word in words] if binary else words
    ours = tegula.MemoryStore()
    options: Any = {"codecs": "zstd", "fill_value": b"" if binary else ""}
    dtype: Any = bytes if binary else str
    array = tegula.create_array(ours, shape=len(words), chunks=chunk, dtype=dtype, format=format, **options)
    array[...] = values
    assert zarr.open_array(as_zarr_store(ours), mode="r")[...].tolist() == values.tolist()
    theirs = zarr.storage.MemoryStore()
    dtype = zarr.dtype.VariableLengthBytes() if binary else zarr.dtype.VariableLengthUTF8()
    version: Any = int(format[-1])
    made = zarr.create_array(theirs, shape=(len(words),), chunks=(chunk,), dtype=dtype, zarr_format=version)
    made[...] = values
    assert tegula.open_array(as_our_store(theirs))[...].tolist() == values.tolist()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(min_size=1, max_size=5), JSON, max_size=4),
    st.sampled_from(["zarr2", "zarr3"]),
    st.booleans(),
)
def test_groups_and_attributes(
    as_zarr_store: Convert, as_our_store: Convert, attributes: dict[str, Any], format: str, consolidate: bool
) -> None:
    version: Any = int(format[-1])
    options: Any = {"shape": (5,), "chunks": (2,), "dtype": "i4"}
    ours = tegula.MemoryStore()
    group = tegula.create_group(ours, attributes=attributes, format=format)
    group.create_array("a/b", attributes=attributes, **options)[:] = range(5)
    if consolidate:
        group.consolidate()
    theirs = zarr.open_group(as_zarr_store(ours), mode="r", use_consolidated=consolidate)
    assert dict(theirs.attrs) == attributes
    assert theirs["a/b"][:].tolist() == [0, 1, 2, 3, 4]
    assert dict(theirs["a/b"].attrs) == attributes
    store = zarr.storage.MemoryStore()
    root = zarr.create_group(store, attributes=attributes, zarr_format=version)
    root.create_group("a").create_array("b", attributes=attributes, **options)[:] = range(5)
    if consolidate:
        zarr.consolidate_metadata(store)
    copied = as_our_store(store)
    read = tegula.open_group(copied, consolidated=consolidate)
    assert dict(read.attrs) == attributes
    assert [path for path, _ in read.walk()] == ["a", "a/b"]
    assert read["a/b"][:].tolist() == [0, 1, 2, 3, 4]
    assert dict(read["a/b"].attrs) == attributes
    if format == "zarr3":
        assert sorted(ours.list()) == sorted(copied.list())
        for key in ("zarr.json", "a/zarr.json", "a/b/zarr.json"):
            if key != "a/b/zarr.json":  # its codecs are the default ones, which differ in the level
                assert json.loads(ours.get(key)) == json.loads(copied.get(key))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (zarr.dtype.Int16(), "i2"),
        (zarr.dtype.Float64(endianness="big"), ">f8"),
        (zarr.dtype.DateTime64(unit="s", scale_factor=10), "M8[10s]"),
        (zarr.dtype.FixedLengthUTF32(length=3), "U3"),
        (zarr.dtype.RawBytes(length=3), "V3"),
        (zarr.dtype.Structured(fields=(("a", zarr.dtype.Int8()), ("b", zarr.dtype.Bool()))), [("a", "i1"), ("b", "?")]),
        (zarr.dtype.VariableLengthUTF8(), str),
        (zarr.dtype.VariableLengthBytes(), bytes),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("error")
def test_data_types_of_zarr_python_are_data_types(theirs: Any, ours: Any) -> None:
    for format in ("zarr2", "zarr3"):
        a, b = (tegula.create_array({}, shape=3, dtype=dtype, format=format) for dtype in (theirs, ours))
        assert a.metadata.documents == b.metadata.documents
