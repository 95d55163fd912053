"""A cache of obstore's stores, so that opening the same bucket again reuses their connections.

Making a store takes several milliseconds of processor time, and its first requests wait for new connections. A cached
store is used only for the same settings in the same environment: the same variables and credential files. Its cache key
is a digest, so that it holds no secret.
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
"""How many of the most recently used stores are cached; each takes 256 KiB, and its open connections."""
_REMOTE: Final = ("url", "S3Store", "GCSStore", "AzureStore", "HTTPStore")  # others have no connections
_PLAIN: Final = (str, bytes, int, float, bool, type(None), timedelta)
_VARIABLES: Final = (
    "AWS_", "GOOGLE_", "SERVICE_ACCOUNT", "CLOUDSDK_", "AZURE_", "MSI_", "IDENTITY_", "SSL_CERT_", "HTTP_PROXY",
    "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "HOME", "USERPROFILE", "APPDATA",
)  # fmt: skip
"""Prefixes of the environment variables that obstore, its HTTP client or boto3 reads, in lower or upper case."""
_FILES: Final = ("~/.aws/credentials", "~/.aws/config", "~/.config/gcloud/application_default_credentials.json")

_kept: OrderedDict[object, Any] = OrderedDict()
_lock = threading.RLock()  # one thread makes a store, while others that need it wait


def shared(name: str, positional: tuple[Any, ...], named: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Return the cached store for the same settings; otherwise call `make`, and cache and return its result.

    Parameters
    ----------
    name : str
        The name of its class, or ``"url"``.
    positional, named
        The arguments of the store. If they hold objects that can't be compared, the store is not cached.
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
    """Remove a store from the cache, since its credentials have been refused."""
    with _lock:
        for key in [key for key, kept in _kept.items() if kept is store]:
            del _kept[key]


def forget_all() -> list[Any]:
    """In a forked child, empty the cache, and return the parent's stores, which must not be released in the child."""
    global _kept, _lock
    _lock, found = threading.RLock(), [*_kept.values()]
    _kept = OrderedDict()
    return found


def _key(name: str, positional: tuple[Any, ...], named: Mapping[str, Any]) -> object:
    """Return the cache key of a store: a digest of settings and environment, and the credential provider."""
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
    """Return a text that is equal for equal values only."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_text(key)}:{_text(each)}" for key, each in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    if type(value) not in _PLAIN:
        raise TypeError
    return repr(value)


def _paths(value: Any) -> Iterator[str]:
    """Yield the texts in settings that may be paths of files, such as keys of service accounts."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _paths(each)
    elif isinstance(value, str):
        yield value


def _state(path: str) -> object:
    """Return a value that changes when a file does; ``None`` if there is no file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None
