"""polars, DuckDB, pandas and pyarrow read tables as NumPy does, and only the parts that a query needs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
import tegula.arrow
from tegula.errors import MetadataError, NotFoundError, UnsupportedError

pytestmark = pytest.mark.once(executors="both")

FORMATS = ["bcolz", "zarr2", "zarr3"]
ROWS = 1000


class Counting(tegula.MemoryStore):
    """A store that records which chunks are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        if "/c/" in key:
            self.read.add(key)
        return super().get(key, *args, **options)


def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    time = np.datetime64("2020-01-01", "ms") + np.arange(ROWS)
    time[::17] = "NaT"
    x = rng.random(ROWS)
    x[::13] = np.nan
    return {
        "n": np.arange(ROWS),
        "x": x,
        "big": rng.integers(0, 9, ROWS).astype(">i2"),
        "flag": rng.random(ROWS) < 0.5,
        "s": rng.choice(["a", "é", "", "text"], ROWS),
        "raw": rng.choice([b"a", b"", b"bc"], ROWS),
        "time": time,
        "v": rng.random((ROWS, 2)).astype("f4"),
        "z": rng.random(ROWS) + 1j,
    }


DATA = data()


@pytest.fixture(scope="module")
def table() -> tegula.Table:
    store = Counting()
    tegula.create_table(store, DATA, format="zarr3", chunks=100)
    return tegula.open_table(store)


def chunks(table: tegula.Table, action: Callable[[], object]) -> dict[str, list[int]]:
    """Return the chunks of each column that an action reads."""
    table.store.read.clear()
    action()
    found: dict[str, list[int]] = {}
    for key in sorted(table.store.read):
        name, _, number = key.split("/")[:3]
        found.setdefault(name, []).append(int(number))
    return found


EVERY = [*range(10)]


def sql(query: str, **tables: Any) -> list[Any]:
    """Return what DuckDB answers to a query over tables by name."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(query).fetchall()


# --- the same values


def expected_lists() -> dict[str, Any]:
    lists = {name: values.tolist() for name, values in DATA.items()}
    lists["z"] = [{"real": item.real, "imag": item.imag} for item in lists["z"]]
    return lists


@pytest.mark.slow
@pytest.mark.sampled(one_in=20)
@pytest.mark.parametrize("format", FORMATS)
def test_every_library_reads_the_same_rows(format: str) -> None:
    t = tegula.create_table({}, DATA, format=format, chunks=130)
    expected = expected_lists()
    frames = {
        "DataFrame": pl.DataFrame(t), "scan": tegula.arrow.scan_polars(t).collect(),
        "dataset": pl.scan_pyarrow_dataset(tegula.arrow.dataset(t)).collect(),
    }  # fmt: skip
    for frame in frames.values():
        assert isinstance(frame, pl.DataFrame)
        found = frame.to_dict(as_series=False)
        found["v"] = [[*item] for item in found["v"]]
        np.testing.assert_equal(found, expected)
    for relation in (duckdb.sql("FROM t"), duckdb.from_arrow(tegula.arrow.dataset(t))):
        rows = [*zip(*relation.fetchall())]
        for name, values in zip(relation.columns, rows):
            wanted = expected[name]
            found = [[*item] if name == "v" else item for item in values]
            np.testing.assert_equal(found, wanted, name)
    frame = pa.table(t).to_pandas()
    for name in ("n", "x", "big", "flag", "s", "raw", "time"):
        np.testing.assert_array_equal(frame[name].to_numpy().astype(DATA[name].dtype), DATA[name])
    if hasattr(pd.DataFrame, "from_arrow"):
        pd.testing.assert_frame_equal(pd.DataFrame.from_arrow(t), frame)


CONDITIONS: dict[str, tuple[str, Any, Any, Any]] = {
    "range": ("(n >= 250) & (n < 270)", (pl.col("n") >= 250) & (pl.col("n") < 270),
              (pc.field("n") >= 250) & (pc.field("n") < 270), "n >= 250 AND n < 270"),
    "text": ('(s == "é") & (big == 3)', (pl.col("s") == "é") & (pl.col("big") == 3),
             (pc.field("s") == "é") & (pc.field("big") == 3), "s = 'é' AND big = 3"),
    "in": ("big in [1, 8]", pl.col("big").is_in([1, 8]), pc.field("big").isin([1, 8]), "big IN (1, 8)"),
    "flag": ("flag", pl.col("flag"), pc.field("flag"), "flag"),
    "arithmetic": ("n % 7 + big > 12", pl.col("n") % 7 + pl.col("big") > 12, None, "n % 7 + big > 12"),
    "none": ("n < 0", pl.col("n") < 0, pc.field("n") < 0, "n < 0"),
    "time": ("time > '2020-01-01T00:00:00.500'",
             pl.col("time") > pl.lit("2020-01-01T00:00:00.500").str.to_datetime(time_unit="ms"),
             pc.field("time") > pa.scalar(np.datetime64("2020-01-01T00:00:00.500", "ms")),
             "time > TIMESTAMP '2020-01-01 00:00:00.500'"),
}  # fmt: skip
"""Conditions of tegula, polars, pyarrow and DuckDB that mean the same."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_select_the_same_rows_in_every_library(table: tegula.Table, name: str) -> None:
    text, polars, arrow, condition = CONDITIONS[name]
    wanted = table.where(text, ["n"])["n"].tolist()
    assert [n for batch in table.scan(["n"], text) for n in batch["n"].to_pylist()] == wanted
    assert table.where(polars, ["n"])["n"].tolist() == wanted
    bars = tegula.arrow.dataset(table)
    lazy = tegula.arrow.scan_polars(table)
    for engine in ("in-memory", "streaming"):
        assert lazy.filter(polars).select("n").collect(engine=engine)["n"].to_list() == wanted
    assert pl.scan_pyarrow_dataset(bars).filter(polars).collect()["n"].to_list() == wanted
    for source in (bars, table):
        assert sorted(row[0] for row in sql(f"SELECT n FROM rows WHERE {condition}", rows=source)) == wanted
    if arrow is not None:
        assert bars.to_table(filter=arrow)["n"].to_pylist() == wanted
        assert bars.filter(arrow).filter(arrow).to_table(columns=["n", "n"])[1].to_pylist() == wanted
        assert bars.count_rows(filter=arrow) == len(wanted)
        assert bars.filter(arrow).head(3)["n"].to_pylist() == wanted[:3]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data())
def test_queries_of_polars_give_what_they_give_in_memory(data: st.DataObject) -> None:
    names = ["n", "x", "big", "s", "flag"]
    t = tegula.create_table({}, {name: DATA[name][:50] for name in names}, chunks=data.draw(st.integers(1, 20)))
    lazy, memory = tegula.arrow.scan_polars(t), pl.DataFrame(t).lazy()
    number = st.sampled_from([pl.col("n"), pl.col("big"), pl.col("x"), pl.lit(3), pl.col("n") + pl.col("big")])
    term = st.builds(lambda a, b: a > b, number, number)
    term |= st.sampled_from(
        [pl.col("x").is_nan(), pl.col("s").str.contains("a|x"), pl.lit(True), pl.col("n") > pl.col("n").mean()]
    )
    steps = st.one_of(
        term.map(lambda condition: lambda frame: frame.filter(condition)),
        st.integers(0, 60).map(lambda rows: lambda frame: frame.head(rows)),
        st.integers(1, 9).map(lambda rows: lambda frame: frame.tail(rows)),
        st.integers(0, 9).map(lambda rows: lambda frame: frame.slice(rows, 5)),
        st.just(lambda frame: frame.with_columns(twice=pl.col("n") * 2)),
    )
    for step in data.draw(st.lists(steps, max_size=4)):
        lazy, memory = step(lazy), step(memory)
    last = data.draw(
        st.sampled_from(
            [
                lambda frame: frame,
                lambda frame: frame.select("s", "n"),
                lambda frame: frame.select(pl.len()),
                lambda frame: frame.group_by("big").agg(pl.col("n").sum()).sort("big"),
            ]
        )
    )
    assert last(lazy).collect().equals(last(memory).collect())


def test_a_query_sees_the_rows_that_are_there_then() -> None:
    t = tegula.create_table({}, {"a": [1, 2]}, format="zarr3")
    lazy, bars = tegula.arrow.scan_polars(t), tegula.arrow.dataset(t)
    t.append({"a": [3]})
    assert lazy.collect()["a"].to_list() == [1, 2, 3]
    assert bars.to_table()["a"].to_pylist() == [1, 2, 3]
    t.resize(0)
    assert lazy.collect().shape == (0, 1)
    assert lazy.filter(pl.col("a") > 1).collect().shape == (0, 1)
    assert bars.count_rows() == 0
    assert duckdb.sql("SELECT count(*) FROM t").fetchall() == [(0,)]


# --- what is read


def test_a_query_of_polars_reads_what_it_needs(table: tegula.Table) -> None:
    lazy = tegula.arrow.scan_polars(table)
    assert chunks(table, lambda: lazy.select("x").collect()) == {"x": EVERY}
    found = chunks(table, lambda: lazy.filter(pl.col("n").is_between(250, 320)).select("x", "s").collect())
    assert found == {"n": EVERY, "x": [2, 3], "s": [2, 3]}
    assert chunks(table, lambda: lazy.head(150).collect())["x"] == [0, 1]
    assert len(chunks(table, lambda: lazy.select(pl.len()).collect())) <= 1


def test_a_query_of_duckdb_reads_what_it_needs(table: tegula.Table) -> None:
    bars = tegula.arrow.dataset(table)
    assert chunks(table, lambda: sql("SELECT sum(x) FROM bars", bars=bars)) == {"x": EVERY}
    found = chunks(table, lambda: sql("SELECT x, s FROM bars WHERE n >= 250 AND n < 320", bars=bars))
    assert found == {"n": EVERY, "x": [2, 3], "s": [2, 3]}


def test_a_query_of_pyarrow_reads_what_it_needs(table: tegula.Table) -> None:
    bars = tegula.arrow.dataset(table)
    condition = pc.field("n") == 777
    assert chunks(table, lambda: bars.to_table(columns=["s"], filter=condition)) == {"n": EVERY, "s": [7]}
    twice = {"twice": pc.field("n") * 2}
    assert chunks(table, lambda: bars.to_table(columns=twice, filter=condition)) == {"n": EVERY}
    assert bars.to_table(columns=twice, filter=condition)["twice"].to_pylist() == [1554]
    assert chunks(table, bars.count_rows) == {}


# --- datasets of pyarrow


def test_a_dataset_does_what_pyarrow_does_with_it(table: tegula.Table, tmp_path: Any) -> None:
    bars = tegula.arrow.dataset(table)
    memory = pa.table(table)
    columns = ["n", "s", "big"]
    assert isinstance(bars, ds.Dataset)
    assert bars.schema == memory.schema
    assert bars.take(pa.array([999, 3]), columns=columns) == memory.select(columns).take([999, 3])
    assert pa.Table.from_batches(bars.to_batches(columns=columns, batch_size=7)) == memory.select(columns)
    assert bars.sort_by([("s", "ascending"), ("n", "descending")]).to_table()["n"].to_pylist() == (
        memory.sort_by([("s", "ascending"), ("n", "descending")])["n"].to_pylist()
    )
    other = ds.dataset(pa.table({"n": [3, 5000], "y": [1, 2]}))
    few = tegula.arrow.dataset(tegula.create_table({}, {name: DATA[name] for name in columns}))
    assert few.join(other, "n", join_type="inner").to_table()["n"].to_pylist() == [3]
    assert few.join(few, "n", join_type="left semi").to_table().num_rows == ROWS
    assert few.join_asof(other, "n", [], tolerance=0).to_table().num_rows == ROWS
    ds.write_dataset(bars.scanner(columns=columns), tmp_path / "p", format="parquet")
    assert ds.dataset(tmp_path / "p").to_table() == memory.select(columns)


def test_a_dataset_past_its_scanner_fails_instead_of_being_empty() -> None:
    bars = tegula.arrow.dataset(tegula.create_table({}, {"n": [1, 2], "x": [0.5, 1.5]}))
    other = ds.dataset(pa.table({"n": [1, 2]}))
    for read in (
        lambda: [fragment.to_table() for fragment in bars.get_fragments()],
        lambda: other.join(bars, "n").to_table(),
    ):
        with pytest.raises(FileNotFoundError, match=r"scanner\(\)"):
            read()
    for combine in (lambda: bars.replace_schema(pa.schema([])), lambda: ds.dataset([bars, bars])):
        with pytest.raises(UnsupportedError, match="to_table"):
            combine()
    known = set("""
        count_rows filter get_fragments head join join_asof partition_expression replace_schema scanner schema
        sort_by take to_batches to_table
    """.split())  # fmt: skip
    assert {name for name in dir(ds.Dataset) if not name.startswith("_")} <= known, "does it read past the scanner?"


def test_datasets_are_pickled(tmp_path: Any) -> None:
    t = tegula.create_table(tmp_path / "t", {"a": [1, 2, 3]})
    bars = pickle.loads(pickle.dumps(tegula.arrow.dataset(t).filter(pc.field("a") > 1)))
    assert bars.to_table()["a"].to_pylist() == [2, 3]
    assert "TableDataset" in repr(bars)


def test_conditions_without_columns_hold_for_all_rows_or_none() -> None:
    odd = 'we"ird\n'
    t = tegula.create_table({}, {"no type": np.zeros(3, "M8[ps]"), odd: [1, 2, 3]}, format="zarr3")
    for condition, rows in [
        (pc.scalar(True), 3), (pl.lit(True), 3), (pc.scalar(False), 0), (pl.lit(False), 0), ("1 < 2", 3),
        (pc.field(odd) > 1, 2), (pl.col(odd) > 1, 2),
    ]:  # fmt: skip
        assert t.scan([odd], condition).to_arrow().num_rows == rows


# --- errors


def test_wrong_conditions_are_errors_of_tegula(table: tegula.Table) -> None:
    for wrong, error in [
        (pl.col("no") > 1, NotFoundError), (pl.col("n") + 1, MetadataError), (pl.col("n") > "x", MetadataError),
        (pc.field("no") > 1, MetadataError), (pc.field("s") > 1, MetadataError), (pc.field("n") + 1, MetadataError),
    ]:  # fmt: skip
        with pytest.raises(error):
            table.scan(where=wrong).to_arrow()


def test_conditions_that_look_at_several_rows_are_refused(table: tegula.Table) -> None:
    n = pl.col("n")
    for wrong in (n > n.mean(), (n > 3) & (n < n.max()), n.cum_sum() > 3, n.shift() > 1, n.sum().over("s") > 1):
        with pytest.raises(UnsupportedError, match="one row at a time"):
            table.scan(where=wrong)
        found = tegula.arrow.scan_polars(table).select("n", "s").filter(wrong).collect()
        assert found.equals(pl.DataFrame(table.scan(["n", "s"])).filter(wrong))


def test_broken_chunks_are_reported_by_every_library() -> None:
    store = tegula.MemoryStore()
    t = tegula.create_table(store, {"a": np.arange(100)}, format="zarr3", chunks=10)
    store.set("a/c/3", b"broken")
    bars = tegula.arrow.dataset(t)
    for read in (
        lambda: tegula.arrow.scan_polars(t).collect(), lambda: pl.DataFrame(t), bars.to_table,
        lambda: sql("FROM t", t=t), lambda: sql("SELECT sum(a) FROM bars", bars=bars),
    ):  # fmt: skip
        with pytest.raises(Exception, match="a/c/3"):
            read()


# --- tables from objects of other libraries


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_tables_are_made_of_frames_and_relations(format: str) -> None:
    frame = pl.DataFrame(
        {
            "n": pl.Series([1, 2, 3], dtype=pl.UInt16),
            "s": ["a", "bcd", ""],
            "kind": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
            "day": pl.Series([0, 1, None], dtype=pl.Date),
            "time": pl.Series([0, 1, None], dtype=pl.Datetime("us")),
            "f": [0.5, None, 1.5],
            "v": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int8, 2)),
            "raw": [b"a", b"", b"\0b"],
        }
    )
    relation = duckdb.sql("SELECT n, s, CAST(kind AS VARCHAR) AS kind, day, time, f, v, raw FROM frame")
    for source in (frame, relation, frame.to_arrow(), tegula.create_table({}, frame, format=format)):
        t = tegula.create_table({}, source, format=format)
        assert t.append(source) == 6
        found = {name: values[3:] for name, values in t.read().items()}
        assert found["n"].dtype == "u2"
        assert found["n"].tolist() == [1, 2, 3]
        assert found["s"].tolist() == ["a", "bcd", ""]
        assert found["kind"].tolist() == ["x", "y", "x"]
        np.testing.assert_array_equal(found["day"], np.array([0, 1, "NaT"], "M8[D]"))
        np.testing.assert_array_equal(found["time"], np.array([0, 1, "NaT"], "M8[us]"))
        np.testing.assert_array_equal(found["f"], [0.5, np.nan, 1.5])
        assert found["v"].tolist() == [[1, 2], [3, 4], [5, 6]]
        assert found["raw"].tolist() == [b"a", b"", b"\0b"]
    with pytest.raises(MetadataError, match=r"missing.*'n'"):
        tegula.create_table({}, pl.DataFrame({"n": [1, None]}), format=format)
    t = tegula.create_table({}, pl.DataFrame({"n": [1, None]}), format=format, fill_values={"n": -1})
    assert t["n"][:].tolist() == [1, -1]
