"""zarr-python: version 3, version 3 with the codec pipeline of zarrs, and version 2 in a process of its own."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import zarr
from cases import Case

from contenders.interface import Contender, Lacking

warnings.simplefilter("ignore")


class ZarrPython(Contender):
    """zarr-python as installed here."""

    name = "zarr3"
    module = "zarr"

    def __init__(self) -> None:
        if int(zarr.__version__.split(".")[0]) < 3:
            raise Lacking("zarr-python 3 is not installed")

    def open(self, case: Case, path: Path) -> Any:
        return zarr.open_array(str(path), mode="r+")

    def names(self, path: Path) -> int:
        return len(list(zarr.open_group(str(path), mode="r", use_consolidated=False).keys()))

    def arrays(self, path: Path) -> int:
        group = zarr.open_group(str(path), mode="r", use_consolidated=False)
        return sum(array.shape == (10,) for _, array in group.arrays())

    def member(self, path: Path, name: str) -> tuple[int, ...]:
        return tuple(zarr.open_consolidated(str(path), mode="r")[name].shape)


class Zarrs(ZarrPython):
    """zarr-python with the codec pipeline of zarrs."""

    name = "zarrs"
    module = "zarrs"

    def __init__(self) -> None:
        super().__init__()
        import_module("zarrs")

    def open(self, case: Case, path: Path) -> Any:
        with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
            return super().open(case, path)

    # groups are zarr-python's own
    names = Contender.names
    arrays = Contender.arrays
    member = Contender.member


class FusedZarrPython(ZarrPython):
    """zarr-python with its other codec pipeline, in a process of its own: it needs zarr 3.4 and Python 3.12."""

    name = "fused"

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(import_module("zarr.core.codec_pipeline"), "FusedCodecPipeline"):
            raise Lacking("this zarr-python has no FusedCodecPipeline")
        zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"})

    def lacks(self, case: Case, regime: str) -> str | None:
        return None if case.format not in ("bcolz", "n5") else "it knows Zarr only"


class ZarrPython2(Contender):
    """zarr-python 2."""

    name = "zarr2"
    module = "zarr"

    def __init__(self) -> None:
        if int(zarr.__version__.split(".")[0]) != 2:
            raise Lacking("zarr-python 2 is not installed")

    def lacks(self, case: Case, regime: str) -> str | None:
        return None if case.format in ("zarr2", "n5") else "it knows Zarr v2 and N5 only"

    def open(self, case: Case, path: Path) -> Any:
        store = import_module("zarr.n5").N5Store(str(path)) if case.format == "n5" else str(path)
        return zarr.open_array(store, mode="r+")

    def names(self, path: Path) -> int:
        return len(list(zarr.open_group(str(path), mode="r").array_keys()))

    def arrays(self, path: Path) -> int:
        return sum(array.shape == (10,) for _, array in zarr.open_group(str(path), mode="r").arrays())

    def member(self, path: Path, name: str) -> tuple[int, ...]:
        return tuple(zarr.open_consolidated(str(path), mode="r")[name].shape)
