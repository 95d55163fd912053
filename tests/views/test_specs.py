"""Specs of TensorStore as views: what it writes is read, whatever layers it has, and what is not valid is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import TegulaError, UnsupportedError
from tegula.views import specs

VALUES = np.arange(40.0).reshape(8, 5)


def array_spec(**members: Any) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": "a/"}, "dtype": "float64", **members}


def transform(low: Any, high: Any, output: Any) -> dict[str, Any]:
    return {"input_inclusive_min": low, "input_exclusive_max": high, "output": output}


def nested(levels: int) -> Any:
    spec: Any = array_spec()
    for _ in range(levels):
        spec = {"driver": "cast", "dtype": "float32", "base": spec}
    return spec


BOTH = [{"input_dimension": 0}, {"input_dimension": 1}]


@pytest.mark.parametrize(
    "spec",
    [
        nested(40),
        {"driver": "downsample", "base": array_spec()},
        {"driver": "stack", "layers": []},
        {"driver": "stack", "layers": 3},
        {"driver": "stack", "layers": [3]},
        {
            "driver": "stack",
            "layers": [array_spec(), array_spec(transform=transform([0], [8], [*BOTH[:1], {"offset": 0}]))],
        },
        {"driver": "cast", "dtype": "float32"},
        {"driver": "cast", "dtype": "object", "base": array_spec()},
        array_spec(kvstore=None),
        array_spec(kvstore={"driver": "memory"}),
        array_spec(kvstore={"driver": "s3", "path": "x"}),
        array_spec(path=7),
        array_spec(dtype="S5", transform=transform([0, 0], [8, 5], BOTH)),
        array_spec(create=True),
        array_spec(fill_missing_data_reads=0),
        array_spec(metadata_key="other.json"),
        array_spec(kvstore={"driver": "s3", "bucket": "b", "path": "a", "endpoint": "http://other"}),
        array_spec(kvstore="file:///a/|zarr3:"),
        array_spec(transform=3),
        array_spec(transform={}),
        array_spec(transform={"input_exclusive_max": "x"}),
        array_spec(transform=transform([0, 0], [8, 2**70], BOTH)),
        array_spec(transform=transform([0, 9], [8, 5], BOTH)),
        array_spec(transform=transform([0], [8, 5], BOTH)),
        array_spec(transform=transform([-1, 0], [8, 5], BOTH)),
        array_spec(transform=transform([0, 0], [8, 5], [{"input_dimension": 0}, {"input_dimension": 0}])),
        array_spec(transform=transform([0, 0], [8, 5], [{"input_dimension": 0}, {"offset": 2}])),
        array_spec(transform=transform([0, 0], [8, 10**15], [{"input_dimension": 0}, {"index_array": [[2]]}])),
        array_spec(transform=transform([0, 0], [8, 5], [{"input_dimension": 2}, {"offset": -1}])),
        array_spec(transform=transform([0, 0], [8, 5], [{"offset": -1}, {"offset": 0}])),
        array_spec(transform=transform([0], [8], [{"index_array": [[1]]}, {"offset": 0}])),
        array_spec(transform=transform([0], [2], [{"index_array": [1, "x"]}, {"offset": 0}])),
        array_spec(transform=transform([0], [2], [{"index_array": [1, -2]}, {"offset": 0}])),
        array_spec(transform={**transform([0, 0], [8, 5], BOTH), "input_labels": [1, 2]}),
        array_spec(transform={**transform([0, 0], [8, 5], BOTH), "more": 1}),
    ],
)
def test_documents_that_are_not_valid_are_refused(tmp_path: Path, spec: Any) -> None:
    tegula.create_array(tmp_path / "a", data=VALUES)
    (tmp_path / "v.json").write_text(json.dumps(spec))
    with pytest.raises(TegulaError) as caught:
        tegula.open(tmp_path / "v.json")
    assert caught.value.path is not None


@pytest.mark.parametrize(
    "spec",
    [
        array_spec(transform=transform([0, 0], [9, 5], BOTH)),
        array_spec(transform=transform([0, 0], [2**60, 2**60], BOTH)),
        array_spec(transform=transform([0], [8], [{"input_dimension": 0}])),
    ],
)
def test_elements_that_an_array_lacks_are_an_error_when_they_are_read(tmp_path: Path, spec: Any) -> None:
    tegula.create_array(tmp_path / "a", data=VALUES)
    (tmp_path / "v.json").write_text(json.dumps(spec))
    view = tegula.open(tmp_path / "v.json")
    with pytest.raises(TegulaError):
        view[..., :2][...]


def opened(path: Path, spec: Any) -> Any:
    (path / "v.json").write_text(json.dumps(spec))
    return tegula.open(path / "v.json")


@pytest.mark.parametrize("minimal", [False, True])
def test_what_tensorstore_writes_is_read(tmp_path: Path, minimal: bool) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    arrays = []
    for number, (driver, format) in enumerate([("zarr", "zarr2"), ("zarr3", "zarr3"), ("zarr", "zarr2")]):
        path = tmp_path / str(number)
        tegula.create_array(path, data=VALUES + 100 * number, format=format, chunks=(3, 2))
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}
        arrays.append(tensorstore.open(spec, open=True).result())
    for store in (
        tensorstore.concat(arrays, axis=0),
        tensorstore.stack(arrays, axis=1),
        tensorstore.concat(arrays, axis=1)[2:, ::-2],
        tensorstore.overlay([arrays[0], arrays[1].translate_by[3, 0]]),
        tensorstore.cast(arrays[0], np.float32),
        arrays[1][::2, 1],
        arrays[1].oindex[[1, 3, 0]],
        arrays[1].translate_to[-7, 40],
    ):
        spec = store.spec(minimal_spec=minimal).to_json()
        np.testing.assert_array_equal(opened(tmp_path, spec)[...], store.read().result(), strict=True)


def layer(name: str, begin: tuple[int, int], **members: Any) -> dict[str, Any]:
    end = [start + size for start, size in zip(begin, VALUES.shape)]
    maps = [{"input_dimension": axis, "offset": -start} for axis, start in enumerate(begin)]
    kvstore = {"driver": "file", "path": f"{name}/"}
    return array_spec(kvstore=kvstore, transform=transform([*begin], end, maps), **members)


@pytest.mark.parametrize(
    "places",
    [[(0, 0), (8, 0)], [(8, 0), (0, 0)], [(-3, 7), (0, 0)], [(0, 0), (2, 2)], [(0, 0), (0, 5), (8, 0), (8, 5)]],
)
def test_layers_are_those_of_tensorstore(tmp_path: Path, places: list[tuple[int, int]]) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    for number in range(len(places)):
        tegula.create_array(tmp_path / str(number), data=VALUES + 100 * number)
    layers = [layer(str(number), place) for number, place in enumerate(places)]
    view = opened(tmp_path, {"driver": "stack", "layers": layers})
    for one in layers:
        one["kvstore"] = {"driver": "file", "path": f"{tmp_path}/{one['kvstore']['path']}"}
    other = tensorstore.open({"driver": "stack", "layers": layers, "dtype": "float64"}).result()
    assert view.shape == other.shape
    for index in np.ndindex(view.shape):
        try:
            expected = other[tensorstore.d[:].translate_to[0]][index].read().result()
        except ValueError:
            with pytest.raises(TegulaError, match="no layer"):
                view[index][...]
        else:
            assert view[index][...] == expected


def test_a_spec_without_shapes_opens_its_arrays_together(tmp_path: Path) -> None:
    for number in range(3):
        tegula.create_array(tmp_path / str(number), data=VALUES + number, format="zarr2")
    layers = [{"driver": "zarr", "kvstore": {"driver": "file", "path": f"{number}"}} for number in range(3)]
    layers[1]["transform"] = layers[0]["transform"] = {"input_exclusive_max": [[8], [5]]}
    assert (
        opened(tmp_path, {"driver": "stack", "dtype": "float64", "layers": layers})[...].tolist()
        == (VALUES + 2).tolist()
    )


@pytest.mark.parametrize(
    "address",
    ["/etc/", "../x/", "file:///etc", "FILE:///etc", "local:///etc", "memory://x", "simplecache::file:///etc",
     "a::file:///etc", "reference:///etc/x", "s3://b/x::file:///etc", "zip:///etc/x.zip", "data:,x", "ftp://host/x"],
)  # fmt: skip
def test_a_document_elsewhere_names_nothing_on_this_machine(address: str) -> None:
    reader = specs.SpecReader("", "https://host/folder", True, "r", {"token": "x"}, fail)
    for spec in (array_spec(kvstore=address), array_spec(kvstore={"driver": "file", "path": address})):
        with pytest.raises(UnsupportedError, match="elsewhere"):
            reader.layer(spec)


def fail(*arguments: Any, **options: Any) -> Any:
    raise AssertionError(arguments)


@pytest.mark.parametrize(
    ("folder", "remote", "address", "options"),
    [
        ("https://host/folder", True, "a/", {"token": "x"}),
        ("https://host/folder", True, "https://host/b", {"token": "x"}),
        ("https://host/folder", True, "https://other/b", None),
        ("/folder", False, "https://other/b", {"token": "x"}),
        ("/folder", False, "a", None),
    ],
)
def test_options_are_those_of_the_storage_that_they_are_meant_for(
    folder: str, remote: bool, address: str, options: Any
) -> None:
    found: list[Any] = []

    def open_array(target: str, mode: str, **options: Any) -> Any:
        found.append(options["storage_options"])
        return tegula.create_array({}, data=VALUES)

    specs.SpecReader("", folder, remote, "r", {"token": "x"}, open_array).layer({"driver": "zarr3", "kvstore": address})
    assert found == [options]


def test_a_document_that_names_itself_is_no_array(tmp_path: Path) -> None:
    with pytest.raises(TegulaError, match="no array"):
        opened(tmp_path, {"driver": "zarr3", "kvstore": "v.json"})
