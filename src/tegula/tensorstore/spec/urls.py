"""URLs and plain paths as specs. ``file:///tmp/a|zarr3:`` is a pipeline of components from the store to the array."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from tegula.stores.names import ARCHIVES
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.errors import StatusError, annotate, invalid, status
from tegula.tensorstore.json.binding import dump
from tegula.tensorstore.json.pointer import parse_pointer
from tegula.tensorstore.json.values import sound_text
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.specs import ADAPTERS as STORE_ADAPTERS
from tegula.tensorstore.kvstore.specs import ROOTS
from tegula.tensorstore.spec.interface import URL_SCHEMES, DriverSpec

__all__ = ["driver_json_of_url", "url_of"]

_ADAPTERS: Final = frozenset(("cast",))
_ARRAYS: Final = frozenset(URL_SCHEMES) - _ADAPTERS - {"array"}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # a single letter is a Windows drive


def driver_json_of_url(url: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON of the spec for a URL or a plain path.

    The ``auto`` driver detects the format if the URL does not specify it.

    Examples
    --------
    >>> driver_json_of_url("memory://a|json:/b")["json_pointer"]
    '/b'
    """
    if isinstance(url, os.PathLike):
        return {"driver": "auto", "kvstore": KvStore.Spec(_of_path(os.fspath(url)))}
    if not url:
        raise invalid("URL must be non-empty")
    sound_text(url)
    path, *components = url.split("|")
    where = KvStore.Spec(_of_path(path)) if _is_path(path) else None
    try:
        if where is None:
            return _of_pipeline([path, *components])
        return _with_arrays({"driver": "auto", "kvstore": where}, components)
    except StatusError as error:
        raise annotate(error, f"Parsing spec from url: {dump(url)}") from None


def _is_path(text: str) -> bool:
    if _SCHEME.match(text):
        return False
    return "/" in text or os.sep in text or text in (".", "..") or os.path.lexists(text)


def _of_path(path: str) -> dict[str, Any]:
    absolute = os.path.abspath(os.path.expanduser(path))
    where = {"driver": "file", "path": absolute.replace(os.sep, "/")}
    if path.endswith(ARCHIVES) or (os.path.isfile(absolute) and not path.endswith(".json")):  # the document of a view
        return {"driver": "zip", "base": where}
    return where


def _scheme(component: str) -> str:
    return component.partition(":")[0]


def _of_pipeline(components: list[str]) -> dict[str, Any]:
    first = _scheme(components[0])
    if first in _ADAPTERS or first in _ARRAYS:
        raise invalid(f"A URL can't begin with {dump(components[0])}")
    count = next((i for i, part in enumerate(components) if _scheme(part) in _ADAPTERS | _ARRAYS), len(components))
    for scheme, known in zip(map(_scheme, components[:count]), (ROOTS, *[STORE_ADAPTERS] * count)):
        if scheme not in known:
            raise invalid(f"unsupported URL scheme: {dump(scheme)}")
    where = KvStore.Spec("|".join(components[:count]))
    return _with_arrays({"driver": "auto", "kvstore": where}, components[count:])


def _with_arrays(json: dict[str, Any], components: list[str]) -> dict[str, Any]:
    """Return the JSON of the spec for the components after those of the kvstore."""
    for position, component in enumerate(components):
        scheme = _scheme(component)
        if scheme in _ADAPTERS:
            json = {
                "driver": "cast",
                "base": json,
                "dtype": _inside(component, lambda _, name: dtypes.from_json(name).name),
            }
        elif scheme not in _ARRAYS:
            raise invalid(f"unsupported URL scheme: {dump(scheme)}")
        elif position:
            raise invalid(f"{dump(component)} must come directly after the key-value store")
        else:
            json = {**json, **_inside(component, _of_array)}
    return json


def _inside(component: str, read: Callable[[str, str], Any]) -> Any:
    """Read the part of a component after its scheme."""
    try:
        text = component.partition(":")[2]
        for mark, what in (("?", "Query string"), ("#", "Fragment identifier")):
            if mark in text:
                raise invalid(f"{what} not supported")
        return read(_scheme(component), unquote(text))
    except StatusError as error:
        raise annotate(error, f"Invalid TensorStore URL component {dump(component)}") from None


def _of_array(scheme: str, text: str) -> dict[str, Any]:
    json: dict[str, Any] = {"driver": URL_SCHEMES[scheme]}
    if scheme == "json":
        parse_pointer(text)
        return {**json, "json_pointer": text} if text else json
    if scheme == "auto" and text:
        raise invalid("Path not supported")
    return {**json, "path": text} if text else json


def url_of(driver: DriverSpec) -> str:
    """Return the URL of a spec."""
    if not driver.uses_kvstore:
        raise status("UNIMPLEMENTED", "URL representation not supported")
    if driver.kvstore is None:
        raise invalid("Invalid kvstore spec")
    return f"{driver.kvstore.url}|{driver.url_suffix()}"
