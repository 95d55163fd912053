"""A stand-in for Google Cloud Storage: its XML API, as much of it as object stores use, with generations.

Each write gives a new generation, also one of the same bytes; the ETag is the MD5 of the value, as in the real XML API.
One request is carried out after another, so conditions hold exactly.
"""

import argparse
import hashlib
import itertools
import json
import time
import urllib.request
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import unquote
from xml.etree import ElementTree

from tests.servers.buckets import Bucket, Server, new_name
from tests.servers.process import ServerProcess
from tests.servers.wire import Request, Response, precondition, serve, value_response


class Gcs(Server):
    """A server of the stand-in.

    Parameters
    ----------
    page : int
        How many keys and prefixes a page of a listing has at most.
    """

    def __init__(self, *, page: int = 1000) -> None:
        super().__init__(ServerProcess(["tests.servers.gcs", "--page", str(page)]))

    def bucket(self) -> Bucket:
        """Make a new and empty bucket."""
        name = new_name()
        # an account without a key, and tokens that nothing checks: obstore needs some credentials
        account = {"gcs_base_url": self.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
        account["private_key_id"] = ""
        with urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT"), timeout=30):
            return Bucket(f"gs://{name}", self.endpoint, {"service_account_key": json.dumps(account)}, name)


@dataclass
class Stored:
    """A value with its generation."""

    value: bytes
    generation: int
    content_type: str
    metadata: list[tuple[str, str]] = field(default_factory=list)
    modified: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.etag = f'"{hashlib.md5(self.value).hexdigest()}"'

    @property
    def headers(self) -> list[tuple[str, str]]:
        """What each answer about the value says."""
        return [
            ("ETag", self.etag),
            ("x-goog-generation", str(self.generation)),
            ("Last-Modified", formatdate(self.modified, usegmt=True)),
            ("Content-Type", self.content_type),
            *self.metadata,
        ]


class Objects:
    """The buckets and the answers to requests."""

    def __init__(self, page: int) -> None:
        self._page = page
        self._buckets: dict[str, dict[str, Stored]] = {}
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._generations = itertools.count(time.time_ns() // 1000)

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        name, _, key = request.target.partition("?")[0].lstrip("/").partition("/")
        bucket, key = self._buckets.get(unquote(name)), unquote(key)
        if not key and request.method == "PUT":
            self._buckets.setdefault(unquote(name), {})
            return Response(200)
        if bucket is None:
            return _error(404, "NoSuchBucket")
        if not key:
            return self._list(bucket, request.query)
        if "uploads" in request.query or "uploadId" in request.query:
            return self._multipart(bucket, key, request)
        if request.method == "PUT":
            return self._put(bucket, key, request)
        return self._existing(bucket, key, request)

    def _put(self, bucket: dict[str, Stored], key: str, request: Request) -> Response:
        if refused := _generation_condition(request, bucket.get(key)):
            return refused
        source = request.head.fields.get("x-goog-copy-source")
        if source is None:
            return Response(200, self._store(bucket, key, request.body, request).headers)
        from_bucket, _, from_key = source.lstrip("/").partition("/")
        copied = self._buckets.get(unquote(from_bucket), {}).get(unquote(from_key))
        if copied is None:
            return _error(404, "NoSuchKey")
        stored = self._store(bucket, key, copied.value, request)
        return _document("CopyObjectResult", {"ETag": stored.etag}, stored.headers)

    def _existing(self, bucket: dict[str, Stored], key: str, request: Request) -> Response:
        """Answer GET, HEAD and DELETE."""
        stored = bucket.get(key)
        if refused := _generation_condition(request, stored):
            return refused
        if stored is None or request.query.get("generation", str(stored.generation)) != str(stored.generation):
            return _error(404, "NoSuchKey")
        if status := precondition(request, stored.etag):
            return Response(status, stored.headers) if status == 304 else _error(status, "PreconditionFailed")
        if request.method == "DELETE":
            del bucket[key]
            return Response(204)
        return value_response(request, len(stored.value), lambda a, b: stored.value[a:b], stored.headers)

    def _multipart(self, bucket: dict[str, Stored], key: str, request: Request) -> Response:
        if request.method == "POST" and "uploads" in request.query:
            upload = f"upload-{next(self._generations)}"
            self._uploads[upload] = {}
            return _document("InitiateMultipartUploadResult", {"Bucket": "", "Key": key, "UploadId": upload})
        upload = request.query.get("uploadId", "")
        parts = self._uploads.get(upload)
        if parts is None:
            return _error(404, "NoSuchUpload")
        if request.method == "PUT":
            parts[int(request.query["partNumber"])] = request.body
            return Response(200, [("ETag", f'"{hashlib.md5(request.body).hexdigest()}"')])
        if request.method == "DELETE":
            del self._uploads[upload]
            return Response(204)
        wanted = [
            int(part.text or "") for part in ElementTree.fromstring(request.body).iterfind("{*}Part/{*}PartNumber")
        ]
        if not wanted or any(number not in parts for number in wanted):
            return _error(400, "InvalidPart")
        stored = self._store(bucket, key, b"".join(parts[number] for number in wanted), request)
        del self._uploads[upload]
        return _document("CompleteMultipartUploadResult", {"Key": key, "ETag": stored.etag}, stored.headers)

    def _store(self, bucket: dict[str, Stored], key: str, value: bytes, request: Request) -> Stored:
        content_type = request.head.fields.get("content-type", "application/octet-stream")
        metadata = [(name, text) for name, text in request.head.headers if name.lower().startswith("x-goog-meta-")]
        bucket[key] = Stored(value, next(self._generations), content_type, metadata)
        return bucket[key]

    def _list(self, bucket: dict[str, Stored], query: dict[str, str]) -> Response:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = max(query.get("continuation-token", ""), query.get("start-after", ""))
        limit = min(self._page, int(query.get("max-keys", self._page)))

        # what a page may hold: keys, and prefixes that stand for all keys that begin with them
        names: dict[str, Stored | None] = {}
        for key in sorted(bucket):
            if key.startswith(prefix):
                child, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
                names[prefix + child + found if found else key] = None if found else bucket[key]
        remaining = [name for name in names if name > after]

        answer = ElementTree.Element("ListBucketResult")
        for name in remaining[:limit]:
            stored = names[name]
            entry = ElementTree.SubElement(answer, "CommonPrefixes" if stored is None else "Contents")
            if stored is None:
                _fields(entry, {"Prefix": name})
                continue
            modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stored.modified))
            size, generation = str(len(stored.value)), str(stored.generation)
            _fields(
                entry,
                {"Key": name, "Generation": generation, "LastModified": modified, "ETag": stored.etag, "Size": size},
            )
        more = len(remaining) > limit
        _fields(answer, {"IsTruncated": str(more).lower()})
        if more:
            _fields(answer, {"NextContinuationToken": remaining[limit - 1]})
        return _xml(200, answer)


def _generation_condition(request: Request, stored: Stored | None) -> Response | None:
    expected = request.head.fields.get("x-goog-if-generation-match")
    present = stored.generation if stored else 0
    return None if expected is None or int(expected) == present else _error(412, "PreconditionFailed")


def _fields(element: ElementTree.Element, values: dict[str, str]) -> None:
    for name, text in values.items():
        ElementTree.SubElement(element, name).text = text


def _xml(status: int, element: ElementTree.Element, headers: list[tuple[str, str]] | None = None) -> Response:
    others = [(name, value) for name, value in headers or [] if name != "Content-Type"]
    return Response(status, [*others, ("Content-Type", "application/xml")], ElementTree.tostring(element))


def _document(name: str, values: dict[str, str], headers: list[tuple[str, str]] | None = None) -> Response:
    element = ElementTree.Element(name)
    _fields(element, values)
    return _xml(200, element, headers)


def _error(status: int, code: str) -> Response:
    element = ElementTree.Element("Error")
    _fields(element, {"Code": code, "Message": code})
    return _xml(status, element)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=int, default=1000)
    serve(Objects(parser.parse_args().page).answer)
