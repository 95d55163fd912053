"""Stores of obstore that this process keeps, so that whatever opens the same bucket next uses their connections.

Making one takes several milliseconds of processor time, and its first requests wait for new connections. One that is
kept serves only for the same settings, in the same environment: the same variables and credential files. A key is a
digest, so that it holds no secret.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from tegula.stores.single_writer import digest

__all__ = ["LIMIT", "drop", "forget_all", "shared"]

LIMIT: Final = 32
"""How many are kept, those that were used last. Each takes a quarter of a megabyte, and its open connections."""
_REMOTE: Final = ("url", "S3Store", "GCSStore", "AzureStore", "HTTPStore")  # others have no connections
_PLAIN: Final = (str, bytes, int, float, bool, type(None), timedelta)
_VARIABLES: Final = (
    "AWS_", "GOOGLE_", "SERVICE_ACCOUNT", "CLOUDSDK_", "AZURE_", "MSI_", "IDENTITY_", "SSL_CERT_", "HTTP_PROXY",
    "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "HOME", "USERPROFILE", "APPDATA",
)  # fmt: skip
"""How the names of variables begin that obstore, its HTTP client or boto3 reads, in any case."""
_FILES: Final = ("~/.aws/credentials", "~/.aws/config", "~/.config/gcloud/application_default_credentials.json")

_kept: OrderedDict[object, Any] = OrderedDict()
_lock = threading.RLock()  # one thread makes a store, while others that want it wait


def shared(name: str, positional: tuple[Any, ...], named: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Return the store that was made of the same settings, or what `make` returns, for the next time.

    Parameters
    ----------
    name : str
        The name of its class, or ``"url"``.
    positional, named
        What it is made of. Where that holds objects that can't be compared, nothing is kept.
    make : callable
        Makes the store.
    """
    key = _key(name, positional, named)
    if key is None:
        return make()
    with _lock:
        store = _kept.get(key)
        if store is None:
            store = _kept[key] = make()
            if len(_kept) > LIMIT:
                _kept.popitem(last=False)
        else:
            _kept.move_to_end(key)
        return store


def drop(store: object) -> None:
    """Stop keeping a store, since its credentials have been refused."""
    with _lock:
        for key in [key for key, kept in _kept.items() if kept is store]:
            del _kept[key]


def forget_all() -> list[Any]:
    """In a forked child, keep nothing, and return the parent's stores, which must not be released there."""
    global _kept, _lock
    _lock, found = threading.RLock(), [*_kept.values()]
    _kept = OrderedDict()
    return found


def _key(name: str, positional: tuple[Any, ...], named: Mapping[str, Any]) -> object:
    """Return what tells stores apart: a digest of settings and environment, and the credential provider."""
    provider = named.get("credential_provider")
    settings = {key: value for key, value in named.items() if key != "credential_provider"}
    try:
        hash(provider)
        text = f"{_text(positional)}|{_text(settings)}" if name in _REMOTE else None
    except TypeError:
        return None
    if text is None:
        return None
    variables = sorted(item for item in os.environ.items() if item[0].upper().startswith(_VARIABLES))
    paths = [*map(os.path.expanduser, _FILES), *(value for _, value in variables), *_paths(settings)]
    found = f"{text}|{variables}|{[*map(_state, paths)]}"
    return name, digest(found.encode("utf-8", "surrogatepass")), provider


def _text(value: Any) -> str:
    """Return a text that equal values have, and no others."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_text(key)}:{_text(each)}" for key, each in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    if type(value) not in _PLAIN:
        raise TypeError
    return repr(value)


def _paths(value: Any) -> Iterator[str]:
    """Yield the texts in settings that may be the paths of files, such as keys of service accounts."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _paths(each)
    elif isinstance(value, str):
        yield value


def _state(path: str) -> object:
    """Return what changes when a file does, ``None`` if there is no file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None
