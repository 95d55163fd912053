"""Stores of AnnData, MuData and SpatialData are valid, and read the same after a conversion."""

import json
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula

anndata = pytest.importorskip("anndata")
pandas = pytest.importorskip("pandas")
FIXTURES = Path(__file__).parent.parent / "fixtures"


def _cases() -> list[Any]:
    found = []
    for archive in sorted(FIXTURES.glob("anndata-*.zip")):
        with zipfile.ZipFile(archive) as opened:
            cases = json.loads(opened.read("index.json"))["cases"]
        found += [pytest.param(archive, case, id=f"{archive.stem}-{case['case']}") for case in cases]
    return found


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Ignore the libraries' warnings about their older formats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def tree(path: Path) -> dict[str, Any]:
    """Return the attributes of all nodes, and of arrays their values."""
    root = tegula.open_group(path)
    nodes = [("", root), *root.walk()]
    return {
        name: (node.attrs.asdict(), node[...].tolist() if isinstance(node, tegula.Array) else None)
        for name, node in nodes
    }


def assert_equal(one: Any, two: Any) -> None:
    """Compare what anndata has read, types included."""
    assert type(one) is type(two)
    if isinstance(one, anndata.AnnData):
        for part in ("X", "obs", "var", "layers", "obsm", "varm", "obsp", "varp", "uns"):
            assert_equal(getattr(one, part), getattr(two, part))
        assert (one.raw is None) == (two.raw is None)
        if one.raw is not None:
            assert_equal(one.raw.X, two.raw.X)
            assert_equal(one.raw.var, two.raw.var)
    elif isinstance(one, Mapping):
        assert {*one} == {*two}
        for name in one:
            assert_equal(one[name], two[name])
    elif isinstance(one, pandas.DataFrame):
        pandas.testing.assert_frame_equal(one, two)
    elif hasattr(one, "toarray"):
        assert_equal(one.toarray(), two.toarray())
    else:
        assert np.asarray(one).dtype == np.asarray(two).dtype
        np.testing.assert_array_equal(one, two)


def assert_same_data(library: str, one: Path, two: Path) -> None:
    parts = {
        "anndata": [""],
        "mudata": ["mod/rna", "mod/protein"],
        "spatialdata": ["tables/table"],
    }[library]
    for part in parts:
        assert_equal(anndata.read_zarr(one / part), anndata.read_zarr(two / part))


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize(("archive", "case"), _cases())
def test_store_survives_conversion_there_and_back(archive: Path, case: dict[str, Any], tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path)
    source = tmp_path / case["case"] / "store"
    assert tegula.check(source).findings == []
    old = tegula.open_group(source)
    assert old.is_consolidated() == (case["library"] != "mudata")
    before, place, formats = tree(source), source, {"zarr2": "zarr3", "zarr3": "zarr2"}
    for number, format in enumerate((formats[old.format], old.format)):
        target = tmp_path / f"{number}.zarr"
        report = tegula.convert(place, target, format=format, verify=True)
        assert report.ok
        assert tegula.check(target).findings == []
        assert tegula.open_group(target).is_consolidated() == old.is_consolidated()
        assert [name for name, _ in tegula.open_group(target).walk()] == [*before][1:]
        for name, (attributes, values) in tree(target).items():
            attributes.pop("_ARRAY_DIMENSIONS", None)  # of images, whose axes have names
            expected = {key: value for key, value in before[name][0].items() if key != "_ARRAY_DIMENSIONS"}
            assert json.dumps(attributes, sort_keys=True) == json.dumps(expected, sort_keys=True)
            np.testing.assert_equal(values, before[name][1])
        assert_same_data(case["library"], source, target)
        place = target
    kept = {path: notes for path, notes in report.notes.items() if "reserves" not in str(notes)}
    assert kept == {}


def test_there_are_stores_with_categories_of_all_kinds() -> None:
    names = set()
    for archive in FIXTURES.glob("anndata-*.zip"):
        with zipfile.ZipFile(archive) as opened:
            names |= {"/".join(name.split("/")[2:-2]) for name in opened.namelist()}
    assert {"obs/__categories", "obs/kind", "mod/rna/obs", "images/image"} <= names
