"""The package obstore, and its stores, in whichever process they are used.

The runtime that sends obstore's requests does not survive a fork: in the child every request would wait forever. So a
child loads the package's extension module once more, from a copy of its file, which gives it a runtime of its own, and
makes each store again from its settings.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from tegula.errors import StoreError
from tegula.optional import library

__all__ = ["StoreHandle", "kind_of", "made_of", "obstore"]

_KINDS = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az", "HTTPStore": "http"}
_RETRIES = "retry_config"

_state: dict[str, Any] = {"module": None, "forked": False}
_lock = threading.Lock()


def obstore() -> Any:
    """Return obstore's extension module, which has all its functions; in a forked child a copy of its own.

    Raises
    ------
    UnsupportedError
        If obstore is not installed.
    """
    module = _state["module"]
    return module if module is not None else _load()


def _load() -> Any:
    with _lock:
        if _state["module"] is None:
            original = library("obstore")._obstore
            _state["module"] = _copy_of(original) if _state["forked"] else original
        return _state["module"]


def _copy_of(original: Any) -> Any:
    """Load an extension module from a copy of its file, so that nothing is shared with the original."""
    folder = tempfile.mkdtemp(prefix="tegula-")
    try:
        path = shutil.copy(original.__file__, folder)
        loader = ExtensionFileLoader(original.__name__, path)
        spec = spec_from_file_location(original.__name__, path, loader=loader)
        assert spec is not None
        module = module_from_spec(spec)
        loader.exec_module(module)
        return module
    except (OSError, ImportError) as error:
        raise StoreError(
            "object storage can't be used in a process that was forked: its connections could not be made anew "
            f"({type(error).__name__}); start processes by 'spawn' or 'forkserver'"
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _forget() -> None:
    """In a forked child, forget the parent's module, if it was in use."""
    global _lock
    _lock = threading.Lock()
    _state["forked"] = _state["forked"] or "obstore" in sys.modules
    _state["module"] = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)


def kind_of(store: object) -> str:
    """Return what an obstore store is for, as the scheme of a URL: ``s3``, ``gs``, ``az``, ``http``, or ``""``."""
    return _KINDS.get(type(store).__name__, "")


def made_of(name: str, settings: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    """Return a new obstore store, from the name of its class and its settings."""
    positional, named = settings
    return getattr(obstore()._store, name)(*positional, **named)


class StoreHandle:
    """An obstore store that is made again, from its settings, in a process that was forked.

    Parameters
    ----------
    store : obstore store
        The store, whose own retries are left aside.
    retry_config : dict
        Retries of its single requests.
    """

    def __init__(self, store: Any, retry_config: dict[str, Any]) -> None:
        self.name = type(store).__name__
        self.settings: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        if kind_of(store):
            positional, named = store.__getnewargs_ex__()
            self.settings = positional, {**named, _RETRIES: retry_config}
        self._made: tuple[Any, Any] = (obstore(), store if self.settings is None else None)

    def get(self) -> Any:
        """Return the store for this process.

        Raises
        ------
        StoreError
            If it lives in the memory of the process that this one was forked from.
        """
        module, store = self._made
        if module is not obstore():
            module, store = obstore(), None
            if self.settings is None:
                raise StoreError(f"an obstore {self.name} can't be used in a process that was forked from its own")
        if store is None:
            store = made_of(self.name, self.settings or ((), {}))
            self._made = module, store
        return store
