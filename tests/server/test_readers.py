"""Every fixture, read through a server by other libraries, is what the library that wrote it says."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.archives import CASES, open_case
from tests.server.asking import ask
from tests.views.many import many_arrays
from tests.zarr.test_fixtures import EXPERIMENTAL, LACKS, columns_of, same, unpacked

import tegula
from tegula.zarr3_view.casting import cast, suggested_cast

zarr = pytest.importorskip("zarr", minversion="3")
tensorstore = pytest.importorskip("tensorstore")
pytestmark = [pytest.mark.once(executors="both"), pytest.mark.filterwarnings("ignore")]

__all__ = ["unpacked"]

# stores of one file are served by themselves, all others together
READABLE = [(archive, case) for archive, case in CASES if case["kind"] in ("array", "table")]
TOGETHER = [(archive, case) for archive, case in READABLE if not str(case.get("store", "")).endswith(".zip")]
ZIPPED = [(archive, case) for archive, case in READABLE if str(case.get("store", "")).endswith(".zip")]
ROOT = Path(__file__).parents[2]
# what TensorStore and zarrita say of data types, codecs and grids that they do not have
TENSORSTORE_LACKS = ("is not one of the supported", "not registered", "Unsupported", "Expected", "unsupported",
                     "is not one of", "Sharding codec", "Failed to parse", "chunk_grid",
                     "Invalid", "invalid")  # fmt: skip
ZARRITA_LACKS = ("Unknown data_type", "Unknown codec", "Unsupported", "not supported", "Cannot", "Invalid", "Not a",
                 "unsupported", "Unknown", "dataType.match is not a function")  # fmt: skip
# zarrita takes the order of a transpose behind a reshape for one of the array, expects the index of a shard at its end,
# has no shards in shards, ignores an option of a codec, has no
# chunks of varying lengths, and takes the bits of a fill value for a number
ZARRITA_FAILS = (
    "zarr-3.1.6/fill_payload/",
    "/shards_start/",
    "/shards_nested/",
    "/filters_delta_astype/",
    "/rectilinear/",
    "/rectilinear_mixed/",
    "/reshape_transpose/",
    "/bounded/",
)


def path_of_case(archive: str, case: dict[str, Any]) -> str:
    return "/".join(part for part in (archive, case["case"], "store", case.get("store", ""), case["path"]) if part)


def arrays(node: Any) -> dict[str, Any]:
    return columns_of(node) if isinstance(node, tegula.Table) else {"": node}


@pytest.fixture(scope="module")
def server(unpacked: Path) -> Iterator[Any]:
    # nodes of any format lie below this group; none is a member of it, and each is found by its path
    with tegula.serve(tegula.open_group(unpacked, "a"), port=0) as running:
        yield running


def read_by_tensorstore(url: str, expected: Any) -> Any:
    """Return what TensorStore reads, ``None`` if it says that it lacks something."""
    if np.asarray(expected).dtype.kind == "V":
        return None  # it has no type for records, and shows bytes along one more axis
    actual = tensorstore.open({"driver": "zarr3", "kvstore": url + "/"})
    error = actual.exception()
    if error is None:
        return actual.result().read().result()
    assert any(lack in str(error) for lack in TENSORSTORE_LACKS), error
    return None


def read_by_zarr(url: str) -> Any:
    try:
        with zarr.config.set(EXPERIMENTAL):
            return zarr.open_array(url, mode="r")[...]
    except (ValueError, TypeError, KeyError, ImportError) as error:
        if not any(lack in str(error) for lack in LACKS):
            raise
        return pytest.skip(f"zarr-python can't open it: {error!r:.120}")


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize(("archive", "case"), TOGETHER, ids=[f"{a}-{c['case']}" for a, c in TOGETHER])
def test_zarr_python_and_tensorstore(archive: str, case: dict[str, Any], server: Any, unpacked: Path) -> None:
    path = path_of_case(archive, case)
    for name, array in arrays(open_case(unpacked / archive, case)).items():
        url = f"{server.url}/{path}/{quote(name)}".rstrip("/")
        try:
            expected = array[...]
        except tegula.UnsupportedError:
            continue
        if ask(url, url[len(server.url) :] + "/zarr.json").status == 404:  # Zarr v3 has no form for it
            with pytest.raises(Exception):  # noqa: B017 - the class is zarr-python's choice
                zarr.open_array(url, mode="r")
            continue
        assert same(read_by_zarr(url), expected)
        actual = read_by_tensorstore(url, expected)
        assert actual is None or same(actual, expected)


@pytest.mark.parametrize(("archive", "case"), ZIPPED, ids=[f"{a}-{c['case']}" for a, c in ZIPPED])
def test_zip_archives(archive: str, case: dict[str, Any], unpacked: Path) -> None:
    with (
        open_case(unpacked / archive, case) as node,
        tegula.serve(node, port=0) as running,
    ):
        assert same(read_by_zarr(running.url), node[...])


def test_consolidated_metadata_are_made_up(unpacked: Path) -> None:
    old = tegula.create_group({}, format="zarr2", attributes={"title": "a"})
    old.create_group("below")["x"] = np.arange(4)
    old["y"] = [0.5]
    with tegula.serve(old, port=0) as running:
        group = zarr.open_group(running.url, mode="r", use_consolidated=True)
        assert sorted(name for name, _ in group.members(max_depth=None)) == ["below", "below/x", "y"]
        assert dict(group.attrs) == {"title": "a"}
        assert group["below/x"][:].tolist() == [0, 1, 2, 3]
        old["z"] = [1]
        assert "z" not in group  # it was opened before


# --- zarrita, in Node


@pytest.fixture(scope="module")
def zarrita() -> Path:
    """Return a folder in which Node finds zarrita, which is installed there if that is possible."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    folder = ROOT / "viewer"
    if not (folder / "node_modules" / "zarrita").is_dir():
        folder = Path(os.environ.get("TEGULA_ZARRITA") or Path(tempfile.gettempdir()) / "tegula-zarrita")
        folder.mkdir(exist_ok=True)
    if not (folder / "node_modules" / "zarrita").is_dir():
        (folder / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "zarrita@^0.7"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        if result.returncode:
            pytest.skip(f"zarrita can't be installed: {result.stderr:.200}")
    return folder


def read_by_zarrita(folder: Path, urls: list[str]) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("zarrita.mjs")
    result = subprocess.run(
        ["node", str(script), str(folder)],
        input=json.dumps(urls), capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in result.stdout.splitlines()]


def agree(values: list[Any], expected: np.ndarray[Any, Any]) -> bool:
    """Compare values in JSON with elements; numbers go through text, so that NaN and large integers survive."""
    flat = expected.ravel()
    if flat.dtype.kind in "iu":
        return [int(value) for value in values] == flat.tolist()
    if flat.dtype.kind == "f":
        actual = np.array([float(value.replace("Infinity", "inf")) for value in values], flat.dtype)
        return np.array_equal(actual, flat, equal_nan=True)
    if flat.dtype.kind == "b":
        return [bool(value) for value in values] == flat.tolist()
    return [str(value).rstrip("\0") for value in values] == [str(value) for value in flat.tolist()]


@pytest.mark.slow
def test_zarrita(server: Any, unpacked: Path, zarrita: Path) -> None:
    """All fixtures as they are, and cast to what browsers can show, read in one process of Node."""
    expected: dict[str, Any] = {}
    for archive, case in TOGETHER:
        path = path_of_case(archive, case)
        for name, array in arrays(open_case(unpacked / archive, case)).items():
            inner = f"{path}/{quote(name)}".rstrip("/")
            try:
                values = array[...]
            except tegula.UnsupportedError:
                continue
            if not np.size(values) or ask(server.url, f"/{inner}/zarr.json").status != 200:
                continue  # zarrita raises an error for an empty array
            if isinstance(values, np.ndarray) and values.dtype.kind not in "SVcO":
                expected[f"{server.url}/{inner}"] = np.asarray(values)
            to = suggested_cast(array.metadata.data_type)
            if to is not None:
                expected[f"{server.url}/as/{to}/{inner}"] = cast(np.asarray(values), np.dtype(to))
    lacking, wrong, done = [], [], 0
    for actual in read_by_zarrita(zarrita, [*expected]):
        values = expected[actual["url"]]
        if any(name in actual["url"] and "/as/float" not in actual["url"] for name in ZARRITA_FAILS):
            lacking.append(actual["url"])
        elif "error" in actual:
            known = any(lack in actual["error"] for lack in ZARRITA_LACKS)
            (lacking if known and "/as/" not in actual["url"] else wrong).append((actual["url"], actual["error"]))
        elif [*values.shape] != actual["shape"] or not agree(actual["values"], values):
            wrong.append((actual["url"], f"{actual['dtype']} {actual['values'][:5]} != {values.ravel()[:5]}"))
        else:
            done += 1
    assert not wrong, "\n".join(f"{url}: {why}" for url, why in wrong)
    assert done > 300
    assert len(lacking) < done / 2


@pytest.mark.slow
def test_zarrita_reads_many_arrays_as_one(tmp_path: Path, zarrita: Path) -> None:
    values, paths = many_arrays(tmp_path)
    tegula.save_view(tegula.concat(paths), tmp_path / "all.json")
    with (
        tegula.serve(tmp_path / "all.json", port=0) as whole,
        tegula.serve(tegula.concat(paths)[5:, ::-1], port=0) as part,
    ):
        for actual, expected in zip(read_by_zarrita(zarrita, [whole.url, part.url]), (values, values[5:, ::-1])):
            assert actual.get("shape") == [*expected.shape], actual
            assert agree(actual["values"], expected)


# --- GDAL, through /vsicurl


GDAL_LACKS = ("Unsupported codec", "Invalid or unsupported", "regular supported", "sharding", "invalid value for level")


def gdal() -> str:
    """Return a Python with rasterio whose GDAL knows the final Zarr v3, which needs a newer Python than tegula."""
    code = "import rasterio, sys; sys.exit(tuple(map(int, rasterio.__gdal_version__.split('.')[:2])) < (3, 11))"
    for python in filter(None, (os.environ.get("TEGULA_GDAL_PYTHON"), sys.executable)):
        if not subprocess.run([python, "-c", code], capture_output=True, check=False).returncode:
            return python
    return pytest.skip("there is no rasterio with GDAL 3.11; TEGULA_GDAL_PYTHON may name a Python that has it")


@pytest.mark.slow
def test_gdal(server: Any, unpacked: Path) -> None:
    """All fixtures that are rasters: numbers along two axes."""
    expected = {}
    for archive, case in TOGETHER:
        path = path_of_case(archive, case)
        for name, array in arrays(open_case(unpacked / archive, case)).items():
            if (
                array.ndim == 2
                and array.size
                and array.dtype.kind in "iuf"
                and array.itemsize > 1
                and 1 not in array.shape
            ):
                expected[f"{server.url}/{path}/{quote(name)}".rstrip("/")] = array[...]
    script = Path(__file__).with_name("gdal_reader.py")
    actual = subprocess.run(
        [gdal(), str(script)], input=json.dumps([*expected]), capture_output=True, text=True, timeout=300, check=True
    )
    wrong, done = [], 0
    for line in actual.stdout.splitlines():
        read = json.loads(line)
        values = expected[read["url"]]
        if "error" in read:
            if not any(lack in read["error"] for lack in GDAL_LACKS):
                wrong.append((read["url"], read["error"]))
            continue
        theirs = np.frombuffer(base64.b64decode(read["values"]), read["dtype"]).reshape(read["shape"])
        done += 1
        if theirs.shape != values.shape or not np.array_equal(theirs, values, equal_nan=values.dtype.kind == "f"):
            wrong.append((read["url"], f"{theirs.ravel()[:4]} != {values.ravel()[:4]}"))
    assert not wrong, "\n".join(f"{url}: {why}" for url, why in wrong)
    assert done > 20
