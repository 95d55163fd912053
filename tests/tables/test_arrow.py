"""Tables to and from streams of Arrow: values are kept, and only a few blocks of rows are in memory at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from allocations import peak
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import tegula
from tegula.errors import CodecError, MetadataError, NotFoundError, SelectionError, TegulaError, UnsupportedError
from tegula.tables import arrow_input, scan

pytestmark = pytest.mark.once(executors="both")

FORMATS = ["bcolz", "zarr2", "zarr3"]
PLAIN = ["?", "i1", "u8", ">i4", "f2", "f4", ">f8", "U3", "U0", "S4", "c8", "c16", "V3", "object"]
TIMES = ["M8[D]", "M8[W]", "M8[s]", "M8[ms]", "M8[25us]", "M8[ns]", "m8[ns]", "m8[s]", "m8[D]"]
RECORDS = [[("a", "i4"), ("b", "S2"), ("c", "f8", (2,))]]


def values_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    if dtype.kind == "O":
        text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
        return npst.arrays(dtype, shape, elements=text, fill=st.nothing())
    elements = None
    if dtype.kind == "M" and np.datetime_data(dtype)[0] in ("D", "W"):
        elements = st.integers(-10_000, 10_000).map(lambda days: np.datetime64(days, np.datetime_data(dtype)[0]))
        elements |= st.just(np.datetime64("NaT"))
    elif dtype.kind in "mM":
        units = st.integers(-(2**45), 2**45) | st.just(np.iinfo("i8").min)
        return npst.arrays("i8", shape, elements=units).map(lambda numbers: numbers.astype(dtype))
    elif dtype.kind == "U":
        text = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
        elements = st.text(text, max_size=dtype.itemsize // 4)
    elif dtype.names is not None:
        parts = {name: values_of(dtype[name].base, (*shape, *dtype[name].shape)) for name in dtype.names}
        return st.fixed_dictionaries(parts).map(lambda found: records(found, dtype, shape))
    elif dtype.kind == "V":
        elements = st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize).map(np.void)
    return npst.arrays(dtype, shape, elements=elements)


def records(parts: dict[str, Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    found = np.empty(shape, dtype)
    for name, values in parts.items():
        found[name] = values
    return found


@st.composite
def columns(draw: st.DrawFn, choices: list[Any]) -> dict[str, Any]:
    rows = draw(st.integers(0, 12))
    inner = st.sampled_from([(), (), (2,), (2, 3)])
    types = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3))
    return {f"c{i}": draw(values_of(np.dtype(dtype), (rows, *draw(inner)))) for i, dtype in enumerate(types)}


def created(data: dict[str, Any], format: str, chunks: int) -> tegula.Table:
    try:
        return tegula.create_table({}, data, format=format, chunks=chunks, allow_pickle=True)
    except UnsupportedError:  # not every format has every type
        return tegula.create_table({}, {"c": np.arange(3)}, format=format, chunks=chunks)


def plain(values: Any) -> Any:
    """Return values as Arrow converts them to Python, by an independent implementation."""
    if isinstance(values, np.ndarray) and values.ndim:
        return [plain(item) for item in values]
    if isinstance(values, np.void) and values.dtype.names:
        return {name: plain(values[name]) for name in values.dtype.names}
    if isinstance(values, np.void):
        return values.tobytes()
    if isinstance(values, np.complexfloating):
        return {"real": float(values.real), "imag": float(values.imag)}
    if isinstance(values, (np.datetime64, np.timedelta64)):
        return None if np.isnat(values) else values
    return values.item() if isinstance(values, np.generic) else values


def check(column: Any, expected: Any) -> None:
    if expected.dtype.kind in "mM":
        flat = column.combine_chunks()
        for _ in expected.shape[1:]:
            flat = flat.flatten()
        found = np.asarray(flat.to_numpy(zero_copy_only=False)).astype(expected.dtype)
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)
        assert flat.null_count == np.isnat(expected).sum()
    else:
        assert column.null_count == 0
        np.testing.assert_equal(column.to_pylist(), plain(expected))


@pytest.mark.slow
@settings(max_examples=80)
@given(columns([*PLAIN, *TIMES, *RECORDS]), st.sampled_from(FORMATS), st.integers(1, 7))
def test_table_round_trips_through_arrow_with_equal_values(data: dict[str, Any], format: str, chunks: int) -> None:
    table = created(data, format, chunks)
    found = table.to_arrow()
    assert found.schema == pa.schema(table.scan().schema) == pa.schema(table)
    found.validate(full=True)
    for name, values in table.read().items():
        check(found[name], values)
    assert pa.table(table) == found or any(pa.types.is_floating(f.type) or f.type.num_fields for f in found.schema)

    # back, from the stream and from the table in memory
    for source in (table.scan(batch_rows=2), found):
        try:
            again = tegula.create_table({}, source, format=format, allow_pickle=True)
        except MetadataError:  # text that ends in NUL, or objects that are missing
            assert any(values.dtype.kind == "O" or values.dtype.names for values in data.values())
            continue
        for name, values in again.read().items():
            expected = table[name][:]
            np.testing.assert_array_equal(
                values.astype(expected.dtype) if expected.dtype.kind in "mMO" else values, expected
            )


@settings(max_examples=50)
@given(
    columns(["?", "i4", ">i2", "U3", "M8[s]", "object"]), st.sampled_from(FORMATS), st.integers(1, 7),
    st.integers(-14, 14), st.integers(-14, 14) | st.none(), st.integers(1, 9) | st.none(), st.integers(0, 50),
    st.data(),
)  # fmt: skip
def test_a_scan_gives_the_rows_asked_for(
    data: dict[str, Any], format: str, chunks: int, start: int, stop: int | None, batch_rows: int | None, seed: int,
    draw: st.DataObject,
) -> None:  # fmt: skip
    rows = len(next(iter(data.values())))
    numbers = np.random.default_rng(seed).integers(0, 4, rows)
    table = created({"n": numbers, **data}, format, chunks)
    names = draw.draw(st.lists(st.sampled_from(table.names), unique=True))
    first, last, _ = slice(start, stop).indices(rows)
    whole = table.to_arrow()
    asked = np.zeros(rows, bool)
    asked[first:last] = True
    for where in (None, "n > 1", pc.field("n") > 1):
        found = table.scan(names, where, start=start, stop=stop, batch_rows=batch_rows)
        batches = [*found]
        assert all(0 < len(batch) <= (batch_rows or rows) for batch in batches)
        # not a slice that is filtered: pyarrow 26 takes nested lists from outside of their memory then
        expected = whole.filter(pa.array(asked if where is None else asked & (numbers > 1)))
        assert sum(map(len, batches)) == len(expected)
        assert not names or pa.table(found).equals(expected.select(names))


def test_numbers_are_passed_on_without_a_copy() -> None:
    table = tegula.create_table({}, {"a": np.arange(1000), "v": np.ones((1000, 3)), "t": np.zeros(1000, "M8[s]")})
    blocks = []

    def noting(name: str, values: Any, kind: Any) -> Any:
        blocks.append(values)
        return scan_array(name, values, kind)

    scan_array = scan.arrow_array
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "arrow_array", noting)
        (batch,) = table.scan()
    arrays = [batch["a"], batch["v"].values, batch["t"]]
    assert [part.buffers()[1].address for part in arrays] == [block.ctypes.data for block in blocks]


def test_requested_types_are_cast() -> None:
    table = tegula.create_table({}, {"a": np.arange(3, dtype="i4"), "s": np.array([b"x", b"y", b"z"])})
    wanted = pa.schema([("a", pa.int64()), ("s", pa.large_string())])
    found = pa.RecordBatchReader.from_stream(table, schema=wanted).read_all()
    assert found.schema == wanted
    assert found.to_pydict() == {"a": [0, 1, 2], "s": ["x", "y", "z"]}


def test_types_that_arrow_lacks_are_refused_by_name() -> None:
    store: dict[str, bytes] = {}
    columns = {"ok": [1], "bad": np.zeros(1, "M8[ps]")}
    table = tegula.create_table(store, columns, format="zarr3")
    for read in (table.to_arrow, table.__arrow_c_stream__, table.__arrow_c_schema__, lambda: [*table.scan(["bad"])]):
        with pytest.raises(UnsupportedError, match="'bad'"):
            read()
    assert table.scan(["ok"], pc.field("ok") == 1).to_arrow().num_rows == 1
    for dtype in ("M8[Y]", "M8[D]"):
        out_of_range = tegula.create_table({}, {"bad": np.array([2**40], dtype)})
        with pytest.raises(MetadataError, match=r"out of Arrow's range.*'bad'"):
            out_of_range.to_arrow()
    with pytest.raises(MetadataError, match="'bad'"):
        tegula.create_table({}, {"bad": np.array(["\ud800"])}).to_arrow()


def test_wrong_scans_say_what_is_wrong() -> None:
    table = tegula.create_table({}, {"a": [1, 2], "b": [3.0, 4.0]})
    for wrong, error in [
        ("no > 1", NotFoundError), ("a >", MetadataError), ("sum(a) > 1", UnsupportedError), (5, MetadataError),
        (pc.field("no") > 1, MetadataError), (pc.field("a") > "x", MetadataError),
    ]:  # fmt: skip
        with pytest.raises(error):
            [*table.scan(where=wrong)]
    with pytest.raises(NotFoundError):
        table.scan(["no"])
    with pytest.raises(SelectionError):
        table.scan(["a", "a"])
    for rows in (0, -1, 1.5, True):
        with pytest.raises(SelectionError, match="batch_rows"):
            table.scan(batch_rows=rows)


def test_faults_are_errors_of_tegula_in_python_and_messages_elsewhere() -> None:
    store = tegula.MemoryStore()
    table = tegula.create_table(store, {"a": np.arange(100)}, format="zarr3", chunks=10)
    store.set("a/c/3", b"broken")
    with pytest.raises(TegulaError, match="'a"):
        table.to_arrow()
    with pytest.raises(TegulaError, match="'a"):
        table.scan().reader().read_all()
    with pytest.raises(Exception, match="a/c/3"):
        pa.table(table)


# --- memory and chunks


class Counting(tegula.MemoryStore):
    """A store that records which chunks are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        self.read.append(key)
        return super().get(key, *args, **options)


def test_a_scan_reads_columns_and_chunks_it_needs() -> None:
    store = Counting()
    n = np.arange(1000)
    tegula.create_table(store, {"n": n, "x": n / 2, "s": n.astype("U4")}, format="zarr3", chunks=100)
    table = tegula.open_table(store)

    def chunks(**asked: Any) -> list[str]:
        table.scan(**asked).to_arrow()  # documents are read
        store.read.clear()
        assert table.scan(**asked).to_arrow().num_rows
        return sorted({key for key in store.read if "/c/" in key})

    every = [f"n/c/{i}" for i in range(10)]
    assert chunks(columns=["n"]) == every
    assert chunks(columns=["n"], start=250, stop=400) == ["n/c/2", "n/c/3"]
    for where in ("(n == 250) | (n == 260)", (pc.field("n") == 250) | (pc.field("n") == 260)):
        assert chunks(columns=["x"], where=where) == [*every, "x/c/2"]
        assert chunks(columns=["n"], where=where) == every
    for where in ("(n == 5) | (n == 995)", "(n < 90) | (n == 995)"):
        assert chunks(columns=["x"], where=where) == [*every, "x/c/0", "x/c/9"]


def test_chunks_larger_than_a_block_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_MOST_BYTES", 64)
    table = tegula.create_table({}, {"n": np.arange(100), "m": np.arange(100)}, format="zarr3", chunks=100)
    assert [len(batch) for batch in table.scan()] == [4] * 25
    assert table.to_arrow()["n"].to_pylist() == [*range(100)]


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("format", ["bcolz", "zarr3"])
def test_streams_are_read_and_written_in_bounded_memory(
    format: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(scan, "_BLOCK_BYTES", 2**16)
    monkeypatch.setattr(arrow_input, "_PIECE_BYTES", 2**16)
    rows, step = 2**16, 2**11
    most = 2 * 2**20  # all rows would take 0.5 MiB for the numbers and 4 MiB for the text

    def batches() -> Any:
        for start in range(0, rows, step):
            numbers = np.arange(start, start + step)
            yield pa.record_batch({"n": numbers, "s": pa.array(np.char.mod("%d", numbers // 1000).astype(object))})

    def stream() -> Any:
        first = next(batches())
        return pa.RecordBatchReader.from_batches(first.schema, batches())

    path = tmp_path / "t"
    assert peak(lambda: tegula.create_table(path, stream(), format=format, chunks=2**12)) < most
    table = tegula.open_table(path, mode="r+")
    assert len(table) == rows
    assert int(table["n"][-1]) == rows - 1
    assert table["s"][-1] == str((rows - 1) // 1000)

    def total() -> None:
        assert sum(pc.sum(batch["n"]).as_py() for batch in table.scan()) == rows * (rows - 1) // 2

    assert peak(total) < most
    assert peak(lambda: table.append(stream())) < most
    assert len(table) == 2 * rows
    assert int(table["n"][rows]) == 0


# --- input


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize("format", FORMATS)
def test_batches_of_any_size_are_appended_in_order(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_input, "_PIECE_BYTES", 300)
    text = ["x" * (i % 23) for i in range(400)]
    whole = pa.table({"n": range(400), "s": text, "kind": pa.array(text).dictionary_encode()})
    rng = np.random.default_rng(1)
    cuts = np.sort(rng.integers(0, 400, 30)).tolist()
    parts = [whole.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, 400])]
    batches = [batch for part in parts for batch in part.combine_chunks().to_batches()]
    table = tegula.create_table({}, pa.RecordBatchReader.from_batches(whole.schema, batches), format=format, chunks=7)
    assert table.append(pa.RecordBatchReader.from_batches(whole.schema, batches)) == 800
    assert table.read()["n"].tolist() == [*range(400)] * 2
    assert table.read()["s"].tolist() == text * 2
    assert table.read()["kind"].tolist() == text * 2
    if format == "bcolz":
        assert table["s"].dtype == "U22"


def test_nothing_is_left_of_a_stream_that_fails() -> None:
    def failing() -> Any:
        yield pa.record_batch({"a": [1, 2]})
        raise OSError("the connection was lost")

    def missing() -> Any:
        yield pa.record_batch({"a": [1, 2]})
        yield pa.record_batch({"a": pa.array([3, None])})

    for make, message in {failing: "connection was lost", missing: "missing.*'a'"}.items():
        for format in FORMATS:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(arrow_input, "_PIECE_BYTES", 1)
                store = tegula.MemoryStore()
                reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), make())
                with pytest.raises(MetadataError, match=message):
                    tegula.create_table(store, reader, format=format, path="t")
                assert [key for key in store.list() if key.startswith("t")] == []
                table = tegula.create_table(store, {"a": [0]}, format=format, path="t", chunks=9)
                reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), make())
                with pytest.raises(MetadataError, match=message) as caught:
                    table.append(reader)
                assert caught.value.__notes__ == ["2 rows of the stream were appended before"]
                assert table["a"][:].tolist() == [0, 1, 2]  # a piece is appended as a whole


def test_faults_of_a_table_that_is_copied_are_those_of_the_table() -> None:
    store = tegula.MemoryStore()
    table = tegula.create_table(store, {"a": np.arange(100)}, format="zarr3", chunks=10)
    store.set("a/c/3", b"broken")
    with pytest.raises(CodecError, match="a/c/3"):
        tegula.create_table({}, table.scan().reader())
    with pytest.raises(MetadataError, match="a/c/3") as caught:
        tegula.create_table({}, table)
    assert "Traceback" not in caught.value.message


def test_missing_values_are_nan_nat_or_what_the_user_says() -> None:
    source = pa.table(
        {
            "i": pa.array([1, None, 3], "int16"),
            "f": pa.array([0.5, None, 2.5], "float32"),
            "h": pa.array(np.array([0.5, 1, 2.5], "f2"), mask=np.array([False, True, False])),
            "s": pa.array(["a", None, ""]),
            "day": pa.array([1, None, 3], "date32"),
            "time": pa.array([1, None, 3], "timestamp[ms]"),
            "flag": pa.array([True, None, False]),
        }
    )
    for name in ("i", "s", "flag"):
        for data in (source.select([name]), source.select([name]).to_reader()):
            with pytest.raises(MetadataError, match=f"missing.*fill_values.*'{name}'"):
                tegula.create_table({}, data)
    fills = {"i": -1, "s": "none", "flag": True}
    for format in FORMATS:
        for data in (source, source.to_reader(max_chunksize=1)):
            found = tegula.create_table({}, data, format=format, fill_values=fills).read()
            assert found["i"].tolist() == [1, -1, 3]
            assert found["s"].tolist() == ["a", "none", ""]
            assert found["flag"].tolist() == [True, True, False]
            assert found["f"].dtype == "f4"
            assert found["h"].dtype == "f2"
            for name in ("f", "h"):
                np.testing.assert_array_equal(found[name], [0.5, np.nan, 2.5])
            np.testing.assert_array_equal(found["day"], np.array([1, "NaT", 3], "M8[D]"))
            np.testing.assert_array_equal(found["time"], np.array([1, "NaT", 3], "M8[ms]"))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2, 3]]),
        pa.array([1, 2], pa.timestamp("s", "UTC")),
        pa.array([None, None]),
        pa.array([1, 2], pa.decimal128(5)),
        pa.array([1, 2], pa.time32("s")),
        pa.array([{"x": 1}, None]),
        pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        pa.array([[1, 2], [3, None]], pa.list_(pa.int8(), 2)),
        pa.array([(1, 2, 3), (1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int8())),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_without_a_type_in_numpy_are_refused_by_name(column: Any) -> None:
    for format in FORMATS:
        for data in (pa.table({"bad": column}), pa.table({"bad": column}).to_reader()):
            with pytest.raises((MetadataError, UnsupportedError), match="'bad'"):
                tegula.create_table({}, data, format=format)


def test_streams_without_columns_are_refused() -> None:
    for wrong in (pa.array([1, 2]), pa.chunked_array([[1, 2]])):
        with pytest.raises(MetadataError, match="Arrow"):
            tegula.create_table({}, wrong)
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    for data in (twice, twice.to_reader()):
        with pytest.raises(MetadataError, match="same name"):
            tegula.create_table({}, data)


@pytest.mark.parametrize("format", FORMATS)
def test_slices_of_arrow_are_stored_as_they_read(format: str) -> None:
    inner = pa.FixedSizeListArray.from_arrays(pa.array(range(20)), 2)
    raw = pa.array([bytes([i, 0]) for i in range(10)], pa.binary(2))
    pairs = pa.StructArray.from_arrays([pa.array(range(10)), inner], ["n", "v"])
    days = pa.array(range(10), pa.date32()).cast(pa.date64())
    table = pa.table({"v": inner, "raw": raw, "pairs": pairs, "when": days}).slice(3, 4)
    if format != "zarr2":  # which has types of records with arrays in them
        table = table.drop_columns(["pairs"])
    found = tegula.create_table({}, table, format=format).read()
    assert found["v"].tolist() == [[6, 7], [8, 9], [10, 11], [12, 13]]
    assert [item.tobytes() for item in found["raw"]] == [b"\3\0", b"\4\0", b"\5\0", b"\6\0"]
    if format == "zarr2":
        assert found["pairs"]["n"].tolist() == [3, 4, 5, 6]
        assert found["pairs"]["v"].tolist() == found["v"].tolist()
    assert found["when"].dtype == "M8[D]"
