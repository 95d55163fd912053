"""URLs of object storage, and the options that belong to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tegula.optional import library
from tegula.stores.object_store import ObjectStore

__all__ = ["SCHEMES", "open_url"]

SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "http", "https")
"""The schemes that `open_url` knows."""

_OURS = ("missing", "concurrency")
_CLIENT = ("allow_http", "timeout", "connect_timeout", "proxy_url")


def open_url(url: str, options: Mapping[str, Any] | None = None, read_only: bool = False) -> ObjectStore:
    """Open object storage by its URL."""
    options = dict(options or {})
    stores = library("obstore.store")
    ours = {name: options.pop(name) for name in _OURS if name in options}
    client = {name: options.pop(name) for name in _CLIENT if name in options}
    if str(options.get("endpoint", "")).startswith("http:") or url.startswith("http:"):
        client.setdefault("allow_http", True)
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        return ObjectStore(stores.HTTPStore(url, client_options=client), read_only=True, **ours)
    scheme = {"gcs": "gs", "s3a": "s3"}.get(parts.scheme, parts.scheme)
    store = stores.from_url(f"{scheme}://{parts.netloc}", config=options, client_options=client)
    return ObjectStore(store, parts.path, read_only=read_only, **ours)
