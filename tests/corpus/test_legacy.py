"""The example data in ``examples/legacy`` are read and converted exactly."""

from pathlib import Path

import numpy as np
import pytest

import tegula

LEGACY = Path(__file__).parent.parent.parent / "examples" / "legacy"
with np.load(LEGACY / "expected.npz") as archive:
    EXPECTED = {name: archive[name] for name in archive.files}


def check(array: tegula.Array, expected: np.ndarray) -> None:
    values = array[...]
    if expected.dtype.kind == "U":
        assert values.dtype == object
        values = values.astype("U")
    assert values.dtype == expected.dtype
    assert values.shape == expected.shape
    assert values.tobytes() == expected.tobytes()


@pytest.mark.parametrize("path", EXPECTED)
def test_read(path: str) -> None:
    check(tegula.open_array(LEGACY / path), EXPECTED[path])


@pytest.mark.parametrize("name", ["snow.zarr1", "stations.zarr2", "prices.bcolz", "wind.bcolz"])
def test_convert(name: str) -> None:
    target = tegula.MemoryStore()
    report = tegula.convert(LEGACY / name, target, format="zarr3", verify=True)
    assert report.ok
    paths = [path.removeprefix(name).lstrip("/") for path in EXPECTED if path.split("/")[0] == name]
    assert sorted(item.path for item in report.arrays) == sorted(paths)
    for path in paths:
        array = tegula.open_array(target, path=path)
        assert array.format == "zarr3"
        check(array, EXPECTED[f"{name}/{path}".rstrip("/")])
        old = tegula.open_array(LEGACY / name / path)
        assert array.dimension_names == old.dimension_names
        moved = {"_ARRAY_DIMENSIONS", "_FillValue"}
        assert {k: v for k, v in array.attrs.items() if k not in moved} == {
            k: v for k, v in old.attrs.items() if k not in moved
        }
        masked = name == "stations.zarr2" and old.metadata.fill_value is not None and array.dtype.kind in "bif"
        assert ("_FillValue" in array.attrs) == masked


def test_consolidated() -> None:
    group = tegula.open_group(LEGACY / "stations.zarr2", consolidated=True)
    assert sorted(path for path, _ in group.walk()) == [
        "pressure", "station", "station/name", "station/position", "temperature", "time", "wet",
    ]  # fmt: skip
