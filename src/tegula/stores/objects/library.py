"""The package obstore and its stores, usable in any process.

The runtime that sends obstore's requests does not survive a fork: in the child every request would wait forever. So a
child loads the package's extension module again from a copy of its file, which has its own runtime, and makes each
store again from its settings. The parent's stores are never released in the child, since a thread that the child does
not have may hold their locks.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from importlib import import_module
from typing import Any, Final, TypeAlias

from tegula.errors import MetadataError, StoreError
from tegula.optional import library
from tegula.stores.objects.clients import drop, forget_all, shared

__all__ = ["Settings", "StoreHandle", "class_of", "kind_of", "make_store", "obstore"]

Settings: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of an obstore class."""

_KINDS: Final = {
    "S3Store": "s3",
    "GCSStore": "gs",
    "AzureStore": "az",
    "HTTPStore": "http",
    "LocalStore": "file",
    "MemoryStore": "memory",
}


class _Loaded:
    """The extension module of this process."""

    def __init__(self) -> None:
        self.module: Any = None
        self.forked = False
        self.lock = threading.Lock()

    def load(self) -> Any:
        with self.lock:
            if self.module is None:
                original = library("obstore")._obstore
                import_module("ctypes")  # for `_keep`: a child should import as little as possible
                self.module = _copy_of(original) if self.forked else original
            return self.module

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        self.forked = self.forked or "obstore" in sys.modules
        self.module = None
        for store in forget_all():
            _keep(store)
        for handle in _handles:
            handle.after_fork()


_handles: weakref.WeakSet[StoreHandle] = weakref.WeakSet()
_loaded = _Loaded()

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_loaded.after_fork)


def obstore() -> Any:
    """Return obstore's extension module, which has all its functions; in a forked child, a copy of the module.

    Raises
    ------
    UnsupportedError
        If obstore is not installed.
    """
    return _loaded.module or _loaded.load()


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


def class_of(store: object) -> str:
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


def kind_of(class_name: str) -> str:
    """Return the kind of storage of an obstore class, as the scheme of a URL: ``s3 gs az http file memory``."""
    return _KINDS[class_name]


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
    return shared(class_name, positional, named, lambda: getattr(obstore()._store, class_name)(*positional, **named))


class StoreHandle:
    """An obstore store that can be made again: in a forked process, with new credentials, or with other retries.

    Parameters
    ----------
    store : obstore store
        The store. Its own retries are replaced.
    retry_config : dict
        Retries of each request.

    Attributes
    ----------
    name : str
        The name of its class.
    settings : Settings or None
        The arguments to make it from; ``None`` if its values are in its memory.
    """

    def __init__(self, store: Any, retry_config: dict[str, Any]) -> None:
        self.name = class_of(store)
        self.settings: Settings | None = None
        if self.name != "MemoryStore":
            positional, named = _settings_of(store)
            named = named if self.name == "LocalStore" else {**named, "retry_config": retry_config}
            self.settings = positional, named
        self._made: tuple[Any, Any] = (obstore(), store if self.settings is None else None)
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
        if made[1] is not None and made[0] is _loaded.module:
            return made
        if self.settings is None:
            raise StoreError(f"an obstore {self.name} can't be used in a process that was forked from its own")
        made = self._made = obstore(), make_store(self.name, self.settings)
        return made

    def after_fork(self) -> None:
        """In a forked child, stop using the parent's store, without releasing it."""
        _keep(self._made[1])
        if self.settings is not None:
            self._made = None, None

    def renew(self) -> None:
        """Make the store again at its next use, so that it fetches new credentials, also for stores that share it."""
        if self.settings is not None:
            drop(self._made[1])
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
