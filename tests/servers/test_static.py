"""The server of files, asked by plain HTTP."""

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import obstore as obs
import pytest
from tests.servers.buckets import Bucket
from tests.servers.static import StaticServer

pytestmark = [pytest.mark.once(executors="none"), pytest.mark.slow]


@pytest.fixture
def bucket(http_server: StaticServer) -> Bucket:
    bucket = http_server.bucket()
    directory = http_server.directory(bucket)
    (directory / "a").mkdir()
    (directory / "a" / "fil é").write_bytes(b"0123456789")
    (directory / "empty").write_bytes(b"")
    return bucket


def ask(url: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send one request and return status, headers by lower-case name, and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    try:
        connection.request(method, parts.path + path, headers={n.replace("_", "-"): v for n, v in headers.items()})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


FILE = "/a/fil%20%C3%A9"


def test_values_and_their_heads(bucket: Bucket) -> None:
    status, headers, body = ask(bucket.url, FILE)
    assert (status, body, headers["content-length"]) == (200, b"0123456789", "10")
    status, of_head, body = ask(bucket.url, FILE, "HEAD")
    assert (status, of_head, body) == (200, headers, b"")
    assert ask(bucket.url, "/empty")[::2] == (200, b"")


def test_ranges(bucket: Bucket) -> None:
    status, headers, body = ask(bucket.url, FILE, Range="bytes=2-4")
    assert (status, body, headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert ask(bucket.url, FILE, Range="bytes=-3")[::2] == (206, b"789")
    assert ask(bucket.url, FILE, Range="bytes=8-99")[::2] == (206, b"89")
    status, headers, body = ask(bucket.url, FILE, Range="bytes=10-")
    assert (status, body, headers["content-range"]) == (416, b"", "bytes */10")
    assert ask(bucket.url, "/empty", Range="bytes=0-0")[0] == 416


def test_etags_change_with_the_value_and_are_conditions(http_server: StaticServer, bucket: Bucket) -> None:
    etag = ask(bucket.url, FILE)[1]["etag"]
    assert ask(bucket.url, FILE, If_None_Match=etag)[::2] == (304, b"")
    assert ask(bucket.url, FILE, If_Match=etag, Range="bytes=0-1")[::2] == (206, b"01")
    (http_server.directory(bucket) / "a" / "fil é").write_bytes(b"9876543210")
    assert ask(bucket.url, FILE)[1]["etag"] != etag
    assert ask(bucket.url, FILE, If_None_Match=etag)[::2] == (200, b"9876543210")
    assert ask(bucket.url, FILE, If_Match=etag)[0] == 412


def test_what_is_no_file_is_missing(bucket: Bucket) -> None:
    for path in ("/absent", "/a", "/a/", "", FILE + "/deeper"):
        assert ask(bucket.url, path)[0] == 404
    assert ask(bucket.url, "/../../etc/passwd")[0] == 400
    assert ask(bucket.url, "/%2e%2e/%2e%2e/etc/passwd")[0] == 400
    assert ask(bucket.url, "/new", "PUT")[0] == 405


def test_one_connection_serves_many_requests(bucket: Bucket) -> None:
    parts = urlsplit(bucket.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.connect()
    own = connection.sock
    for path, status in ((FILE, 200), ("/absent", 404), (FILE, 200)):
        connection.request("GET", parts.path + path)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    assert connection.sock is own
    connection.close()


def test_obstore_reads_it(bucket: Bucket) -> None:
    store = bucket.store("a")
    assert obs.get(store, "fil é").bytes() == b"0123456789"
    assert obs.get(store, "fil é", options={"range": {"suffix": 3}}).bytes() == b"789"
    assert obs.head(store, "fil é")["size"] == 10
    with pytest.raises(FileNotFoundError):
        obs.get(store, "absent")


def test_missing_files_can_be_forbidden_and_paths_can_move(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "key").write_bytes(b"moved")
    with StaticServer(tmp_path, missing=403, redirects={"/old/": "/new/"}) as server:
        assert ask(server.endpoint, "/absent")[0] == 403
        status, headers, _ = ask(server.endpoint, "/old/key")
        assert (status, headers["location"]) == (302, "/new/key")
        store = Bucket(f"{server.endpoint}/old", server.endpoint, {}, "old").store()
        assert obs.get(store, "key").bytes() == b"moved"
