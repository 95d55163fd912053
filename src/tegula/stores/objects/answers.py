"""Answers of web servers that obstore does not understand: encoded bodies, and bodies whose length is not announced.

obstore returns a body with a Content-Encoding as it was sent, and refuses an answer without a Content-Length. Here they
are read as browsers do: the body is decoded, and a body of unknown length is requested again by the standard library.
"""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, urlsplit

from tegula import config
from tegula.stores.objects.failures import Failure, FailureKind, Refused, ShortBody, failure_of, failure_of_answer
from tegula.stores.objects.library import Settings
from tegula.stores.objects.options import truth

__all__ = ["Answer", "content_encoding", "decoded", "fetch", "get"]

_PIECE: Final = 1 << 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMEOUT: Final = 30.0  # seconds, as obstore has it
_HEADERS: Final = {"if_match": "If-Match", "if_none_match": "If-None-Match"}
_PLAIN: Final = ("", "identity")
_AUTO: Final = 32 + zlib.MAX_WBITS  # zlib finds out whether it is gzip or zlib
_SECRET: Final = ("Authorization", "Cookie", "Proxy-authorization")
_UNITS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}
_duration = re.compile(r"([0-9.]+) ?(ms|s|min|m)").fullmatch


class Answer:
    """An answer in the form of obstore's ``GetResult``: all bytes of an object, decoded, without attributes."""

    attributes: Mapping[str, str] = {}

    def __init__(self, value: bytes, meta: Mapping[str, Any]) -> None:
        self._value = value
        self.meta = {**meta, "size": len(value)}
        self.range = 0, len(value)

    def bytes(self) -> bytes:
        """Return the bytes."""
        return self._value


def get(library: Any, store: Any, settings: Settings, path: str, options: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return the answer of a web server, and whether the server returns only whole objects.

    A range of an encoded body can't be decoded, and HEAD tells the length of the encoded body: all of it is read then.
    `settings` are the arguments of obstore's store, and `options` those of its ``get``.
    """
    limits = options.get("range")
    stop = limits[1] if isinstance(limits, tuple) else None
    conditions = {name: value for name, value in options.items() if name in _HEADERS}
    only_whole = False
    for wanted in (options, conditions):
        try:
            result = library.get(store, path, options=wanted)
        except Exception as error:
            kind = failure_of(error).kind
            if kind == "unsized" and "head" not in wanted:
                return fetch(settings, path, conditions, stop), False
            only_whole = kind == "whole"
            if wanted is conditions or not (only_whole or (kind == "range" and _is_longer(library, store, path))):
                raise
            continue
        encoding = content_encoding(result.attributes)
        if not encoding:
            return result, only_whole
        if "head" not in wanted and result.range == (0, result.meta["size"]):
            value = bytes(result.bytes())
            if len(value) != result.meta["size"]:
                raise ShortBody
            return Answer(decoded(iter([value]), encoding, stop), result.meta), False
    raise ShortBody  # the answer to a request without a range had one


def _is_longer(library: Any, store: Any, path: str) -> bool:
    """Return whether an object may be longer than the server says when it refuses a range after the end."""
    try:
        return bool(content_encoding(library.get(store, path, options={"head": True}).attributes))
    except Exception as error:  # noqa: BLE001 - obstore's own errors
        return failure_of(error).kind == "unsized"


def content_encoding(attributes: Mapping[str, str]) -> str:
    """Return how the body of an answer is encoded, in lower case; ``""`` if it is not."""
    header = next((text for name, text in attributes.items() if str(name).lower() == "content-encoding"), "")
    named = [part.strip().lower() for part in header.split(",")]
    return ", ".join(part for part in named if part not in _PLAIN)


def decoded(pieces: Iterator[bytes], encoding: str, stop: int | None) -> bytes:
    """Return the body of an answer without its Content-Encoding: at least `stop` bytes of it, or all of it.

    Raises
    ------
    Refused
        If it can't be decoded, or is too long.
    ShortBody
        If it is cut off.
    """
    limit, body = config.current(), bytearray()
    most = limit.max_chunk_bytes if stop is None else max(stop, limit.max_input_bytes)
    for piece in _inflated(pieces, encoding) if encoding else pieces:
        body += piece
        if len(body) > most:
            if stop is not None:
                break
            raise _refusal(f"the answer is longer than the setting max_chunk_bytes, {most}, allows")
    return bytes(body)


def _inflated(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the pieces of a body in gzip or deflate; gzip may have several members."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise _refusal(f"the answer has the Content-Encoding {encoding!r:.80}, which was not asked for")
    stream, begun = zlib.decompressobj(_AUTO), False
    try:
        for piece in pieces:
            if not begun and encoding == "deflate" and piece and not _is_zlib(piece):
                stream = zlib.decompressobj(-zlib.MAX_WBITS)  # as some servers understand the name
            rest = piece
            while rest:
                begun = True
                if stream.eof:
                    if not rest.strip(b"\0"):  # padding
                        break
                    stream = zlib.decompressobj(_AUTO)
                yield stream.decompress(rest, _PIECE)
                rest = stream.unconsumed_tail or stream.unused_data
    except zlib.error:
        raise _refusal(f"the answer is not in {encoding}, though its header Content-Encoding says so") from None
    if begun and not stream.eof:
        raise ShortBody


def _is_zlib(piece: bytes) -> bool:
    return piece[0] & 15 == zlib.DEFLATED and (len(piece) < 2 or int.from_bytes(piece[:2], "big") % 31 == 0)


def fetch(settings: Settings, path: str, conditions: Mapping[str, str], stop: int | None) -> Answer:
    """Request an object by the standard library, and return it as `decoded` does; raise `Refused` if that fails.

    The settings are the URL and ``client_options``, the conditions ``if_match`` and ``if_none_match``.
    """
    client = dict(settings[1].get("client_options") or {})
    parts = urlsplit(settings[0][0])
    address = parts._replace(path=f"{parts.path.rstrip('/')}/{quote(path, safe='/~')}").geturl()
    request = urllib.request.Request(address, headers=_headers(client, conditions))
    try:
        with _opener(client).open(request, timeout=_seconds(client.get("timeout", _TIMEOUT))) as response:
            fields = response.headers
            value = decoded(iter(lambda: response.read(_PIECE), b""), content_encoding(fields), stop)
    except urllib.error.HTTPError as error:
        error.close()
        raise Refused(failure_of_answer(error.code, "HTTPStore")) from None
    except (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionError):
        raise ShortBody from None
    except (TimeoutError, http.client.HTTPException, OSError) as error:
        raise _refusal(f"the request failed ({type(error).__name__})", "transient") from None
    try:
        time = parsedate_to_datetime(fields.get("Last-Modified") or "")
    except ValueError:
        time = _EPOCH
    return Answer(value, {"e_tag": fields.get("ETag"), "version": None, "last_modified": time})


def _refusal(reason: str, kind: FailureKind = "fatal") -> Refused:
    return Refused(Failure(kind, reason))


def _headers(client: Mapping[str, Any], wanted: Mapping[str, str]) -> dict[str, str]:
    given = {str(name): _text(value) for name, value in dict(client.get("default_headers") or {}).items()}
    conditions = {_HEADERS[name]: value for name, value in wanted.items()}
    return {"User-Agent": _text(client.get("user_agent") or "tegula"), **given, **conditions}


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _opener(client: Mapping[str, Any]) -> urllib.request.OpenerDirector:
    """Return what opens HTTP and HTTPS only, with the certificates and the proxy of obstore's options."""
    given = [_text(client[name]) for name in ("root_certificate", "proxy_ca_certificate") if client.get(name)]
    context = _context(*given, check=not truth(client.get("allow_invalid_certificates")))
    proxy = client.get("proxy_url")
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(None if proxy is None else {"http": str(proxy), "https": str(proxy)}),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(truth(client.get("allow_http")) is True),
    ):
        opener.add_handler(handler)
    return opener


@lru_cache(maxsize=8)
def _context(*certificates: str, check: bool) -> ssl.SSLContext:
    """Return what checks certificates; reading those of the system takes some time."""
    context = ssl.create_default_context()
    for certificate in certificates:
        context.load_verify_locations(cadata=certificate)
    if not check:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects without credentials to another host, and to HTTP only if that is allowed."""

    def __init__(self, allow_http: bool) -> None:
        self._allow_http = allow_http

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request to send instead; see `urllib.request.HTTPRedirectHandler`."""
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("http", "https") or (new.scheme == "http" and not self._allow_http):
            raise _refusal("the server redirects to an address that is not allowed")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (old.scheme, old.netloc) != (new.scheme, new.netloc):
            for name in _SECRET:
                request.remove_header(name)
        return request


def _seconds(value: Any) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    duration = _duration(str(value).strip())
    return float(duration[1]) * _UNITS[duration[2]] if duration else _TIMEOUT
