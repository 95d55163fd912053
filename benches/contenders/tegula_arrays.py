"""tegula, with its kernel where there is one, and with the reference executor."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from cases import Case, Values

import tegula
from contenders.interface import Contender, Lacking
from tegula import config
from tegula.runtime import system
from tegula.stores.local.root import Root


def kernel() -> Any:
    """Return the compiled module, or ``None`` if it was not built."""
    try:
        return import_module("tegula._kernel")
    except ImportError:
        return None


def has_choice() -> bool:
    """Return whether there are two executors, and a setting for them."""
    return kernel() is not None and "executor" in {field.name for field in fields(config.Config)}


class Tegula(Contender):
    """As it is by default."""

    name = module = "tegula"

    def lacks(self, case: Case, regime: str) -> str | None:
        return None

    def version(self) -> str:
        return f"{tegula.__version__} ({'kernel' if kernel() is not None else 'pure Python'})"

    def forget(self) -> None:
        trim = getattr(kernel(), "trim", None)
        if trim is not None:
            trim()

    def open(self, case: Case, path: Path) -> Any:
        return tegula.open_array(str(path), mode="r+")

    def points(self, array: Any, axes: tuple[Values, ...]) -> Values:
        return array.vindex[axes if len(axes) > 1 else axes[0]]

    def names(self, path: Path) -> int:
        return len(list(tegula.open_group(str(path), mode="r")))

    def arrays(self, path: Path) -> int:
        return sum(array.shape == (10,) for _, array in tegula.open_group(str(path), mode="r").arrays())

    def member(self, path: Path, name: str) -> tuple[int, ...]:
        return tegula.open_group(str(path), mode="r").with_consolidated()[name].shape


class Reference(Tegula):
    """The executor in pure Python, where it is not the only one."""

    name = "reference"

    def __init__(self) -> None:
        if not has_choice():
            raise Lacking("there is no other executor")

    def version(self) -> str:
        return f"{tegula.__version__} (pure Python)"

    def active(self) -> AbstractContextManager[Any]:
        return config.configure(executor="reference") if has_choice() else nullcontext()


class Caseless(Tegula):
    """On a file system that ignores case, as those of macOS and Windows; it needs a process of its own."""

    name = "caseless"

    def __init__(self) -> None:
        Root.ignores_case = property(lambda _: True, lambda *_: None)  # type: ignore[assignment]


class Plain(Caseless):
    """On a network drive of those systems, where the kernel has no store of files."""

    name = "plain"

    def __init__(self) -> None:
        super().__init__()
        system.KERNEL_STORES = False  # type: ignore[misc]
