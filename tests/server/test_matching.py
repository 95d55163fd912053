"""Rows that match a condition, in an order: compared with NumPy's, and within bounds."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.server.asking import ask

import tegula
from tegula.server import extracting, matching
from tegula.server.content import Content
from tegula.server.matching import Query

pytestmark = pytest.mark.once(executors="both")


def table(format: str = "zarr3", count: int = 500) -> tegula.Table:
    random = np.random.default_rng(5)
    number = random.integers(0, 50, count)
    text = np.array([f"r{at % 7}" for at in range(count)], object)
    value = np.where(number % 5 == 0, np.nan, number / 3)
    day = np.datetime64("2020-01-01") + number
    columns = {"n": number, "x": value, "s": text.astype("U2") if format == "bcolz" else text, "day": day}
    return tegula.create_table({}, columns, format=format)


CONDITIONS = {
    "": lambda t: np.ones(len(t["n"]), bool),
    "n > 25": lambda t: t["n"] > 25,
    "n > 25 and x < 12 or s == 'r3'": lambda t: ((t["n"] > 25) & (t["x"] < 12)) | (t["s"] == "r3"),
    "day >= '2020-02-10'": lambda t: t["day"] >= np.datetime64("2020-02-10"),
    "n > 1000": lambda t: t["n"] > 1000,
    "isnan(x)": lambda t: np.isnan(t["x"]),
}


def expected(values: dict[str, Any], where: str, sort: str, descending: bool) -> list[int]:
    """Return the numbers of the rows, by a sort of Python tuples."""
    numbers = np.flatnonzero(CONDITIONS[where](values)).tolist()
    if not sort:
        return numbers
    column = values[sort]
    there = [at for at in numbers if column[at] == column[at]]
    missing = [at for at in numbers if column[at] != column[at]]
    return sorted(there, key=lambda at: column[at], reverse=descending) + missing


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "bcolz"])
def test_rows_are_those_of_numpy(format: str) -> None:
    rows = table(format)
    values = {name: rows[name][:] for name in rows.names}
    content = Content(rows)

    @settings(max_examples=examples(60), deadline=None)
    @given(
        st.sampled_from(list(CONDITIONS)), st.sampled_from(["", *rows.names]), st.booleans(),
        st.integers(0, 600), st.integers(0, 600),
    )  # fmt: skip
    def check(where: str, sort: str, descending: bool, start: int, count: int) -> None:
        query = Query(where, sort, descending)
        found = extracting.rows(content, "", ["n", "s"], start, start + count, query)
        wanted = expected(values, where, sort, descending)
        shown = wanted[start : start + count]
        assert found["total"] == len(wanted)
        assert found["rows"] == [[int(values["n"][at]), values["s"][at]] for at in shown]
        if query:
            assert (found["numbers"], found["length"], found["searched"]) == (shown, 500, 500)

    check()


def test_a_query_over_http_and_its_file() -> None:
    rows = table()
    values = {name: rows[name][:] for name in rows.names}
    with tegula.serve(rows, port=0) as server:
        for where in CONDITIONS:
            for sort, order in (("", "ascending"), ("x", "ascending"), ("x", "descending")):
                asked = urlencode({"where": where, "sort": sort, "order": order, "columns": "n"})
                wanted = expected(values, where, sort, order == "descending")
                found = ask(server.url, f"/-/rows/?{asked}").json
                assert [row[0] for row in found["rows"]] == values["n"][wanted].tolist()
                answer = ask(server.url, f"/-/values/?{asked}&format=csv")
                lines = [*csv.reader(io.StringIO(answer.body.decode()))]
                assert lines[0] == [*rows.names]
                assert [int(line[0]) for line in lines[1:]] == values["n"][wanted].tolist()
                if where:
                    facts = ask(server.url, f"/-/stats/?{asked}&column=x").json
                    here = values["x"][wanted]
                    assert (facts["count"], facts["matching"]) == (np.isfinite(here).sum(), len(wanted))
                    assert facts["max"] == (np.nanmax(here) if np.isfinite(here).any() else None)
        assert ask(server.url, "/-/stats/n?where=value%20%3E%2025").json["min"] == 26
        assert ask(server.url, "/-/stats/?where=n%20%3E%2025&column=none").status == 400
        part = ask(server.url, f"/-/values/?{urlencode({'where': 'n > 25', 'sort': 'n', 'selection': '0:3'})}")
        npy = np.load(io.BytesIO(ask(server.url, "/-/values/n?where=value%20%3E%2025&sort=value&selection=0:3").body))
        assert part.status == 422  # npy has no form for text of any length
        assert npy.tolist() == sorted(values["n"][values["n"] > 25])[:3]


@pytest.mark.parametrize(("query", "status", "said"), [
    ({"where": "n >"}, 422, "not an expression"),
    ({"where": "m > 1"}, 404, "m"),
    ({"where": "n"}, 422, "true or false"),
    ({"where": "sum(n) > 1"}, 422, "reductions"),
    ({"where": "n > " + "1" * 5000}, 422, ""),
    ({"where": "x" * 30_000}, 422, "characters"),
    ({"sort": "m"}, 404, "there is no column 'm'; the columns are n, x, s, day"),
    ({"sort": "n", "order": "sideways"}, 400, "ascending or descending"),
])  # fmt: skip
def test_queries_that_are_refused(query: dict[str, str], status: int, said: str) -> None:
    with tegula.serve(table(), port=0) as server:
        for route in ("rows", "values"):
            answer = ask(server.url, f"/-/{route}/?{urlencode({**query, 'format': 'csv'})}")
            assert answer.status == status, answer
            assert said in answer.json["error"]


def test_arrays_with_and_without_fields() -> None:
    group = tegula.create_group({}, format="zarr2")
    records = np.zeros(100, [("id", "i4"), ("p", "f4", 3), ("s", "U3")])
    records["id"] = np.random.default_rng(1).permutation(100)
    group.create_array("rec", data=records, chunks=7)
    group["plane"] = np.zeros((3, 4))
    content = Content(group)
    found = extracting.rows(content, "rec", ["id"], 0, 9, Query("id > 50 and id < 60", "id", True))
    assert [row[0] for row in found["rows"]] == [*range(59, 50, -1)]
    assert records["id"][found["numbers"]].tolist() == [*range(59, 50, -1)]
    for path, query in (("rec", Query(sort="p")), ("plane", Query("value > 1")), ("plane", Query(sort="value"))):
        with pytest.raises(tegula.SelectionError):
            extracting.rows(content, path, None, 0, 9, query)
    for query in (Query("x > 1"), Query(sort="x")):
        with pytest.raises(tegula.NotFoundError, match="there is no column 'x'; the columns are id, p, s"):
            extracting.rows(content, "rec", None, 0, 9, query)


def test_what_is_found_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tegula.create_table({}, {"n": np.arange(1000)[::-1]}, format="zarr3", chunks={"n": 100})
    monkeypatch.setattr(matching, "_MOST_FOUND", 30)
    found = extracting.rows(Content(rows), "", None, 0, None, Query("n % 2 == 0"))
    assert (found["total"], found["searched"], found["rows"][-1]) == (30, 60, [940])
    found = extracting.rows(Content(rows), "", None, 0, None, Query(sort="n"))
    assert (found["total"], found["searched"], found["rows"][0]) == (30, 30, [970])
    monkeypatch.setattr(matching, "_MOST_FOUND", 10**6)
    monkeypatch.setattr(matching, "_MOST_SORTED", 8 * 50)
    found = extracting.rows(Content(rows), "", None, 0, None, Query("n % 2 == 0", "n"))
    assert (found["total"], found["searched"], found["rows"][0]) == (50, 101, [900])
    monkeypatch.setattr(matching, "_MOST_SECONDS", -1.0)
    monkeypatch.setattr(matching, "_SEGMENT", 100)
    found = extracting.rows(Content(rows), "", None, 0, None, Query("n > 985"))
    assert (found["total"], found["searched"]) == (14, 100)


def test_a_table_that_changes_is_searched_again(tmp_path: Path) -> None:
    rows = tegula.create_table(tmp_path / "t.zarr", {"n": np.arange(10)}, format="zarr3")
    with tegula.serve(tmp_path / "t.zarr", port=0) as server:
        target = "/-/rows/?where=n%20%3E%207"
        assert ask(server.url, target).json["total"] == 2
        rows.append({"n": np.arange(5, 15)})
        assert ask(server.url, target).json["numbers"] == [8, 9, 13, 14, 15, 16, 17, 18, 19]
