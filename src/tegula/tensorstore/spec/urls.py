"""URLs and plain paths as specs. ``file:///tmp/a|zarr3:`` is a pipeline of components from the store to the array."""

from __future__ import annotations

import os
from typing import Any

from tegula.errors import TegulaError
from tegula.stores.names import ARCHIVES
from tegula.stores.targets.paths import path_text, scheme_of
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.errors import annotate, invalid, status
from tegula.tensorstore.json.binding import dump
from tegula.tensorstore.json.pointer import parse_pointer
from tegula.tensorstore.json.values import sound_text
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.specs import pipeline, spec_of_pipeline
from tegula.tensorstore.spec.interface import URL_SCHEMES, DriverSpec

__all__ = ["driver_json_of_url", "url_of"]


def driver_json_of_url(url: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON of the spec for a URL or a plain path.

    The ``auto`` driver detects the format if the URL does not specify it.

    Examples
    --------
    >>> driver_json_of_url("memory://a|json:/b")["json_pointer"]
    '/b'
    """
    if isinstance(url, os.PathLike):
        return {"driver": "auto", "kvstore": KvStore.Spec(_of_path(url))}
    if not url:
        raise invalid("URL must be non-empty")
    sound_text(url)
    try:
        where, components = pipeline(url)
        if _is_path(where):
            store = KvStore.Spec(_of_path(where))
        else:
            store, components = spec_of_pipeline(where, components)
        json: dict[str, Any] = {"driver": "auto", "kvstore": store}
        for position, (scheme, text) in enumerate(components):
            json = _adapted(json, scheme, text, is_first=not position)
    except TegulaError as error:
        raise annotate(error, f"Parsing spec from url: {dump(url)}") from None
    return json


def _is_path(text: str) -> bool:
    if scheme_of(text):
        return False
    return "/" in text or os.sep in text or text in (".", "..") or os.path.lexists(text)


def _of_path(path: str | os.PathLike[str]) -> dict[str, Any]:
    text = path_text(path)
    absolute = os.path.abspath(text)
    where = {"driver": "file", "path": absolute.replace(os.sep, "/")}
    if text.endswith(ARCHIVES) or (os.path.isfile(absolute) and not text.endswith(".json")):  # the document of a view
        return {"driver": "zip", "base": where}
    return where


def _adapted(json: dict[str, Any], scheme: str, text: str, *, is_first: bool) -> dict[str, Any]:
    """Return the JSON of a spec with that of one more component of its URL."""
    if scheme == "cast":
        return {"driver": "cast", "base": json, "dtype": dtypes.from_json(text).name}
    if scheme not in URL_SCHEMES:
        raise invalid(f"unsupported URL scheme: {dump(scheme)}")
    if not is_first:
        raise invalid(f"{dump(scheme)} must come directly after the key-value store")
    if scheme == "json":
        parse_pointer(text)
    if scheme == "auto" and text:
        raise invalid("Path not supported")
    place = {"json_pointer" if scheme == "json" else "path": text} if text else {}
    return {**json, "driver": scheme, **place}


def url_of(driver: DriverSpec) -> str:
    """Return the URL of a spec."""
    if not driver.uses_kvstore:
        raise status("UNIMPLEMENTED", "URL representation not supported")
    if driver.kvstore is None:
        raise invalid("Invalid kvstore spec")
    return f"{driver.kvstore.url}|{driver.url_suffix()}"
