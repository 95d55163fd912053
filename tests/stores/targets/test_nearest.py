"""The closest names in errors about what is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tegula
from tegula.errors import NotFoundError
from tegula.stores.targets.nearest import nearest


@pytest.mark.parametrize(
    ("wanted", "names", "expected"),
    [
        ("t2", ["t2m", "t2m_max", "lat"], "t2m"),
        ("T2M", ["t2m"], "t2m"),
        ("temprature", ["temperature", "pressure"], "temperature"),
        ("x", ["lat"], None),
        ("x", [], None),
        ("tegula_job", [".tegula_job"], None),
    ],
)
def test_nearest(wanted: str, names: list[str], expected: str | None) -> None:
    assert nearest(wanted, names) == (f"; the closest name is {expected!r}" if expected else "")


def test_missing_nodes_are_answered_with_the_closest(tmp_path: Path) -> None:
    tegula.save(tmp_path / "era.zarr", t2m=np.arange(3), lat=np.arange(2))
    for target, closest in {"era.zar": "era.zarr", "era.zarr::t2": "t2m", "era.zarr::t2[0": "t2m"}.items():
        with pytest.raises(NotFoundError, match=f"closest name is '{closest}'"):
            tegula.open(f"{tmp_path}/{target}")
    with pytest.raises(NotFoundError, match="closest name is 't2m'"):
        tegula.open(f"{tmp_path}/era.zarr::t2m[0")
    with pytest.raises(NotFoundError, match=r"closest name is 'era\.zarr'"):
        tegula.open(f"{tmp_path}/era.zarr[0, 1:")
    with pytest.raises(NotFoundError, match="closest name is 't2m'"):
        tegula.open(tmp_path / "era.zarr")["t2"]
    with pytest.raises(NotFoundError, match="closest name is 'lat'"):
        tegula.open(tegula.MemoryStore({f"{name}/zarr.json": b"{}" for name in ("lat", "lon")}), path="lt")
