"""Kinds of key-value stores: their members with defaults, their resources, and their URLs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from tegula.tensorstore.errors import invalid, quoted, status
from tegula.tensorstore.json.binding import MISSING, array_of, boolean, one_of, optional, string
from tegula.tensorstore.kvstore.paths import decode_url_path, encode_url_path, split_url

__all__ = [
    "FILE",
    "GCS",
    "HTTP",
    "KINDS",
    "S3",
    "SCHEMES",
    "ZIP",
    "Kind",
    "location_of_url",
    "url_of",
    "with_base_path",
]


@dataclass(frozen=True)
class Kind:
    """One kind of key-value store.

    Attributes
    ----------
    name, scheme : str
        The name of its driver, and the scheme of its URLs.
    resources : tuple of str
        Names of its resources.
    members : mapping of str to (reader, default)
        Its members; a default of ``None`` is never written, and ``MISSING`` marks a required member.
    adapter : bool
        Whether a value of another store contains it.
    """

    name: str
    scheme: str
    resources: tuple[str, ...]
    members: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    adapter: bool = False


_BUCKET: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{1,220})[a-z0-9]").fullmatch


def _bucket(service: str, value: Any) -> str:
    name = string(value)
    if not _BUCKET(name) or ".." in name:
        raise invalid(f"Invalid {service} bucket name: {quoted(name)}")
    return name


def _base_url(value: Any) -> str:
    parts = urlsplit(string(value))
    if parts.scheme not in ("http", "https"):
        raise invalid(f'Expected scheme of "http" or "https" but received: {quoted(parts.scheme)}')
    if parts.fragment:
        raise invalid("Fragment identifier not supported")
    return str(value)


_MEMORY = Kind("memory", "memory://", ("memory_key_value_store",), {"atomic": (boolean, True)})
FILE: Final = Kind(
    "file",
    "file://",
    ("file_io_concurrency", "file_io_locking", "file_io_mode", "file_io_retries", "file_io_sync"),
)
_COMPRESSIONS = ("store", "deflate", "zstd", "xz")
ZIP: Final = Kind(
    "zip",
    "zip:",
    ("cache_pool", "data_copy_concurrency"),
    {"compression": (lambda value: one_of(value, _COMPRESSIONS), "deflate")},
    adapter=True,
)
S3: Final = Kind(
    "s3",
    "s3://",
    ("aws_credentials", "data_copy_concurrency", "s3_request_concurrency", "s3_request_retries"),
    {
        "bucket": (lambda value: _bucket("S3", value), MISSING),
        "requester_pays": (boolean, False),
        "endpoint": (optional(string), None),
        "host_header": (optional(string), None),
        "aws_region": (string, ""),
        "use_conditional_write": (optional(boolean), None),
    },
)
GCS: Final = Kind(
    "gcs",
    "gs://",
    ("data_copy_concurrency", "gcs_request_concurrency", "gcs_request_retries", "gcs_user_project"),
    {"bucket": (lambda value: _bucket("GCS", value), MISSING)},
)
HTTP: Final = Kind(
    "http",
    "http://",
    ("data_copy_concurrency", "http_request_concurrency", "http_request_retries"),
    {"base_url": (_base_url, MISSING), "headers": (lambda value: array_of(value, string), [])},
)
KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (_MEMORY, FILE, ZIP, S3, GCS, HTTP)}
SCHEMES: Final[dict[str, Kind]] = {**{kind.scheme.partition(":")[0]: kind for kind in KINDS.values()}, "https": HTTP}
"""The kinds by URL scheme."""


def with_base_path(kind: Kind, members: dict[str, Any], path: str) -> str:
    """Check that the members of a remote store are compatible; move the path of a base URL into the returned path.

    Examples
    --------
    >>> members = {"base_url": "https://host/a?b=1"}
    >>> with_base_path(HTTP, members, "c"), members
    ('/a/c', {'base_url': 'https://host?b=1'})
    """
    if members.get("host_header") is not None and members.get("endpoint") is None:
        raise invalid('"host_header" cannot be set without also setting "endpoint"')
    if kind is not HTTP:
        return path
    parts = urlsplit(members["base_url"])
    if path.startswith("/") and parts.path not in ("", "/"):
        raise invalid(
            f"Cannot specify absolute path {quoted(path)} in conjunction with base URL {quoted(members['base_url'])} "
            f"which already includes the path component {quoted(parts.path)}"
        )
    members["base_url"] = parts._replace(path="").geturl()
    if not parts.path or path.startswith("/"):
        return path
    return decode_url_path(parts.path if not path or parts.path.endswith("/") else f"{parts.path}/") + path


def location_of_url(kind: Kind, url: str) -> tuple[dict[str, Any], str]:
    """Return the members and the path for the URL of a remote store.

    Examples
    --------
    >>> location_of_url(S3, "s3://bucket/a%20b/")
    ({'bucket': 'bucket'}, 'a b/')
    >>> location_of_url(HTTP, "https://host/a?b=1")
    ({'base_url': 'https://host?b=1'}, '/a')
    """
    if kind is not HTTP:
        bucket, _, path = split_url(url, kind.scheme).partition("/")
        return {"bucket": _bucket(kind.name.upper(), bucket)}, decode_url_path(path)
    address, mark, query = url.partition("?")
    scheme, _, remainder = address.partition("://")
    host, slash, path = split_url(f"{scheme}://{remainder}", f"{scheme}://").partition("/")
    return {"base_url": _base_url(f"{scheme}://{host}{mark}{query}")}, slash + decode_url_path(path)


def url_of(kind: Kind, members: Mapping[str, Any], path: str) -> str:
    """Return the URL of a remote store; the inverse of `location_of_url`."""
    if kind is HTTP:
        address, mark, query = members["base_url"].partition("?")
        slash = "/" if path and not path.startswith("/") else ""
        return f"{address}{slash}{encode_url_path(path)}{mark}{query}"
    if members.get("endpoint") is not None:
        raise status("UNIMPLEMENTED", "S3 URL syntax not supported with explicit endpoint")
    return f"{kind.scheme}{members['bucket']}/{encode_url_path(path)}"
