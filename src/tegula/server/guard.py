"""Authorisation: the token of a server, the names that requests may use for it, and the sites that may read."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from tegula.errors import MetadataError, brief

__all__ = [
    "LOOPBACK",
    "combined",
    "cookie_name",
    "is_known_host",
    "is_origin",
    "offered_tokens",
    "origin_rules",
    "token_matches",
]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine that no other site can take, so that its pages can't make requests on behalf of a user."""


def combined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Return the headers of a request by name, repeated headers joined to one list; ``None`` if there are two hosts.

    Two readers of a request with two hosts may take different ones for its host (RFC 9112, section 3.2).

    Examples
    --------
    >>> combined([(b"if-match", b'"a"'), (b"host", b"x"), (b"if-match", b'"b"')])
    {'if-match': '"a", "b"', 'host': 'x'}
    >>> combined([(b"host", b"x"), (b"host", b"x")]) is None
    True
    """
    by_name: dict[str, str] = {}
    for raw, value in headers:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        if name not in by_name:
            by_name[name] = text
        elif name == "host":
            return None
        else:
            by_name[name] += ("; " if name == "cookie" else ", ") + text
    return by_name


def is_known_host(header: str | None, allowed: Sequence[str]) -> bool:
    """Return whether the header ``Host`` of a request names this server; if `allowed` is empty, any name does.

    Examples
    --------
    >>> is_known_host("localhost:8000", LOOPBACK), is_known_host("[::1]:8000", LOOPBACK)
    (True, True)
    >>> is_known_host("localhost.evil.example", LOOPBACK), is_known_host(None, LOOPBACK)
    (False, False)
    """
    if not allowed:
        return True
    name, _, port = (header or "").strip().lower().rpartition(":")
    if not port.isdigit() or (name.startswith("[") and not name.endswith("]")):
        name = (header or "").strip().lower()
    return name in allowed


_ORIGIN: Final = re.compile(r"([a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\]))(:[0-9]{1,5})?").fullmatch
_ANY_PORT: Final = ":*"


def is_origin(text: str) -> bool:
    """Return whether a text is the origin of a web page: scheme, name and perhaps a port."""
    return _ORIGIN(text) is not None


def origin_rules(origins: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """Return the origins whose pages may read, and a regular expression of those that may with any port.

    Raises
    ------
    MetadataError
        If one is not an origin.

    Examples
    --------
    >>> origin_rules(["https://Example.org/", "http://localhost:*"])
    (('https://example.org',), 'http://localhost(:[0-9]+)?')
    """
    exact, patterns = [], []
    for given in origins:
        origin = given.lower().removesuffix("/") if isinstance(given, str) else ""
        if origin == "*" or is_origin(origin):
            exact.append(origin)
        elif origin.endswith(_ANY_PORT) and is_origin(origin.removesuffix(_ANY_PORT)):
            patterns.append(f"{re.escape(origin.removesuffix(_ANY_PORT))}(:[0-9]+)?")
        else:
            found = re.match(r"[a-z][a-z0-9+.-]*://[^/?#]+", origin)
            what = found[0] if found is not None and is_origin(found[0]) else "https://example.org"
            raise MetadataError(
                f"{brief(given)} is not the origin of web pages, which is written as {what}", field="allow_origins"
            )
    return tuple(exact), "|".join(patterns) or None


def cookie_name(server: object) -> str:
    """Return the name of the cookie with the token; it holds the port, which cookies do not distinguish."""
    port = server[1] if isinstance(server, (tuple, list)) and len(server) > 1 else None
    return f"tegula-{port}" if isinstance(port, int) else "tegula"


def offered_tokens(query: bytes, headers: Mapping[str, str], cookie: str) -> list[tuple[str, str]]:
    """Return the tokens of a request, each with the part that holds it: ``query``, ``bearer`` or ``cookie``.

    Examples
    --------
    >>> offered_tokens(b"token=a&x=1", {"authorization": "Bearer b", "cookie": "tegula-8000=c"}, "tegula-8000")
    [('query', 'a'), ('bearer', 'b'), ('cookie', 'c')]
    """
    tokens = []
    if b"token=" in query:
        try:
            values = parse_qs(query.decode("latin-1"), max_num_fields=100).get("token", [])
        except ValueError:
            values = []
        tokens += [("query", value) for value in values[:1]]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        tokens.append(("bearer", value.strip()))
    if cookie in headers.get("cookie", ""):
        try:
            morsel = SimpleCookie(headers["cookie"]).get(cookie)
        except CookieError:
            morsel = None
        if morsel is not None:
            tokens.append(("cookie", morsel.value))
    return tokens


def token_matches(offered: str, token: str) -> bool:
    """Return whether a token is the right one, in a time that does not depend on where they differ."""
    return hmac.compare_digest(offered.encode(errors="replace"), token.encode())
