"""The rules of RFC 9110 for requests of values, one by one, over a socket, for stored and for made values."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.server.asking import Answer, ask

import tegula

pytestmark = pytest.mark.once(executors="both")

SIZE = 700_000  # more than two blocks
# an origin keeps the server from answering at once, as it does on the shortest way
WAYS = [{}, {"origin": "http://localhost:1"}]
CHUNK = "/stored/c/0"


@pytest.fixture(scope="module", params=["local", "memory", "zip"])
def server(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("served")
    target: Any = {"local": folder / "g.zarr", "memory": {}, "zip": folder / "g.zip"}[request.param]
    with tegula.create_group(target) as group:
        values = np.random.default_rng(0).integers(0, 256, SIZE).astype("u1")
        group.create_array("stored", shape=2 * SIZE, chunks=SIZE, dtype="u1", codecs=[])[:SIZE] = values
        group.create_array("empty", shape=(2, 2), dtype="u1")
        group.create_array("shards", shape=(64, 64), chunks=(8, 8), shards=(32, 32), dtype="f8")[...] = 1.5
        # chunks that Zarr v3 can't describe are decoded and encoded again; no group of Zarr v3 gets such a member
        created = tegula.create_array({}, shape=100, chunks=60, dtype="f8", format="bcolz")
        created[:] = np.arange(100)
        for key in created.store.list():
            group.store.set(f"made/{key}", created.store.get(key))
        with tegula.serve(group, port=0) as running:
            ask(running.url, "/stored/zarr.json")  # a value is answered at once if its array is known
            yield running


@pytest.fixture(params=WAYS, ids=["at-once", "by-a-task"])
def get(request: Any, server: Any) -> Any:
    def call(target: str = CHUNK, method: str = "GET", **headers: str) -> Answer:
        return ask(server.url, target, method, **request.param, **headers)

    return call


@pytest.fixture
def whole(server: Any) -> bytes:
    return np.random.default_rng(0).integers(0, 256, SIZE).astype("u1").tobytes()


# --- whole values


def test_a_value_is_sent_with_its_length_and_tag(get: Any, whole: bytes) -> None:
    answer = get()
    assert answer.status == 200
    assert answer.body == whole
    assert answer.headers["content-length"] == str(SIZE)
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"].startswith('"')
    assert "no-cache" in answer.headers["cache-control"]
    assert "content-range" not in answer.headers


def test_head_says_what_get_would(get: Any) -> None:
    for target in (CHUNK, "/zarr.json", "/stored/zarr.json", "/made/c/1", "/as/float32/made/c/0"):
        first, second = get(target), get(target, "HEAD")
        assert (second.status, second.body) == (200, b"")
        for name in ("content-length", "etag", "content-type", "accept-ranges"):
            assert first.headers[name] == second.headers[name], (target, name)
        assert len(first.body) == int(first.headers["content-length"])


def test_head_has_no_ranges(get: Any) -> None:
    answer = get(method="HEAD", range="bytes=0-1")
    assert (answer.status, answer.headers["content-length"]) == (200, str(SIZE))


@pytest.mark.parametrize(
    "target",
    ["/stored/c/1", "/stored/c/9", "/stored/c/00", "/empty/c/0/0", "/nothing/zarr.json", "/nothing", "/stored/x",
     "/stored/c", "/stored/c/0/0", "/.zgroup", "/stored/zarr.json/zarr.json", "/as/float32/stored/c/7",
     "/" + "x" * 3000],
)  # fmt: skip
def test_absent_keys(get: Any, target: str) -> None:
    assert get(target).status == 404
    assert get(target, if_none_match="*", if_match='"x"', range="bytes=0-").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
def test_other_methods(get: Any, method: str) -> None:
    answer = get(method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


# --- ranges


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    ("header", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=0-", 0, SIZE),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE),
        ("bytes=-1", SIZE - 1, SIZE),
        (f"bytes=-{SIZE * 9}", 0, SIZE),
        (f"bytes=5-{SIZE * 9}", 5, SIZE),
        ("bytes=262000-600000", 262000, 600001),
        ("BYTES = 1-2", 1, 3),
    ],
)
def test_single_ranges(get: Any, whole: bytes, header: str, start: int, stop: int) -> None:
    answer = get(range=header)
    assert answer.status == 206
    assert answer.body == whole[start:stop]
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{SIZE}"
    assert answer.headers["content-length"] == str(stop - start)
    assert answer.headers["etag"] == get().headers["etag"]


@pytest.mark.parametrize("header", [f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE}", "bytes=-0", "bytes=" + "9" * 5000 + "-"])
def test_ranges_beyond_the_end(get: Any, header: str) -> None:
    answer = get(range=header)
    assert answer.status == 416
    assert answer.headers["content-range"] == f"bytes */{SIZE}"
    assert answer.body == b""


@pytest.mark.parametrize(
    "header",
    ["bytes=0-1,5-6", "bytes=5-2", "bytes=", "bytes=a-b", "lines=0-1", "0-1", "bytes=1", "bytes=--1", "bytes 0-1"],
)
def test_ranges_to_ignore(get: Any, whole: bytes, header: str) -> None:
    answer = get(range=header)
    assert (answer.status, answer.body) == (200, whole)


def test_ranges_of_computed_values(get: Any) -> None:
    for target in ("/made/c/1", "/as/float32/made/c/0", "/made/zarr.json"):
        full = get(target).body
        answer = get(target, range="bytes=3-9")
        assert (answer.status, answer.body) == (206, full[3:10])
        assert get(target, range=f"bytes={len(full)}-").status == 416


# --- conditions


@pytest.mark.slow
@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize("target", [CHUNK, "/zarr.json", "/made/zarr.json", "/made/c/0", "/as/float64/stored/c/0"])
def test_conditional_requests(get: Any, target: str) -> None:
    tag = get(target).headers["etag"]
    for known in (tag, f"W/{tag}", "*", f'"other", {tag}'):
        answer = get(target, if_none_match=known)
        assert (answer.status, answer.body) == (304, b""), known
        assert answer.headers["etag"] == tag
        assert "cache-control" in answer.headers
        assert get(target, "HEAD", if_none_match=known).status == 304
    assert get(target, if_none_match='"other"').status == 200
    assert get(target, if_match=tag).status == 200
    assert get(target, if_match="*").status == 200
    for wrong in ('"other"', f"W/{tag}"):
        assert get(target, if_match=wrong).status == 412
    assert get(target, if_match='"other"', if_none_match=tag).status == 412
    assert get(target, if_none_match=tag, range="bytes=0-1").status == 304


@pytest.mark.parametrize("target", [CHUNK, "/made/c/0"])
def test_ranges_of_one_state(get: Any, target: str) -> None:
    tag = get(target).headers["etag"]
    assert get(target, range="bytes=0-1", if_range=tag).status == 206
    for wrong in ('"other"', f"W/{tag}", "Tue, 24 Nov 2026 00:00:00 GMT", "*"):
        assert get(target, range="bytes=0-1", if_range=wrong).status == 200
    assert get(target, range=f"bytes={SIZE}-", if_range='"other"').status == 200


def test_a_tag_changes_with_the_value(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "a.zarr", shape=4, chunks=2, dtype="u1", codecs=[])
    array[:] = 1
    with tegula.serve(array, port=0) as server:
        document = ask(server.url, "/zarr.json").headers["etag"]
        first = ask(server.url, "/c/0")
        array[:] = 2
        second = ask(server.url, "/c/0", if_none_match=first.headers["etag"])
        assert (second.status, second.body) == (200, b"\2\2")
        array.resize(6)
        assert ask(server.url, "/zarr.json", if_none_match=document).status == 200
        array[:2] = 0  # the chunk is deleted
        assert ask(server.url, "/c/0").status == 404


def test_casts_have_tags_of_their_own(server: Any) -> None:
    tags = {ask(server.url, f"{to}/made/c/0").headers["etag"] for to in ("", "/as/float32", "/as/int8", "/as/float64")}
    assert len(tags) == 4


def test_a_missing_value_may_be_an_empty_answer(server: Any) -> None:
    """Browsers note other answers as errors, and chunks that are not stored are none."""
    for target in ("/made/c/99", "/nosuch/zarr.json", "/as/float32/made/c/99", "/-/as/float32/made/c/99"):
        assert ask(server.url, target).status == 404
        answer = ask(server.url, target, prefer="missing=empty")
        assert (answer.status, answer.body, answer.headers["preference-applied"]) == (204, b"", "missing=empty")
        assert ask(server.url, target, prefer="respond-async").status == 404
    assert ask(server.url, CHUNK, prefer="missing=empty").body == ask(server.url, CHUNK).body
    assert ask(server.url, "/-/info/nosuch", prefer="missing=empty").status == 404


# --- other sites


def test_pages_of_other_sites(server: Any) -> None:
    for origin in ("https://example.org", "http://localhost:8888", "http://127.0.0.1:1", "null", server.url):
        for target in (CHUNK, "/", "/-/info/", "/-/values/made", "/nosuch"):
            answer = ask(server.url, target, origin=origin)
            assert "access-control-allow-origin" not in answer.headers
            asked = {"access_control_request_method": "GET", "access_control_request_headers": "range"}
            preflight = ask(server.url, target, "OPTIONS", origin=origin, **asked)
            assert preflight.status == 400
            assert "access-control-allow-origin" not in preflight.headers


@pytest.mark.parametrize("given", ["https://example.org", "https://Example.org/", "https://example.org:*", "*"])
def test_pages_that_may_read(given: str) -> None:
    with tegula.serve(tegula.create_group({}), port=0, allow_origins=(given,)) as server:
        for origin, allowed in (("https://example.org", True), ("https://example.org:8", given.endswith("*")),
                                ("https://example.com", given == "*"), ("https://example.org.evil.com", given == "*"),
                                ("https://example.org:8.evil.com", given == "*")):  # fmt: skip
            answer = ask(server.url, "/zarr.json", origin=origin)
            assert answer.headers.get("access-control-allow-origin") in ((origin, "*") if allowed else (None,))
            if not allowed:
                continue
            exposed = answer.headers["access-control-expose-headers"].lower()
            assert all(name in exposed for name in ("content-range", "etag", "content-length"))
            asked = {"access_control_request_method": "GET", "access_control_request_headers": "range"}
            preflight = ask(server.url, "/zarr.json", "OPTIONS", origin=origin, **asked)
            assert preflight.status == 200
            assert "range" in preflight.headers["access-control-allow-headers"].lower()


# --- names


def test_any_name_of_a_member() -> None:
    group = tegula.create_group({})
    for name in ("as", "-", "a b", "ä%20?#&", "page", "c", "zarr", "..x"):
        group[name] = np.arange(3, dtype="u1")
    with tegula.serve(group, port=0) as server:
        for name in group:
            assert ask(server.url, f"/{quote(name)}/zarr.json").status == 200, name
            assert ask(server.url, f"/{quote(name)}/c/0").status == 200, name
            assert ask(server.url, f"/-/as/int32/{quote(name)}/c/0").status == 200, name
        assert ask(server.url, "/as/int32/a%20b/zarr.json").status == 404  # the member comes first


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_only_what_belongs_to_the_node_is_served(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    group = tegula.create_group(tmp_path / "g.zarr")
    group["x"] = np.arange(3, dtype="u1")
    other = tegula.create_group(tmp_path / "other.zarr")
    other["x"] = np.arange(3, dtype="u1")
    (tmp_path / "g.zarr" / "notes.txt").write_text("secret")
    os.symlink(tmp_path / "other.zarr", tmp_path / "g.zarr" / "link")
    os.symlink(secret, tmp_path / "g.zarr" / "x" / "c" / "1")
    hostile = ["/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/x/../../secret.txt", "/notes.txt",
               "//etc/passwd", "/link/zarr.json", "/link/x/c/0", "/x/c/1", "/%00", "/x%00/zarr.json",
               "/-/page/../application.py",
               "/-/page/%2e%2e/application.py", "/-/page//etc/passwd", "/..\\secret.txt", "/-/info/../other.zarr",
               "/-/rows/%2e%2e/other.zarr/x", "/-/values/..%2fother.zarr/x", "/as/../secret.txt"]  # fmt: skip
    with tegula.serve(group, port=0) as server:
        assert ask(server.url, "/x/c/0").status == 200
        for target in hostile:
            answer = ask(server.url, target)
            assert 400 <= answer.status < 500 or answer.status == 502, target
            assert b"secret" not in answer.body.replace(b"secret.txt", b""), target
    with tegula.serve(group["x"], port=0) as server:
        assert ask(server.url, "/../zarr.json").status == 404
