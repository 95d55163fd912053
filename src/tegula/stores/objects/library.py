"""The package obstore and its stores, usable in any process, and shared by all stores of a bucket.

The runtime that sends obstore's requests does not survive a fork: in the child every request would wait forever. So a
child loads the package's extension module again from a copy of its file, which has its own runtime, and makes each
store again from its settings. The parent's stores are never released in the child, since a thread that the child does
not have may hold their locks.

Making a store takes several milliseconds of processor time, and its first requests wait for new connections. So stores,
and what URLs and options mean, are cached. What is cached is used only for the same settings in the same environment:
the same variables and credential files. Its cache key is a digest, so that it holds no secret.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from operator import itemgetter
from typing import Any, Final, TypeAlias

from tegula.errors import MetadataError, StoreError
from tegula.runtime.deferred import after_fork
from tegula.runtime.optional import library
from tegula.stores.single_writer import digest

__all__ = ["LIMIT", "Settings", "StoreHandle", "make_store", "shared"]

Settings: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of an obstore class."""

_KINDS: Final = {
    "S3Store": "s3", "GCSStore": "gs", "AzureStore": "az", "HTTPStore": "http", "LocalStore": "file",
    "MemoryStore": "memory",
}  # fmt: skip

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


class _OfProcess:
    """What this process has of obstore: its extension module, and what `shared` has made."""

    def __init__(self) -> None:
        self.module: Any = None
        self.forked = False
        self.lock = threading.RLock()  # one thread makes a store, while others that need it wait
        self.cached: OrderedDict[object, Any] = OrderedDict()

    def obstore(self) -> Any:
        """Return obstore's extension module, which has all its functions; in a forked child, a copy of the module."""
        if self.module is not None:
            return self.module
        with self.lock:
            if self.module is None:
                original = library("obstore")._obstore
                import_module("ctypes")  # for `_keep`: a child should import as little as possible
                self.module = _copy_of(original) if self.forked else original
            return self.module

    def after_fork(self) -> None:
        self.lock = threading.RLock()
        self.forked = self.forked or "obstore" in sys.modules
        self.module = None
        if self.cached:
            _keep(self.cached)
        self.cached = OrderedDict()
        for handle in _handles:
            handle.after_fork()


_handles: weakref.WeakSet[StoreHandle] = weakref.WeakSet()
_here: Final = _OfProcess()
after_fork(_here.after_fork)


def _copy_of(original: Any) -> Any:
    """Load an extension module from a copy of its file, so that it shares nothing with the original."""
    machinery, util = import_module("importlib.machinery"), import_module("importlib.util")
    shutil, tempfile = import_module("shutil"), import_module("tempfile")
    folder = None
    try:
        folder = tempfile.mkdtemp(prefix="tegula-")
        path = shutil.copy(original.__file__, folder)
        loader = machinery.ExtensionFileLoader(original.__name__, path)
        module = util.module_from_spec(util.spec_from_file_location(original.__name__, path, loader=loader))
        loader.exec_module(module)
        return module
    except (OSError, ImportError) as error:
        raise StoreError(
            "object storage can't be used in this forked process, since a copy of obstore can't be loaded "
            f"({type(error).__name__}); start processes with 'spawn' or 'forkserver'"
        ) from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _class_of(store: object) -> str:
    """Return the name of the obstore class of a store.

    Raises
    ------
    MetadataError
        If it is not an obstore store.
    """
    for base in type(store).__mro__:
        if base.__name__ in _KINDS and not hasattr(store, "capabilities"):
            return base.__name__
    raise MetadataError(f"an ObjectStore needs a store of the package obstore, not {type(store).__name__}")


def _settings_of(store: Any) -> Settings:
    try:
        positional, named = store.__getnewargs_ex__()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
    else:
        return positional, named
    raise MetadataError(
        "obstore can't report the settings of this store: options of the client, such as allow_http and timeout, "
        "belong in its client_options, not in its config"
    )


def make_store(class_name: str, settings: Settings) -> Any:
    """Return an obstore store that shares connections with others of the same settings."""
    positional, named = settings
    return shared(
        class_name, positional, named, lambda: getattr(_here.obstore()._store, class_name)(*positional, **named)
    )


class StoreHandle:
    """An obstore store that can be made again: in a forked process, with new credentials, or with other retries.

    The store's own retries are replaced by `retry_config`.

    Attributes
    ----------
    name, kind : str
        The name of its class, and the service: ``s3 gs az http file memory``.
    settings : Settings or None
        The arguments to make it from; ``None`` if its values are in its memory.
    """

    def __init__(self, store: Any, retry_config: dict[str, Any]) -> None:
        self.name = _class_of(store)
        self.kind = _KINDS[self.name]
        self.settings: Settings | None = None
        if self.name != "MemoryStore":
            positional, named = _settings_of(store)
            named = named if self.name == "LocalStore" else {**named, "retry_config": retry_config}
            self.settings = positional, named
        self._made: tuple[Any, Any] = (_here.obstore(), store if self.settings is None else None)
        _handles.add(self)

    def get(self) -> Any:
        """Return the store for this process; raises as `made` does."""
        return self.made()[1]

    def made(self) -> tuple[Any, Any]:
        """Return obstore's module and the store for this process.

        Raises
        ------
        StoreError
            If its values are in the memory of the process that this one was forked from.
        """
        made = self._made
        if made[1] is not None and made[0] is _here.module:
            return made
        if self.settings is None:
            raise StoreError(f"an obstore {self.name} can't be used in a process that was forked from its own")
        made = self._made = _here.obstore(), make_store(self.name, self.settings)
        return made

    def after_fork(self) -> None:
        """In a forked child, stop using the parent's store, without releasing it."""
        _keep(self._made[1])
        if self.settings is not None:
            self._made = None, None

    def renew(self) -> None:
        """Make the store again at its next use, so that it fetches new credentials, also for stores that share it."""
        if self.settings is not None:
            with _here.lock:
                for key in [key for key, cached in _here.cached.items() if cached is self._made[1]]:
                    del _here.cached[key]
            self._made = None, None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoreHandle):
            return NotImplemented
        if self.settings is None or other.settings is None:
            return self._made[1] is other._made[1]
        return (self.name, self.settings) == (other.name, other.settings)

    def __hash__(self) -> int:
        return hash(self.name)


def _keep(value: object) -> None:
    """Keep an object alive forever, even while the interpreter ends."""
    ctypes = import_module("ctypes")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def shared(name: str, positional: tuple[Any, ...], named: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Return the cached result for the same settings; otherwise call `make`, and cache and return its result.

    The settings are the arguments of a store, whose class `name` is, or the URL and the options (``"url"``) of a
    `Client`. If they hold objects that can't be compared, the result is not cached.
    """
    key = _key(name, positional, named)
    if key is None:
        return make()
    with _here.lock:
        made = _here.cached.get(key)
        if made is None:
            made = _here.cached[key] = make()
            if len(_here.cached) > LIMIT:
                _here.cached.popitem(last=False)
        else:
            _here.cached.move_to_end(key)
        return made


def _key(name: str, positional: tuple[Any, ...], named: Mapping[str, Any]) -> object:
    """Return the cache key of a store: a digest of settings and environment, and the credential provider."""
    if name not in _REMOTE:
        return None
    settings = dict(named)
    provider = settings.pop("credential_provider", None)
    try:
        hash(provider)
        text, texts = _texts((positional, settings))
    except (TypeError, ValueError):  # also of an integer that is too large to be printed
        return None
    variables = sorted([item for item in os.environ.items() if item[0].upper().startswith(_VARIABLES)])
    states = _states([*map(os.path.expanduser, _FILES), *map(itemgetter(1), variables), *texts])
    return name, digest(f"{text}|{variables}|{states}".encode("utf-8", "surrogatepass")), provider


def _texts(settings: Any) -> tuple[str, list[str]]:
    """Return a text that is equal for equal settings only, and the texts in the settings, which may be paths of files.

    ``TypeError`` is raised if they hold objects that can't be compared.
    """
    parts: list[Any] = []
    texts: list[str] = []
    rest = [settings]
    while rest:
        value = rest.pop()
        if isinstance(value, Mapping):
            parts.append(("mapping", len(value)))
            for key in sorted(value):
                rest += (value[key], key)
        elif isinstance(value, (list, tuple)):
            parts.append(("sequence", len(value)))
            rest += value
        elif type(value) in _PLAIN:
            parts.append(value)
            if type(value) is str:
                texts.append(value)
        else:
            raise TypeError
    return repr(parts), texts


def _states(paths: Iterable[str]) -> list[object]:
    """Return for each path a value that changes when the file does; ``None`` if there is no file."""
    states: list[object] = []
    for path in paths:
        state = None
        with suppress(OSError, ValueError):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                state = status.st_mtime_ns, status.st_size, status.st_ino
        states.append(state)
    return states
