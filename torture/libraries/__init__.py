"""The libraries that are tested: one module for each, which is imported where it takes part."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from importlib import import_module

from torture.libraries.interface import Lacking, Library

__all__ = ["ENTRIES", "Entry", "Lacking", "Library", "make"]


@dataclass(frozen=True)
class Entry:
    """Where a library is found, under which interpreter and with which environment it runs."""

    module: str
    kind: str
    title: str
    environment: dict[str, str] = field(default_factory=dict)
    variant_of: str = ""  # the same library with another setting, for the rates of updates only
    interpreter: str = ""  # the environment variable that names the one to use

    def python(self) -> str:
        """Return the interpreter, or raise `Lacking` if none was named."""
        if not self.interpreter:
            return sys.executable
        if self.interpreter not in os.environ:
            raise Lacking(f"{self.interpreter} names no interpreter")
        return os.environ[self.interpreter]


_KERNEL, _REFERENCE = {"TEGULA_EXECUTOR": "kernel"}, {"TEGULA_EXECUTOR": "reference"}
_ZARR2 = "TEGULA_ZARR2_PYTHON"

ENTRIES = {
    "tegula": Entry("tegula_nodes", "Tegula", "tegula", _KERNEL),
    "tegula-fsync": Entry("tegula_nodes", "SyncedTegula", "fsync", _KERNEL, "tegula"),
    "reference": Entry("tegula_nodes", "Tegula", "tegula, reference executor", _REFERENCE),
    "ts": Entry("tensorstore_nodes", "TensorStore", "TensorStore"),
    "ts-fsync": Entry("tensorstore_nodes", "SyncedTensorStore", "fsync", variant_of="ts"),
    "zarr3": Entry("zarr_nodes", "Zarr3", "zarr-python 3"),
    "zarr2": Entry("zarr_nodes", "Zarr2", "zarr-python 2", interpreter=_ZARR2),
    "zarr2-lock": Entry("zarr_nodes", "LockedZarr2", "ProcessSynchronizer", variant_of="zarr2", interpreter=_ZARR2),
    "zarrs": Entry("zarr_nodes", "Zarrs", "zarrs"),
    "bcolz": Entry("bcolz_nodes", "Bcolz", "bcolz"),
    "blosc2": Entry("blosc2_nodes", "Blosc2", "blosc2"),
    "h5py": Entry("hdf5_nodes", "HDF5", "h5py"),
}
"""What can take part, tegula first."""

OURS = ("tegula", "tegula-fsync", "reference")


def make(name: str) -> Library:
    """Import a library; `ImportError` or `Lacking` if what it needs is not installed."""
    entry = ENTRIES[name]
    made: Library = getattr(import_module(f"torture.libraries.{entry.module}"), entry.kind)()
    return made
