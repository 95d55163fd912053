"""Files for browsers: the page, or a plain listing if it was not built."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tegula.errors import TegulaError
from tegula.server import facts
from tegula.server.conditions import precondition
from tegula.server.content import Content
from tegula.server.values import Reply, not_found

__all__ = ["asset", "file_reply", "page"]

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


def page(content: Content, path: str) -> Reply:
    """Return the page for a node, or a plain listing if the page was not built."""
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
        node_facts = facts.listing(content, path, "", _MOST_LISTED)
    except TegulaError as error:
        node_facts = {"error": facts.message(error), "members": []}
    rows = []
    for member in node_facts.pop("members"):
        href = up + quote(f"{path}/{member['name']}".lstrip("/"))
        shape = " × ".join(map(str, member.get("shape", [])))
        cells = [escape(str(cell)) for cell in (member["kind"], shape, member.get("dtype", ""))]
        cells.insert(0, f'<a href="{href}">{escape(member["name"])}</a>')
        rows.append("".join(f"<td>{cell}</td>" for cell in cells))
    text = json.dumps(node_facts, indent=1, ensure_ascii=False)
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    title = escape(f"/{path}")
    return (
        f'<!doctype html><html lang="en"><head><base href="{up}"><meta charset="utf-8"><title>{title}</title></head>'
        f'<body><h1>{title}</h1><p><a href="{up}">/</a></p><table>{table}</table><pre>{escape(text)}</pre></body>'
        "</html>"
    )


def asset(name: str, headers: Mapping[str, str]) -> Reply:
    """Return a file of the page."""
    return file_reply(_PAGE, name, headers)


@cache
def _digest(path: Path, changed: int) -> str:
    return f'"{blake2b(path.read_bytes(), digest_size=12).hexdigest()}"'


def file_reply(folder: Path, name: str, headers: Mapping[str, str]) -> Reply:
    """Return a file directly or indirectly in a folder of a package; never one outside of it."""
    if not name or "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        return not_found()
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            return not_found()
        tag = _digest(path, path.stat().st_mtime_ns)
        kind = "text/javascript" if path.suffix in (".js", ".mjs") else mimetypes.guess_type(path.name)[0]
        reply_headers = {"etag": tag, "cache-control": "no-cache", **_SECURITY}
        status = precondition(headers, tag)
        if status is not None:
            return Reply(status, reply_headers)
        body = path.read_bytes()
    except OSError:  # a name that is too long
        return not_found()
    reply_headers["content-type"] = kind or "application/octet-stream"
    return Reply(200, {**reply_headers, "content-length": str(len(body))}, body)
