"""Secrets kept out of messages: user info and queries of URLs, and the values of settings that hold credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

__all__ = ["bare_url", "plain_url", "redacted"]

_USER_INFO = re.compile(r"(?<=://)[^/?#\s'\"]+@")
_QUERY = re.compile(r"(\w://[^\s'\"<>?]*)\?[^\s'\"<>]*")
_SECRET_NAME = re.compile(
    r"key|secret|token|passw|pwd|credential|sas|auth|signature|username|cookie", re.IGNORECASE
).search
_HIDDEN = "***"


def bare_url(url: str) -> str:
    """Return the URL of a server without user, password, query and fragment.

    Examples
    --------
    >>> bare_url("https://user:secret@example.org:8000/data/?signature=secret#x")
    'https://example.org:8000/data'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def plain_url(url: str) -> str:
    """Return a URL, or a chain of URLs, without user info and queries.

    Examples
    --------
    >>> plain_url("simplecache::https://me:word@host/a b/x.zarr?sig=abc")
    'simplecache::https://host/a b/x.zarr'
    """
    return "::".join(link.partition("?")[0] for link in _USER_INFO.sub("", url).split("::"))


def redacted(text: str, options: Any = None) -> str:
    """Return a text without the user info and queries of URLs in it, and without secrets among storage options.

    Examples
    --------
    >>> redacted("no https://me:word@host/x.zarr?sig=abc", {})
    'no https://host/x.zarr'
    >>> redacted("denied to abcdef", {"client_kwargs": {"aws_secret_access_key": "abcdef"}})
    'denied to ***'
    """
    for secret in sorted({*_secrets(options)}, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return _QUERY.sub(r"\1", _USER_INFO.sub("", text))


def _secrets(options: Any, named: bool = False) -> Iterator[str]:
    if isinstance(options, Mapping):
        for name, value in options.items():
            yield from _secrets(value, named or _SECRET_NAME(str(name)) is not None)
    elif isinstance(options, (list, tuple)):
        for value in options:
            yield from _secrets(value, named)
    elif named and isinstance(options, str) and len(options) > 3:
        yield options
