"""A cache of obstore's stores and of what URLs and options mean, so that opening a bucket again reuses connections.

Making a store takes several milliseconds of processor time, and its first requests wait for new connections. What is
cached is used only for the same settings in the same environment: the same variables and credential files. Its cache
key is a digest, so that it holds no secret.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from operator import itemgetter
from typing import Any, Final

from tegula.stores.single_writer import digest

__all__ = ["LIMIT", "drop", "forget_all", "shared"]

LIMIT: Final = 32
"""How many of the most recently used results are cached; a store takes 256 KiB, and its open connections."""
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
    """Return the cached result for the same settings; otherwise call `make`, and cache and return its result.

    Parameters
    ----------
    name : str
        The name of the class of a store, or ``"url"``.
    positional, named
        The arguments of the store, or the URL and the options. If they hold objects that can't be compared, the result
        is not cached.
    make : callable
        Makes the store, or the `Client` of the URL and its options.
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
    if name not in _REMOTE:
        return None
    settings = dict(named)
    provider = settings.pop("credential_provider", None)
    try:
        hash(provider)
        text, texts = _texts((positional, settings))
    except TypeError:
        return None
    variables = sorted([item for item in os.environ.items() if item[0].upper().startswith(_VARIABLES)])
    states = _states([*map(os.path.expanduser, _FILES), *map(itemgetter(1), variables), *texts])
    return name, digest(f"{text}|{variables}|{states}".encode("utf-8", "surrogatepass")), provider


def _texts(settings: Any) -> tuple[str, list[str]]:
    """Return a text that is equal for equal settings only, and the texts in the settings, which may be paths of files.

    Raises
    ------
    TypeError
        If they hold objects that can't be compared.
    """
    found: list[Any] = []
    texts: list[str] = []
    rest = [settings]
    while rest:
        value = rest.pop()
        if isinstance(value, Mapping):
            found.append(("mapping", len(value)))
            for key in sorted(value):
                rest += (value[key], key)
        elif isinstance(value, (list, tuple)):
            found.append(("sequence", len(value)))
            rest += value
        elif type(value) in _PLAIN:
            found.append(value)
            if type(value) is str:
                texts.append(value)
        else:
            raise TypeError
    return repr(found), texts


def _states(paths: Iterable[str]) -> list[object]:
    """Return for each path a value that changes when the file does; ``None`` if there is no file."""
    states: list[object] = []
    for path in paths:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            states.append(None)
        else:
            regular = stat.S_ISREG(found.st_mode)
            states.append((found.st_mtime_ns, found.st_size, found.st_ino) if regular else None)
    return states
