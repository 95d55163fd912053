"""Time queries of polars and DuckDB over a table of bcolz, beside bcolz's own, and beside reading whole columns.

`rows` makes the data and returns what to time: the name of an operation, the contender and a function without
arguments. All contenders of an operation return the same number, which `main` checks before it prints the best time of
each. Run it with ``python benches/ecosystem_tables.py [--rows N] [--rounds N] [--root DIR]``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bcolz
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import zarr

import tegula
import tegula.arrow

ROWS = 10_000_000
LIMIT = 0.001  # one row in a thousand
LATE = 0.95  # of the days: the matching rows are beside each other


def create(directory: Path, rows: int) -> None:
    """Write the same columns as a table of bcolz, a group of Zarr v3 and a file of Parquet."""
    rng = np.random.default_rng(0)
    columns = {
        "day": np.sort(rng.integers(0, 1000, rows)).astype("i4"),
        "x": rng.random(rows),
        "price": rng.integers(0, 10_000, rows),
        "volume": rng.integers(0, 100, rows).astype("i4"),
        "kind": rng.choice([b"bid", b"ask", b"trade"], rows),
    }
    names = [*columns]
    bcolz.ctable([columns[name] for name in names], names=names, rootdir=str(directory / "t.bcolz"), mode="w").flush()
    tegula.create_table(directory / "t.zarr", columns, format="zarr3")
    pl.DataFrame({name: pl.Series(values) for name, values in columns.items()}).write_parquet(directory / "t.parquet")


def rows(directory: Path, count: int = ROWS) -> list[tuple[str, str, Callable[[], float]]]:
    """Return what to time, as (operation, contender, function); make the data in `directory` if they are not there."""
    warnings.simplefilter("ignore")
    if not (directory / "t.parquet").exists():
        create(directory, count)
    path = str(directory / "t.bcolz")
    table = tegula.open_table(path)
    group = zarr.open_group(str(directory / "t.zarr"), mode="r")
    bars: Any = tegula.arrow.dataset(table)
    lazy = tegula.arrow.scan_polars(table)
    parquet = pl.scan_parquet(directory / "t.parquet")

    def by_duckdb(source: Any, condition: str) -> float:
        with duckdb.connect() as connection:
            connection.register("bars", source)
            found = connection.sql(f"SELECT coalesce(sum(price * volume), 0) FROM bars WHERE {condition}").fetchall()
        return float(found[0][0])

    def by_polars(frame: pl.LazyFrame, condition: pl.Expr) -> float:
        return float(frame.filter(condition).select((pl.col("price") * pl.col("volume")).sum()).collect().item())

    def by_bcolz(condition: str) -> float:
        found = bcolz.open(path, mode="r").fetchwhere(condition, out_flavor="numpy", outcols=["price", "volume"])
        return float((found["price"] * found["volume"]).sum())

    def by_zarr(name: str, limit: float, above: bool) -> float:
        # what a program does that knows arrays only: all columns of the query in memory
        read: dict[str, Any] = {item: group[item][:] for item in (name, "price", "volume")}
        mask = read[name] >= limit if above else read[name] < limit
        return float((read["price"][mask] * read["volume"][mask]).sum())

    last = int(LATE * 1000)
    scattered, together = f"x < {LIMIT}", f"day >= {last}"
    found: list[tuple[str, str, Callable[[], float]]] = []
    for name, text, expr, field in (
        ("one row in 1000", scattered, pl.col("x") < LIMIT, pc.field("x") < LIMIT),
        ("the last days", together, pl.col("day") >= last, pc.field("day") >= last),
    ):

        def add(contender: str, function: Callable[[], float], name: str = name) -> None:
            found.append((name, contender, function))

        add("polars, tegula.arrow.scan_polars", lambda expr=expr: by_polars(lazy, expr))
        add("DuckDB, tegula.arrow.dataset", lambda text=text: by_duckdb(bars, text))
        add("DuckDB, the table as a stream", lambda text=text: by_duckdb(table, text))
        add("tegula, Table.scan", lambda text=text: _total(pa.table(table.scan(["price", "volume"], text))))
        add(
            "pyarrow, tegula.arrow.dataset",
            lambda field=field: _total(bars.to_table(["price", "volume"], filter=field)),
        )
        add("polars, the table in memory", lambda expr=expr: by_polars(pl.DataFrame(table).lazy(), expr))
        add("bcolz, fetchwhere", lambda text=text: by_bcolz(text))
        add("polars, Parquet", lambda expr=expr: by_polars(parquet, expr))
    found.append(("one row in 1000", "zarr-python and NumPy", lambda: by_zarr("x", LIMIT, above=False)))
    found.append(("the last days", "zarr-python and NumPy", lambda: by_zarr("day", last, above=True)))
    return sorted(found, key=lambda row: row[0])


def _total(table: Any) -> float:
    return float(pc.sum(pc.multiply(table["price"], table["volume"])).as_py() or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--root", default=None, help="on which disk")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.root) as directory:
        timed = rows(Path(directory), given.rows)
        answers: dict[str, float] = {}
        best: dict[tuple[str, str], float] = {}
        for _ in range(given.rounds):
            for name, contender, function in timed:
                start = time.perf_counter()
                answer = function()
                took = time.perf_counter() - start
                best[name, contender] = min(took, best.get((name, contender), took))
                if answers.setdefault(name, answer) != answer:
                    raise SystemExit(f"{contender} answers {answer} for {name}, not {answers[name]}")
    for (name, contender), took in best.items():
        print(f"{name:18} {contender:36} {took * 1000:9.1f} ms")


if __name__ == "__main__":
    main()
