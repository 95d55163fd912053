"""``tegula.checksum``: the same for equal values however they are stored, and another one for any other values."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import CodecError, NotFoundError, UnsupportedError
from tegula.jobs import units
from tegula.jobs.checksum import digest_of_array, sum_box
from tegula.metadata.data_types import OBJECT
from tegula.reductions.sums import Sums, limbs_of

checksums = importlib.import_module("tegula.jobs.checksum")
DTYPES: list[Any] = ["?", "<i2", ">i4", "u8", ">f4", "<f8", "c16", "S4", ">U3", "V3", "<M8[ms]", ">m8[s]", "u1",
                     [("a", "<i2"), ("b", ">f8"), ("c", "S3")]]  # fmt: skip
CODECS: list[Any] = [None, "auto", "zstd", "gzip", {"id": "blosc", "cname": "zstd"}, ["shuffle", "zlib"]]


@st.composite
def arrays(draw: Any) -> tegula.Array:
    """Make arrays of random bits, of which some chunks hold the fill value."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    raw = draw(st.randoms()).randbytes(int(np.prod(shape)) * dtype.itemsize)
    if dtype.kind in "?bU":
        raw = bytes(byte & 1 for byte in raw)
    values = np.ndarray(shape, dtype, bytearray(raw))
    if dtype.kind == "U":
        values = (np.frombuffer(raw, "u1").reshape(-1, dtype.itemsize)[:, :3].sum(1) % 5).astype(dtype).reshape(shape)
    values[draw(st.integers(0, 9)) :] = np.zeros((), dtype)
    format = draw(st.sampled_from(["zarr1", "zarr2", "zarr3", "bcolz"]))
    chunks = [draw(st.integers(1, size + 1)) for size in shape]
    options = {"write_empty_chunks": draw(st.booleans())} if format != "bcolz" else {"codecs": "auto"}
    order = "C" if format == "bcolz" else draw(st.sampled_from("CF"))
    try:
        array = tegula.create_array(
            tegula.MemoryStore(), shape=shape, dtype=dtype, format=format, order=order,
            chunks=[chunks[0], *shape[1:]] if format == "bcolz" else chunks, **options,
        )  # fmt: skip
    except UnsupportedError:
        assume(False)
    array[...] = values
    return array


@settings(max_examples=120)
@given(arrays(), st.data())
def test_no_conversion_changes_it(array: tegula.Array, data: Any) -> None:
    expected = tegula.checksum(array)
    format = data.draw(st.sampled_from(["zarr1", "zarr2", "zarr3", "bcolz"]))
    options: dict[str, Any] = {"codecs": data.draw(st.sampled_from(CODECS))}
    if format != "bcolz":
        options["chunks"] = tuple(data.draw(st.integers(1, size + 1)) for size in array.shape)
    if format == "zarr3" and data.draw(st.booleans()):
        options["shards"] = tuple(2 * length for length in options["chunks"])
    target = tegula.MemoryStore()
    try:
        tegula.convert(array, target, format=format, **options)
    except UnsupportedError:
        assume(False)
    assert tegula.checksum(target) == expected
    assert tegula.checksum(target).arrays[""] == expected.digest


@settings(max_examples=120)
@given(arrays(), st.data())
def test_any_changed_bit_changes_it(array: tegula.Array, data: Any) -> None:
    before = tegula.checksum(array)
    index = tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)
    raw = bytearray(np.asarray(array[index]).astype(array.dtype).tobytes())
    bits = 1 if array.dtype.kind == "b" else 8 * len(raw)
    if array.dtype.kind == "U":  # not each number is a character
        bits = 1
    bit = data.draw(st.integers(0, bits - 1))
    if array.dtype.byteorder == ">" and array.dtype.kind == "U":
        raw[3] ^= 1
    else:
        raw[bit // 8] ^= 1 << bit % 8
    changed = np.frombuffer(bytes(raw), array.dtype)[0]
    if array.dtype.kind in "SU":  # trailing zeros are not part of a text
        assume(np.asarray(array[index]).tobytes() != np.asarray(changed).tobytes())
    array[index] = changed
    native = array.dtype.newbyteorder("=")
    assert np.asarray(array[index]).astype(native).tobytes() == np.asarray(changed).astype(native).tobytes()
    assert tegula.checksum(array) != before


def saved(*values: Any, **options: Any) -> Any:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, data=values[0], **options)
    return tegula.checksum(array)


def test_shape_type_and_place_count_and_byte_order_does_not() -> None:
    values = np.arange(24, dtype="i4")
    found = saved(values)
    for other in (values.reshape(4, 6), values.reshape(6, 4), values.astype("u4"), values.view("f4"), values[::-1],
                  values[:23], np.append(values, 0)):  # fmt: skip
        assert saved(other) != found
    assert saved(values.astype(">i4"), format="zarr2") == found
    assert saved(values.reshape(4, 6)) == saved(np.asfortranarray(values.reshape(4, 6)), order="F")
    assert saved(values.reshape(4, 6)) != saved(values.reshape(4, 6).T)


def test_bits_that_comparisons_do_not_see() -> None:
    nans = np.array([0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800001], "u4").view("f4")
    digests = {saved(nans[number : number + 1]).digest for number in range(4)}
    assert len(digests) == 4
    assert saved(np.array([0.0])) != saved(np.array([-0.0]))
    aligned = np.zeros(3, np.dtype("u1,f8", align=True))
    aligned["f1"] = 5
    plain = aligned.astype(np.dtype("u1,f8"))
    assert saved(aligned) == saved(plain)


@pytest.mark.slow
def test_text_bytes_and_objects(tmp_path: Path) -> None:
    words = np.array(["", "a", "é", "\U0001f600", "a" * 1000, "ab"], object)
    zarr2 = tegula.create_array({}, data=words, dtype=str, format="zarr2", chunks=4)
    zarr3 = tegula.create_array({}, data=words, dtype=str, chunks=3)
    assert tegula.checksum(zarr2) == tegula.checksum(zarr3)
    zarr3[0] = "b"
    assert tegula.checksum(zarr2) != tegula.checksum(zarr3)
    # missing texts of Zarr v2 read as its fill value, and convert makes them empty
    sparse = tegula.create_array({}, shape=9, dtype=str, format="zarr2", chunks=2, fill_value=None)
    sparse[4] = "x"
    target = tegula.MemoryStore()
    tegula.convert(sparse, target)
    assert tegula.checksum(sparse) == tegula.checksum(target)
    # objects count by type and value
    different: list[Any] = [None, True, False, 1, 1.0, "1", b"1", [1], [[1]], {"a": 1}, {"a": 1, "b": []}, [], {},
                            np.arange(3), np.arange(3.0), -0.0, 0.0, "", [None], 10**30]  # fmt: skip
    values = np.empty(len(different), object)
    for number, value in enumerate(different):
        values[number] = value
    assert len({row.tobytes() for row in limbs_of(values, OBJECT)}) == len(different)
    same = np.empty(2, object)
    same[:] = [{"a": (1, 2), "b": np.float64(3)}, {"b": 3.0, "a": [np.int8(1), 2]}]
    one, other = limbs_of(same, OBJECT)
    assert one.tobytes() == other.tobytes()
    same[0] = object()
    with pytest.raises(UnsupportedError, match="objects of type object have no checksum"):
        limbs_of(same, OBJECT)
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    same[0] = nested
    with pytest.raises(UnsupportedError, match="too deeply"):
        limbs_of(same, OBJECT)
    while nested:  # freeing it at once would recurse as deeply
        nested = nested.pop()


def test_a_fill_value_that_is_no_bytes_has_no_checksum() -> None:
    array = tegula.create_array({}, shape=3, dtype=bytes, fill_value=None, format="zarr2")
    document, digest = array.store.get(".zarray") or b"", tegula.checksum(array)
    array.store.set(".zarray", document.replace(b'"fill_value": null', b'"fill_value": 0'))
    assert tegula.checksum(array.store) == digest
    array.store.set(".zarray", document.replace(b'"fill_value": null', b'"fill_value": 0.5'))
    with pytest.raises(UnsupportedError, match="not bytes"):
        tegula.checksum(array.store)


@pytest.mark.slow
@pytest.mark.sampled(one_in=26)
@pytest.mark.parametrize("fill", [0, 3])
def test_absent_chunks_have_a_closed_form(fill: int) -> None:
    options: dict[str, Any] = {"shape": (10**9, 10**9), "dtype": "i2", "fill_value": fill}
    one = tegula.create_array({}, chunks=(100, 100), **options)
    other = tegula.create_array({}, chunks=(70, 900), shards=(7000, 9000), **options)
    for array in (one, other):
        array[10**8, 5:8] = [1, 2, fill]
    assert tegula.checksum(one) == tegula.checksum(other)
    other[0, 0] = fill + 1
    assert tegula.checksum(one) != tegula.checksum(other)
    one[0, 0] = fill + 1
    assert tegula.checksum(one) == tegula.checksum(other)


def test_the_fill_value_counts_only_as_far_as_elements_hold_it() -> None:
    absent = tegula.create_array({}, shape=(7, 9), chunks=(2, 3), dtype="f4", fill_value=1.5)
    assert tegula.checksum(absent) == saved(np.full((7, 9), 1.5, "f4"))
    assert tegula.checksum(absent) == saved(np.full((7, 9), 1.5, "f4"), fill_value=4, chunks=(5, 5))


def test_boxes_of_any_units_merge() -> None:
    array = tegula.create_array({}, data=np.random.default_rng(0).normal(size=(23, 31)), chunks=(5, 6))
    found = Sums()
    for first in (10, 0):
        for start, stop in ((17, 31), (0, 17)):
            rows = slice(first, 10 if first == 0 else 23)
            found = found.merge(sum_box(array, (rows, slice(start, stop))))
    assert digest_of_array(array, found) == tegula.checksum(array)


def test_the_size_of_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    array = tegula.create_array({}, data=np.arange(2000.0).reshape(50, 40), chunks=(7, 6))
    whole = tegula.checksum(array)
    monkeypatch.setattr(units, "BLOCK_BYTES", 8 * 60)
    assert tegula.checksum(array) == whole


def test_groups_and_tables(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g", attributes={"title": "x"})
    group["a"] = np.arange(5)
    group["deep/b"] = np.arange(4.0)
    group.create_group("empty")
    copied = tegula.MemoryStore()
    tegula.convert(group, copied, format="zarr2", chunks=2)
    found, other = tegula.checksum(group), tegula.checksum(copied)
    assert found == other
    assert [*found.arrays] == ["a", "deep/b"]
    assert found.arrays["a"] == tegula.checksum(group["a"]) == tegula.checksum(tmp_path / "g", path="a")
    assert hash(found) == hash(other)
    tegula.move(tegula.open(copied, "r+")["a"], copied, path="c")
    assert tegula.checksum(copied) != found
    # a table and the group of its columns
    table = tegula.create_table(tmp_path / "t", {"b": [1, 2], "a": ["x", "y"]}, attributes={"unit": "m"})
    as_group = tegula.MemoryStore()
    tegula.convert(table, as_group, format="zarr3")
    assert tegula.checksum(table) == tegula.checksum(as_group)
    assert tegula.checksum(table, attributes=True) == tegula.checksum(as_group, attributes=True)


def test_attributes_are_included_on_request() -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store, attributes={"n": 1})
    group.create_array(
        "x", data=np.arange(4.0), dimension_names=["t"], attributes={"u": "K", "_FillValue": "AAAAAAAA+H8="}
    )
    copied = tegula.MemoryStore()
    tegula.convert(store, copied, format="zarr2")
    full = tegula.checksum(store, attributes=True)
    assert full == tegula.checksum(copied, attributes=True)
    assert full != tegula.checksum(store)
    plain = tegula.checksum(store)
    group["x"].attrs["u"] = "C"
    assert tegula.checksum(store) == plain
    assert tegula.checksum(store, attributes=True) != full
    group["x"].attrs["u"] = "K"
    assert tegula.checksum(store, attributes=True) == full
    group.attrs["n"] = 2
    assert tegula.checksum(store, attributes=True) != full


def test_damage_is_reported_and_equals_nothing(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g")
    group["a"], group["b"] = np.arange(5), np.arange(5)
    (tmp_path / "g" / "b" / "c" / "0").write_bytes(b"damaged")
    found = tegula.checksum(group)
    assert (found.ok, found.digest, [*found.arrays], [*found.failed]) == (False, "", ["a"], ["b"])
    assert found != tegula.checksum(group)
    assert repr(found) == "<tegula.Checksum of nothing, 1 failed>"
    with pytest.raises(CodecError):
        tegula.checksum(group["b"])
    with pytest.raises(NotFoundError):
        tegula.checksum(tmp_path / "nothing")


@pytest.mark.slow
def test_it_is_the_same_in_another_process_and_version() -> None:
    """The recorded digest: it may not change, since people keep checksums for years."""
    values = np.arange(1000, dtype="f4").reshape(10, 100)
    expected = "cac3f8e724c3973acd983ede144cfb29"
    assert saved(values) == expected
    code = (
        "import numpy as np, tegula\n"
        "print(tegula.checksum(tegula.create_array({}, data=np.arange(1000, dtype='f4').reshape(10, 100), chunks=7)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == expected


@pytest.mark.slow
def test_processes_and_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tegula.create_group(tmp_path / "g")
    group.create_array("a", data=np.random.default_rng(0).normal(size=(60, 50)), chunks=(10, 10))
    group["b"] = np.arange(9)
    expected = tegula.checksum(group)
    assert tegula.checksum(tmp_path / "g", workers=2) == expected
    # interrupted, and again: what was summed is not read once more
    monkeypatch.setattr(units, "BLOCK_BYTES", 8 * 500)
    read: list[Any] = []
    sum_one = checksums.sum_box

    def summed(array: tegula.Array, box: Any) -> Sums:
        read.append(box)
        if len(read) == 4:
            raise KeyboardInterrupt
        return sum_one(array, box)

    monkeypatch.setattr(checksums, "sum_box", summed)
    kept = tegula.MemoryStore()
    with pytest.raises(KeyboardInterrupt):
        tegula.checksum(group, ledger=kept)
    assert tegula.checksum(group, ledger=kept) == expected
    number = len({str(box) for box in read})
    assert 4 < number == len(read) - 1
    assert [*kept.list()] == []


def test_progress_reaches_the_total() -> None:
    group = tegula.create_group({})
    group["a"], group["b"] = np.arange(5), np.zeros((10, 10))
    seen: dict[str, tuple[int, int]] = {}
    tegula.checksum(group, progress=lambda path, done, total: seen.update({path: (done, total)}))
    assert seen == {"a": (40, 40), "b": (800, 800)}


def test_a_path_is_relative_to_the_source() -> None:
    root = tegula.create_group({})
    root["x"], root["g/x"] = [1, 2, 3], [4, 5]
    expected = tegula.checksum(root["g/x"]).digest
    assert tegula.checksum(root["g"], path="/x").digest == tegula.checksum(root["g"], path="x/").digest == expected
    assert str(tegula.statistics(root["g"], path="/x")) == str(tegula.statistics(root["g/x"]))
