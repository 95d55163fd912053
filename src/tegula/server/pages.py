"""Files for browsers: the page, a plain listing where it was not built, and the client of neuroglancer."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tegula.arrays.array import Array
from tegula.errors import SelectionError, TegulaError, UnsupportedError
from tegula.optional import how_to_install
from tegula.server import facts
from tegula.server.conditions import precondition
from tegula.server.content import Content
from tegula.server.values import Reply, not_found
from tegula.showing.casting import suggested_cast

__all__ = ["asset", "neuroglancer", "page"]

_PAGE: Final = Path(__file__).parent / "page"
_MOST_LISTED: Final = 1000
_SECURITY: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
_POLICY: Final = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; worker-src 'self' blob:; "
    "script-src 'self' 'wasm-unsafe-eval' blob:; connect-src 'self' blob: data:; base-uri 'self'; object-src 'none'"
)
_OPENING: Final = """
const state = %s;
for (const layer of state.layers) layer.source = new URL("../../" + layer.source, location.href).href + "|zarr3:";
location.replace("index.html#!" + encodeURIComponent(JSON.stringify(state)));
"""
_DTYPES: Final = frozenset("uint8 int8 uint16 int16 uint32 int32 uint64 float32".split())


def page(content: Content, path: str) -> Reply:
    """Return the page for a node, or a plain listing where the page was not built."""
    up = "../" * path.count("/") or "./"
    index = _PAGE / "index.html"
    if index.is_file():
        text = index.read_text(encoding="utf-8").replace("<head>", f'<head><base href="{up}">', 1)
    else:
        text = _listing(content, path, up)
    body = text.encode()
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-length": str(len(body)),
        "cache-control": "no-cache",
        "vary": "Accept",
        "content-security-policy": _POLICY,
        **_SECURITY,
    }
    return Reply(200, headers, body)


def _listing(content: Content, path: str, up: str) -> str:
    """Return a page without scripts: the members of a node, or its facts."""
    try:
        found = facts.listing(content, path, "", _MOST_LISTED)
    except TegulaError as error:
        found = {"error": facts.message(error), "members": []}
    rows = []
    for member in found.pop("members"):
        href = up + quote(f"{path}/{member['name']}".lstrip("/"))
        shape = " × ".join(map(str, member.get("shape", [])))
        cells = [escape(str(cell)) for cell in (member["kind"], shape, member.get("dtype", ""))]
        cells.insert(0, f'<a href="{href}">{escape(member["name"])}</a>')
        rows.append("".join(f"<td>{cell}</td>" for cell in cells))
    known = json.dumps(found, indent=1, ensure_ascii=False)
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    title = escape(f"/{path}")
    return (
        f'<!doctype html><html lang="en"><head><base href="{up}"><meta charset="utf-8"><title>{title}</title></head>'
        f'<body><h1>{title}</h1><p><a href="{up}">/</a></p><table>{table}</table><pre>{escape(known)}</pre></body>'
        "</html>"
    )


def asset(name: str, headers: Mapping[str, str]) -> Reply:
    """Return a file of the page."""
    return _file(_PAGE, name, headers)


@cache
def _digest(path: Path, changed: int) -> str:
    return f'"{blake2b(path.read_bytes(), digest_size=12).hexdigest()}"'


def _file(folder: Path, name: str, headers: Mapping[str, str]) -> Reply:
    """Return a file directly or indirectly in a folder of a package; never one outside of it."""
    if not name or "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        return not_found()
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            return not_found()
        tag = _digest(path, path.stat().st_mtime_ns)
        kind = "text/javascript" if path.suffix in (".js", ".mjs") else mimetypes.guess_type(path.name)[0]
        known = {"etag": tag, "cache-control": "no-cache", **_SECURITY}
        status = precondition(headers, tag)
        if status is not None:
            return Reply(status, known)
        body = path.read_bytes()
    except OSError:  # a name that is too long
        return not_found()
    known["content-type"] = kind or "application/octet-stream"
    return Reply(200, {**known, "content-length": str(len(body))}, body)


def neuroglancer(content: Content, name: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
    """Return a file of neuroglancer's client, or with ``open?path=`` a redirection to it that shows an array."""
    folder = _client()
    if folder is None:
        raise UnsupportedError(f"the package neuroglancer is not installed: {how_to_install('neuroglancer')}")
    if name != "open":
        return _file(folder, name or "index.html", headers)
    path = query.get("path", "").strip("/")
    node = content.open(path)
    if not isinstance(node, Array):
        raise SelectionError("neuroglancer shows arrays, and this is none", path=f"/{path}")
    # neuroglancer wants a whole URL, which a server behind a proxy does not know
    script = _OPENING % json.dumps(_state(node, path)).replace("<", "\\u003c")
    body = f"<!doctype html><meta charset='utf-8'><title>neuroglancer</title><script>{script}</script>".encode()
    known = {"content-type": "text/html; charset=utf-8", "content-length": str(len(body)), "cache-control": "no-store"}
    return Reply(200, {**known, **_SECURITY}, body)


def _state(array: Array, path: str) -> dict[str, Any]:
    """Return the state of neuroglancer's client that shows an array."""
    to = suggested_cast(array.metadata.data_type)
    if to is None or not 0 < array.ndim <= 8:
        raise UnsupportedError(f"neuroglancer can't show {array.ndim} axes of {array.metadata.data_type}")
    plain = array.format == "zarr3" and str(array.dtype) in _DTYPES
    to = "float32" if to == "float64" else to
    source = quote(path) if plain else f"-/as/{to}/{quote(path)}"
    return {
        "layers": [{"type": "image", "name": array.name or "array", "source": f"{source}/"}],
        "layout": "4panel" if array.ndim >= 3 else "xy",
    }


def _client() -> Path | None:
    """Return the folder of neuroglancer's client, if the package is installed; it is not imported, which takes long."""
    spec = find_spec("neuroglancer")
    places = [] if spec is None else [*(spec.submodule_search_locations or [])]
    found = [Path(place) / "static" / "client" for place in places]
    return next((folder for folder in found if (folder / "index.html").is_file()), None)
