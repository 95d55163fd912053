"""Any request at all, on any route: an answer of the right kind, and never one of status 500."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
import tegula.server

pytestmark = pytest.mark.once(executors="both")


@pytest.fixture(scope="module")
def application() -> Any:
    group = tegula.create_group({}, format="zarr2")
    group["x"] = np.arange(24.0).reshape(4, 6)
    group["a b/t"] = np.array(["2020-01-01", "NaT"], "M8[s]")
    group["rec"] = np.array([(1, 2.0)], "i4,f8")
    group.create_array("s", shape=2, dtype=str)[:] = ["a", "b"]
    group.create_array("scalar", shape=(), dtype="i4")
    table = tegula.create_table({}, {"n": [1, 2, 3], "s": ["a", "b", "c"]}, format="bcolz")
    for key in table.store.list():
        group.store.set(f"table/{key}", table.store.get(key))
    return tegula.server.app(group)


async def request(
    application: Any, method: str, path: str, query: str, headers: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": query.encode("latin-1", "replace"),
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
        "server": ("127.0.0.1", 1),
        "client": None,
        "scheme": "http",
        "http_version": "1.1",
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False} if not sent else await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    await asyncio.wait_for(application(scope, receive, send), 60)
    result = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return sent[0]["status"], result, b"".join(message.get("body", b"") for message in sent[1:])


NAMES = st.sampled_from(
    [
        "x",
        "a b",
        "t",
        "rec",
        "s",
        "scalar",
        "table",
        "n",
        "c",
        "0",
        "1",
        "zarr.json",
        ".zarray",
        "as",
        "-",
        "float32",
        "uint8",
        "..",
        "",
        "\0",
        "ä",
        "data",
        "meta",
        "sizes",
        "x" * 300,
    ]
)
ROUTES = st.sampled_from(
    [
        "",
        "-/info/",
        "-/rows/",
        "-/stats/",
        "-/values/",
        "-/tree",
        "-/page/",
        "-/as/",
        "as/float32/",
        "as/int8/",
        "-/neuroglancer/",
        "-/nosuch/",
    ]
)
PATHS = st.builds(
    lambda route, parts: f"/{route}{'/'.join(parts)}", ROUTES, st.lists(NAMES | st.text(max_size=5), max_size=5)
)
NUMBERS = st.integers(-3, 30).map(str) | st.sampled_from(["9" * 30, "", "x", "1e3", "²"])
SELECTIONS = st.sampled_from(
    ["0", "...", "0:2", "::-1", "1,2", "::0", "[", "'a'", "f0", "[f0,f1]", "-9", "0:9999999999999", ","]
)
PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        "selection": SELECTIONS | st.text(max_size=10),
        "format": st.sampled_from(["npy", "csv", "json", "exe", ""]),
        "start": NUMBERS,
        "stop": NUMBERS,
        "limit": NUMBERS,
        "after": NAMES,
        "columns": NAMES | st.text(max_size=8),
        "search": st.text(max_size=5),
        "under": NAMES,
        "list": st.just(""),
        "path": NAMES,
        "token": st.text(max_size=4),
    },
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "range": st.sampled_from(["bytes=0-1", "bytes=-3", "bytes=9999-", "bytes=5-1"]) | st.text(max_size=12),
        "if-none-match": st.sampled_from(["*", '"a"']) | st.text(max_size=12),
        "if-match": st.text(max_size=12),
        "if-range": st.text(max_size=12),
        "accept": st.sampled_from(["text/html", "application/json", "*/*"]),
        "host": st.text(max_size=12),
        "origin": st.text(max_size=12),
        "cookie": st.text(max_size=12),
        "authorization": st.text(max_size=12),
    },
)
KNOWN = {200, 206, 304, 400, 401, 404, 405, 412, 416, 422}


@given(
    method=st.sampled_from(["GET", "GET", "GET", "HEAD", "OPTIONS", "POST"]),
    path=PATHS | st.text(max_size=20).map("/{}".format),
    parameters=PARAMETERS,
    headers=HEADERS,
)
@settings(max_examples=600, deadline=None)
def test_no_request_fails(application: Any, method: str, path: str, parameters: Any, headers: Any) -> None:
    query = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in parameters.items())
    status, result, body = asyncio.run(request(application, method, path, query, headers))
    assert status in KNOWN, (status, body)
    if "content-length" in result and method != "HEAD" and status != 304:
        assert int(result["content-length"]) == len(body)
    if result.get("content-type") == "application/json" and status == 200 and method == "GET" and body:
        json.loads(body)
    if status in (206, 416):
        assert "content-range" in result
    if method == "HEAD":
        assert not body


@given(query=st.text(max_size=60), path=PATHS)
@settings(max_examples=150, deadline=None)
def test_no_query_fails(application: Any, query: str, path: str) -> None:
    assert asyncio.run(request(application, "GET", path, query, {}))[0] in KNOWN
