"""Listings, facts, rows, statistics, downloads and the search of the tree, over a socket."""

import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.asking import ask
from tests.server.test_consistency import Client

import tegula
from tegula.server import extracting, facts, pages
from tegula.server.content import Content
from tegula.zarr3_view.nodes import ShownArray

pytestmark = pytest.mark.once(executors="both")


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Any:
    group = tegula.create_group(tmp_path_factory.mktemp("routes") / "g.zarr", format="zarr2", attributes={"title": "t"})
    group["t"] = np.arange(24.0).reshape(2, 3, 4)
    group["t"].attrs["units"] = "K"
    group["n"] = np.array([1.0, np.nan, 3.0])
    below = group.create_group("below")
    record = [("i", "i4"), ("s", "U3000"), ("f", "f8", 2)]
    below["rec"] = np.array([(1, "a", [0.5, np.nan]), (2, "ü" * 3000, [1, 2])], record)
    below.create_array("names", shape=3, dtype=str)[:] = ["one", "", "ü"]
    for name in ("a", "b", "c"):
        group.create_group(f"many/{name}")
    return group


@pytest.fixture(scope="module")
def url(group: Any) -> Iterator[str]:
    with tegula.serve(group, port=0) as server:
        yield server.url


@pytest.fixture(scope="module")
def table_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    number = np.arange(250_000)
    table = tegula.create_table(
        tmp_path_factory.mktemp("tables") / "t.bcolz",
        {"n": number, "x": np.where(number % 7 == 0, np.nan, number / 2), "s": np.array([f"r{i}" for i in number])},
        format="bcolz",
    )
    with tegula.serve(table, port=0) as server:
        yield server.url


# --- listings


def test_a_listing(url: str) -> None:
    result = ask(url, "/?list").json
    assert (result["path"], result["kind"], result["attributes"]) == ("", "group", {"title": "t"})
    assert [member["name"] for member in result["members"]] == ["below", "many", "n", "t"]
    array = result["members"][-1]
    assert array["kind"] == "array"
    assert (array["shape"], array["dtype"], array["format"], array["nbytes"]) == ([2, 3, 4], "float64", "zarr2", 192)
    assert array["codecs"][0]["name"]
    assert result["truncated"] is False
    assert ask(url, "/", accept="application/json").json == result
    assert ask(url, "/t", accept="application/json").json["attributes"] == {"units": "K"}


def test_a_served_member_has_its_name() -> None:
    group = tegula.create_group({})
    group["below/x"] = [1]
    assert facts.listing(Content(group["below/x"]), "", "", 1)["name"] == "x"
    assert facts.info(Content(group["below"]), "")["name"] == "below"


def test_listings_come_in_pages(url: str) -> None:
    names, after = [], ""
    while True:
        result = ask(url, f"/many?list&limit=1&after={after}").json
        names += [member["name"] for member in result["members"]]
        if not result["truncated"]:
            break
        after = names[-1]
    assert names == ["a", "b", "c"]


def test_members_that_can_not_be_read_say_why(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g.zarr")
    group["x"] = [1]
    group["y"] = [1]
    (tmp_path / "g.zarr" / "x" / "zarr.json").write_text("{")
    with tegula.serve(group, port=0) as server:
        kinds = {member["name"]: member for member in ask(server.url, "/?list").json["members"]}
        assert kinds["x"]["kind"] == "unreadable"
        assert "zarr.json" in kinds["x"]["error"]
        assert kinds["y"]["kind"] == "array"
        assert ask(server.url, "/x/zarr.json").status == 422
        assert ask(server.url, "/-/info/x").status == 422
        assert ask(server.url, "/x", accept="text/html").status == 200  # the page says what is wrong
        (tmp_path / "g.zarr" / "y" / "c" / "0").write_bytes(b"damaged")
        assert ask(server.url, "/-/rows/y").status == 502
        assert ask(server.url, "/as/int32/y/c/0").status == 502


def test_pages_for_browsers(url: str) -> None:
    for path in ("/", "/below", "/t"):
        answer = ask(url, path, accept="text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert b"<base href=" in answer.body
    assert ask(url, "/nothing", accept="text/html").status == 404
    assert ask(url, "/t/zarr.json", accept="text/html").headers["content-type"] == "application/json"


def test_a_plain_listing_where_there_is_no_page(group: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pages, "_PAGE", tmp_path)
    group.create_group("many/<b>&").update_attributes({"x": "</pre><script>"})
    try:
        page = pages.page(Content(group), "many").body.decode()
        assert '<a href="many/%3Cb%3E%26">&lt;b&gt;&amp;</a>' in page.replace("./", "")
        assert "<script>" not in pages.page(Content(group), "many/<b>&").body.decode()
    finally:
        del group["many/<b>&"]


# --- facts


def test_info_describes_an_array_and_its_stored_chunks(url: str) -> None:
    result = ask(url, "/-/info/t").json
    assert result["grid"] == [1, 1, 1]
    assert result["stored_chunks"] == 1
    assert result["ratio"] == pytest.approx(192 / result["stored_nbytes"], abs=1e-3)
    assert result["cast"] == "float32"
    assert ask(url, "/-/info/").json["nmembers"] == 4
    assert ask(url, "/-/info/nothing").status == 404


def test_info_of_a_huge_grid() -> None:
    array = tegula.create_array({}, shape=(10**9, 10**9), chunks=(10, 10), dtype="f8")
    array[5, 5] = 1
    result = facts.info(Content(array), "")
    assert (result["nchunks"], result["stored_chunks"]) == (10**16, 1)


def test_a_search_finds_nodes_by_words_of_their_paths(url: str) -> None:
    assert [node["path"] for node in ask(url, "/-/tree?search=BELOW%20n").json["nodes"]] == ["below/names"]
    assert [node["path"] for node in ask(url, "/-/tree?under=many").json["nodes"]] == ["many/a", "many/b", "many/c"]
    cut = ask(url, "/-/tree?limit=2").json
    assert (len(cut["nodes"]), cut["truncated"]) == (2, True)


# --- rows


def test_rows_of_a_table(table_url: str) -> None:
    result = ask(table_url, "/-/rows/?start=249998&stop=250010").json
    assert result["total"] == 250_000
    assert [(column["name"], column["dtype"]) for column in result["columns"]][:2] == [("n", "int64"), ("x", "float64")]
    assert result["rows"] == [
        [249998, "NaN" if 249998 % 7 == 0 else 124999.0, "r249998"],
        [249999, 124999.5, "r249999"],
    ]
    assert ask(table_url, "/-/rows/?columns=s,n&start=3&stop=4").json["rows"] == [["r3", 3]]
    assert ask(table_url, "/-/rows/?columns=%5B%22s%22%5D&start=3&stop=4").json["rows"] == [["r3"]]
    assert len(ask(table_url, "/-/rows/").json["rows"]) == 1000
    assert ask(table_url, "/-/rows/?columns=nosuch").status == 400
    assert ask(table_url, "/-/rows/?start=-1").status == 400
    assert ask(table_url, "/-/rows/?start=999999999999").json["rows"] == []
    assert ask(table_url, "/-/info/").json["rows"] == 250_000


def test_rows_of_other_nodes(url: str) -> None:
    result = ask(url, "/-/rows/below/rec").json
    assert [column["name"] for column in result["columns"]] == ["i", "s", "f"]
    assert result["rows"][0] == [1, "a", [0.5, "NaN"]]
    assert len(result["rows"][1][1]) == 2001  # cut off
    assert ask(url, "/-/rows/below/names").json["rows"] == [["one"], [""], ["ü"]]
    assert ask(url, "/-/rows/n").json["rows"] == [[1.0], ["NaN"], [3.0]]
    assert ask(url, "/-/rows/t?stop=1").json["rows"] == [[np.arange(12.0).reshape(3, 4).tolist()]]
    assert ask(url, "/-/rows/").status == 400  # a group, and no table


def test_a_group_of_columns_is_a_table() -> None:
    group = tegula.create_group({}, format="zarr3")
    group["a"], group["b"] = [1, 2], ["x", "y"]
    assert extracting.rows(Content(group), "", None, 0, 9)["rows"] == [[1, "x"], [2, "y"]]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 40), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_rows_are_the_rows(start: int, stop: int, size: int, columns: int) -> None:
    values = {f"c{number}": np.arange(size) * (number + 1) for number in range(columns)}
    actual = extracting.rows(Content(tegula.create_table({}, values)), "", None, start, stop)
    expected = [[int(column[row]) for column in values.values()] for row in range(size)][start : max(start, stop)]
    assert actual["rows"] == expected


def test_wide_rows_are_cut() -> None:
    array = tegula.create_array({}, shape=(3, 10**6), chunks=(1, 10**6), dtype="f8")
    result = extracting.rows(Content(array), "", None, 0, None)
    assert result["stop"] == 2  # 16 MiB
    assert result["rows"][0][0]["shape"] == [10**6]
    assert len(result["rows"][0][0]["values"]) == 64
    wide = tegula.create_array({}, shape=(3, 10**9), chunks=(1, 10**6), dtype="f8")
    with pytest.raises(tegula.SelectionError, match="bytes"):
        extracting.rows(Content(wide), "", None, 0, None)


# --- statistics


def test_statistics_of_a_selection_are_those_of_numpy(url: str) -> None:
    result = ask(url, "/-/stats/t?selection=1,:,0:2").json
    values = np.arange(24.0).reshape(2, 3, 4)[1, :, 0:2]
    assert (result["min"], result["max"], result["count"]) == (values.min(), values.max(), values.size)
    assert result["mean"] == pytest.approx(values.mean())
    assert result["std"] == pytest.approx(values.std())
    assert sum(result["histogram"]["counts"]) == values.size
    assert ask(url, "/-/stats/n").json["missing"] == 1
    for wrong in ("through=x", "through=9", "through=1&selection=0,0,0", "through=100"):
        assert ask(url, f"/-/stats/t?{wrong}").status == 400
        assert ask(url, f"/-/values/t?{wrong}").status == 400
    assert ask(url, "/-/stats/t?selection=9").status == 400
    assert ask(url, "/-/stats/t?selection=a!").status == 400
    group = ask(url, "/-/stats/below")
    assert group.status == 400
    assert "name an array or a column" in group.json["error"]


def test_statistics_are_bounded() -> None:
    array = tegula.create_array({}, shape=(10**6, 10**6), chunks=(1000, 1000), dtype="f8")
    with pytest.raises(tegula.UnsupportedError, match="at most"):
        extracting.selection_statistics(Content(array), "", "")
    assert extracting.selection_statistics(Content(array), "", "0:10, 0:10")["count"] == 100


# --- downloads


@pytest.mark.parametrize("selection", ["", "...", "0", ":, 1:3, ::-1", "1, 2, 3", "0:0"])
def test_a_download_has_the_selected_values(url: str, selection: str) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    expected = {"": values, "...": values, "0": values[0], ":, 1:3, ::-1": values[:, 1:3, ::-1],
                "1, 2, 3": values[1, 2, 3], "0:0": values[0:0]}[selection]  # fmt: skip
    answer = ask(url, f"/-/values/t?format=npy&selection={quote(selection)}")
    assert answer.headers["content-disposition"] == 'attachment; filename="t.npy"'
    assert int(answer.headers["content-length"]) == len(answer.body)
    actual = np.load(io.BytesIO(answer.body))
    assert actual.dtype == values.dtype
    assert np.array_equal(actual, expected)
    as_json = ask(url, f"/-/values/t?format=json&selection={quote(selection)}").json
    assert np.array_equal(np.array(as_json).reshape(expected.shape), expected)


def test_downloads_of_tables(table_url: str, url: str) -> None:
    text = ask(table_url, "/-/values/?format=csv&selection=5:7").body.decode()
    assert [*csv.reader(io.StringIO(text))] == [["n", "x", "s"], ["5", "2.5", "r5"], ["6", "3.0", "r6"]]
    assert ask(url, "/-/values/t?format=csv").status == 422  # three dimensions
    assert ask(url, "/-/values/t?format=exe").status == 400
    assert ask(url, "/-/values/below/names?format=npy").status == 422
    assert ask(url, "/-/values/t?format=npy", "HEAD").body == b""


@pytest.mark.slow
def test_large_downloads_come_in_blocks() -> None:
    array = tegula.create_array({}, shape=(5000, 5000), chunks=(100, 5000), dtype="f8")
    array[4999, 4999] = 7
    with tegula.serve(array, port=0) as server:
        answer = ask(server.url, "/-/values/?format=npy")
    assert np.load(io.BytesIO(answer.body))[-1, -1] == 7


def test_a_path_that_begins_with_a_slash_is_below_the_node() -> None:
    root = tegula.create_group({})
    root["x"], root["g/x"] = [1, 2], [3, 4, 5]
    with tegula.serve(root["g"], path="/x", port=0) as server:
        answer = ask(server.url, "/-/values/?format=npy")
    assert np.load(io.BytesIO(answer.body)).tolist() == [3, 4, 5]


QUANTIZE = {"name": "numcodecs.quantize", "configuration": {"digits": 3, "dtype": "<f8", "astype": "<f4"}}


@pytest.mark.parametrize("below", ["", "as/float32/"])
@pytest.mark.parametrize("options", [{"format": "bcolz"}, {"format": "zarr2", "codecs": [QUANTIZE]}])
def test_small_chunks_are_converted_at_once(options: dict[str, Any], below: str) -> None:
    array = tegula.create_array({}, data=np.arange(130.0), chunks=60, **options)
    client = Client(array)
    headers, quick = [(b"host", b"x")], client.application.quick
    assert quick(f"/{below}c/0", headers, None) is None  # the documents have not been looked at
    shown = {name: client.ask(f"/{below}{name}").body for name in ("zarr.json", "c/0")}
    for name in ("c/0", "c/1", "c/2"):
        client.application._slow_until = 0.0
        reply = quick(f"/{below}{name}", headers, None)
        assert reply is not None
        assert reply.body == shown.setdefault(name, reply.body)
    assert np.array_equal(tegula.open(shown)[...], np.arange(130.0))
    array.append([7.0] * 60)
    client.application._slow_until = 0.0
    assert quick(f"/{below}c/0", headers, None) is None


def test_chunks_that_take_long_are_left_to_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(tegula.create_array({}, data=np.arange(9.0), chunks=3, format="zarr2", codecs=[QUANTIZE]))
    whole = client.ask("/c/0")
    show = ShownArray.show

    def slow(self: ShownArray, *args: Any, **kwargs: Any) -> bytes:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        return show(self, *args, **kwargs)

    monkeypatch.setattr(ShownArray, "show", slow)
    headers = [(b"host", b"x")]
    assert client.application.quick("/c/1", headers, None) is not None
    assert client.application.quick("/c/2", headers, None) is None
    assert client.ask("/c/0") == whole
