"""The libraries that are compared: one module for each, which is imported when it takes part."""

from __future__ import annotations

from importlib import import_module

from contenders.interface import Contender

# name: module, class
IN_PROCESS = {
    "tegula": ("tegula_arrays", "Tegula"),
    "reference": ("tegula_arrays", "Reference"),
    "ts": ("tensorstore_arrays", "TensorStore"),
    "tsdef": ("tensorstore_arrays", "SyncedTensorStore"),
    "zarr3": ("zarr_arrays", "ZarrPython"),
    "zarrs": ("zarr_arrays", "Zarrs"),
    "blosc2": ("blosc2_arrays", "Blosc2"),
    "bcolz": ("bcolz_arrays", "Bcolz"),
    "h5py": ("hdf5_arrays", "HDF5"),
}
IN_A_WORKER = {
    "caseless": ("tegula_arrays", "Caseless"),
    "plain": ("tegula_arrays", "Plain"),
    "zarr2": ("zarr_arrays", "ZarrPython2"),
    "fused": ("zarr_arrays", "FusedZarrPython"),
    "zarrista": ("zarrista_arrays", "Zarrista"),
}
PYTHON = {"zarr2": "TEGULA_ZARR2_PYTHON", "fused": "TEGULA_ZARR3_PYTHON", "zarrista": "TEGULA_ZARR3_PYTHON"}
OURS = ("tegula", "reference", "caseless", "plain")
LIMIT = "limit"


def make(name: str) -> Contender:
    """Import a contender; `ImportError` if what it needs is not installed."""
    module, kind = {**IN_PROCESS, **IN_A_WORKER}[name]
    return getattr(import_module(f"contenders.{module}"), kind)()
