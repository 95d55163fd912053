"""Object storage by its URL."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from tegula.errors import MetadataError, TegulaError
from tegula.runtime.optional import library
from tegula.stores.objects.library import shared
from tegula.stores.objects.options import SCHEMES, Options, names_server, sort_options, unknown_option
from tegula.stores.objects.store import Client, ObjectStore
from tegula.stores.secrets import bare_url

__all__ = ["open_url"]

_CANONICAL: Final = {"s3a": "s3", "gcs": "gs", "azure": "az"}
_is_bucket = re.compile(r"(?!\.\.?$)[\w$.-]+", re.ASCII).fullmatch
_plain = re.compile(
    r"(?i:(https?://[a-z0-9.:\[\]-]+/))((?:(?!\.\.?/?$|\.\.?/)[\w.-]+(?:/(?!/)|$))*)", re.ASCII
).fullmatch
_unknown_key = re.compile(r"(?:Configuration key: '|Invalid key: )([A-Za-z0-9_]+)").search


def open_url(url: str, options: Mapping[str, Any] | None = None, read_only: bool = False) -> ObjectStore:
    """Open object storage by its URL.

    No request is sent before the store is used. Options that are not given are taken from where the service's own tools
    look for them: environment variables, profiles, the machine's role.

    Parameters
    ----------
    url : str
        ``s3://bucket/path``, ``gs://bucket/path``, ``az://container/path``,
        ``abfs://container@account.dfs.core.windows.net/path`` or ``https://host/path``. The path of a bucket is taken
        literally. A web server is read-only and can't be listed.
    options : mapping, optional
        Settings of obstore by its own names (`tegula.stores.objects.options.KNOWN`), options of its HTTP client such as
        ``timeout`` or ``proxy_url``, and ``missing``, ``concurrency``, ``retries``, ``retry_timeout``, ``anonymous``
        and ``credential_provider``.
    read_only : bool
        Whether `ObjectStore.set` and `ObjectStore.delete` raise `ReadOnlyError`.

    Raises
    ------
    MetadataError
        If the URL or an option can't be used.
    UnsupportedError
        If obstore is not installed.

    Examples
    --------
    >>> store = open_url("s3://bucket/data", {"region": "eu-north-1", "skip_signature": True})
    >>> store.url, store.kind
    ('s3://bucket/data', 's3')
    """
    parts = _split(url)
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise MetadataError(f"no object storage has URLs of the scheme {scheme!r}", field="url")
    kind = SCHEMES[scheme]
    if kind == "http" and not names_server(url):
        raise MetadataError(f"{bare_url(url)!r} names no server", field="url")
    if kind == "http":
        # a client takes milliseconds to make: those of one server share it, unless a key would be escaped otherwise
        server = _plain(url)
        root, path = server.groups() if server is not None else (url, "")
        client, own = _client(kind, root, parts, options or {})
        return ObjectStore(client, path, read_only=True, **own)
    _check_bucket(url, parts, scheme)
    bucket = f"{_CANONICAL.get(scheme, scheme)}://{parts.netloc}"
    client, own = _client(kind, f"{bucket}/", parts, options or {})
    return ObjectStore(client, parts.path, read_only=read_only, url=f"{bucket}{parts.path}".rstrip("/"), **own)


def _client(kind: str, url: str, parts: SplitResult, options: Mapping[str, Any]) -> tuple[Client, dict[str, Any]]:
    """Return the client of a bucket or web server, and the options of its stores; the same ones while nothing changes.

    `url` is that of the bucket, or a whole URL of a web server, and `parts` the URL that is being opened.
    """

    def make() -> tuple[Client, dict[str, Any]]:
        own = sort_options(kind, options)
        if kind != "http":
            return Client(_made(kind, None, (url,), own), own.retries), own.store
        client = {"allow_http": True, **own.client} if parts.scheme.lower() == "http" else own.client
        plain = url
        if parts.username is not None:  # obstore ignores it
            client = {**client, "default_headers": _with_user(parts, client.get("default_headers"))}
            plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return Client(_made(kind, "HTTPStore", (plain,), own._replace(client=client)), own.retries), own.store

    made: tuple[Client, dict[str, Any]] = shared("url", (url,), options, make)
    return made


@lru_cache(256)
def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise MetadataError("this is not a URL", field="url") from None
    if not {"\t", "\r", "\n"}.isdisjoint(url):  # they would be dropped, and the rest would name another place
        raise MetadataError("a URL can't hold tabs and line breaks", field="url")
    return parts


def _with_user(parts: SplitResult, headers: Any) -> Any:
    """Return headers with the user and password of a URL, unless the headers already have credentials."""
    given = headers if isinstance(headers, Mapping) else {}
    if (headers and given is not headers) or any(str(name).lower() == "authorization" for name in given):
        return headers
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return {**given, "authorization": f"Basic {b64encode(user.encode()).decode()}"}


@lru_cache(256)
def _check_bucket(url: str, parts: SplitResult, scheme: str) -> None:
    user, at, host = parts.netloc.rpartition("@")
    if at and (":" in user or not scheme.startswith("abfs")):
        raise MetadataError(f"{scheme}: URLs can't hold credentials; pass them as options", field="url")
    if "?" in url or "#" in url:
        raise MetadataError(
            f"{scheme}: URLs can't have a query or a fragment; pass signatures as options, and a path with '?' or '#' "
            "to ObjectStore as its prefix",
            field="url",
        )
    if not _is_bucket(user if at else host) or not _is_bucket(host):
        what = "bucket" if SCHEMES[scheme] != "az" else "container@account.dfs.core.windows.net" if at else "container"
        raise MetadataError(f"{scheme}: URLs begin with the name of a bucket: {scheme}://{what}/path", field="url")


def _made(kind: str, class_name: str | None, positional: tuple[Any, ...], options: Options) -> Any:
    """Return the obstore store, or raise an error that names the offending option, but not its value."""
    stores = library("obstore.store")
    make = stores.from_url if class_name is None else getattr(stores, class_name)
    settings: dict[str, dict[str, Any]] = {"config": options.config, "client_options": options.client}

    def attempt(settings: dict[str, dict[str, Any]]) -> Any:
        named: dict[str, Any] = {name: value for name, value in settings.items() if value}
        if options.provider is not None:
            named["credential_provider"] = options.provider
        try:
            return make(*positional, **named)
        except TegulaError:
            raise
        except Exception as error:  # noqa: BLE001 - obstore raises ValueError, TypeError and errors of its own
            return str(error)

    made = attempt(settings)  # or the text of obstore's error, which may contain secrets
    if not isinstance(made, str):
        return made
    unknown = _unknown_key(made)
    if unknown is not None:
        raise unknown_option(kind, unknown[1])
    for group, values in settings.items():
        for name in values:
            others = {**settings, group: {other: value for other, value in values.items() if other != name}}
            if not isinstance(attempt(others), str):
                raise MetadataError(f"the value of the option {name!r} can't be used", field=name)
    if kind == "http":
        text = f"{bare_url(positional[0])!r} is not a valid URL; check the name or the address of the server"
        raise MetadataError(text, field="url")
    hint = "; the account is not known: pass account_name" if "MissingAccount" in made else ""
    if kind == "az" and "@" in positional[0]:
        hint = "; the host of such a URL is ACCOUNT.dfs.core.windows.net"
    raise MetadataError(f"{kind}: storage can't be opened with this URL and these options{hint}", field="url")
