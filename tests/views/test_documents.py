"""Views stored as documents: what is read is what was stored, here and by TensorStore, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tegula
import tegula.tensorstore as ts
from tegula.cli.program import app
from tegula.errors import MetadataError, NotFoundError, ReadOnlyError, TegulaError, UnsupportedError

from .chains import steps

VALUES = np.arange(40.0).reshape(8, 5)


@pytest.fixture
def arrays(tmp_path: Path) -> list[tegula.Array]:
    """Three arrays of different formats with the same shape."""
    formats = {"a": "zarr3", "b": "zarr2", "sub/c": "bcolz"}
    return [
        tegula.create_array(tmp_path / name, data=VALUES + 100 * number, format=format)
        for number, (name, format) in enumerate(formats.items())
    ]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_view_is_read_as_it_was_stored(tmp_path: Path, arrays: list[tegula.Array], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["one", "concat", "stack"]))
    axis = data.draw(st.integers(0, 1))
    view: Any = arrays[0].lazy if kind == "one" else getattr(tegula, kind)(arrays, axis)
    for _ in range(data.draw(st.integers(0, 3))):
        step = data.draw(steps(view.shape))
        try:
            step.of_array(np.empty(view.shape, "V0"))
        except IndexError:
            break
        if isinstance(step.value, tuple) and not step.value:
            break
        if (selected := step.of_view(view)).ndim > 6 or selected.size > 5000:
            break
        view = selected
    if data.draw(st.booleans()):
        view = view.astype("f4")
    tegula.save_view(view, tmp_path / "view.json")
    again = tegula.open(tmp_path / "view.json")
    np.testing.assert_array_equal(again[...], view[...], strict=True)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again))[...], view[...])


def test_documents_are_specs_of_tensorstore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    monkeypatch.chdir(tmp_path)
    arrays = [
        tegula.create_array(f"{format}.zarr", data=VALUES, format=format, dimension_names=["t", "x"])
        for format in ("zarr2", "zarr3")
    ]
    views = [tegula.concat(arrays)[3:12, ::-2], tegula.stack(arrays, 2).T, arrays[1].lazy[[1, 3]].astype("f4")]
    for view in views:
        tegula.save_view(view, "view.json")
        spec = json.loads(Path("view.json").read_text())
        for library in (tensorstore, ts):
            opened = library.open(spec, open=True).result()
            np.testing.assert_array_equal(opened.read().result(), view[...])
    again = tegula.open("view.json")
    assert again.dimension_names == ("t", "x")


def test_arrays_move_with_the_document(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    tegula.create_array(tmp_path / "old" / "a", data=VALUES)
    outside = tegula.create_array(tmp_path / "b", data=VALUES + 1)
    view = tegula.concat([tmp_path / "old" / "a", outside])
    tegula.save_view(view, tmp_path / "old" / "v.json")
    (tmp_path / "old").rename(tmp_path / "new")
    np.testing.assert_array_equal(tegula.open(tmp_path / "new" / "v.json")[...], [*VALUES, *(VALUES + 1)])


def test_members_are_opened_when_they_are_needed(tmp_path: Path, arrays: list[tegula.Array]) -> None:
    tegula.save_view(tegula.concat(arrays), tmp_path / "v.json")
    tegula.delete(tmp_path / "b")
    view = tegula.open(tmp_path / "v.json")
    assert (view.shape, view.dtype, view.read_only) == ((24, 5), "f8", True)
    np.testing.assert_array_equal(view[17:][...], VALUES[1:] + 200)
    with pytest.raises(NotFoundError):
        view[...]
    with pytest.raises(ReadOnlyError):
        view[0] = 1
    tegula.open(tmp_path / "v.json", mode="r+")[0] = 7
    assert arrays[0][0].tolist() == [7] * 5
    tegula.create_array(tmp_path / "b", data=VALUES.astype("i4"), format="zarr2")
    with pytest.raises(MetadataError, match="not 2 and float64"):
        view[8:10][...]
    assert tegula.convert(tegula.open(tmp_path / "v.json")[:8], tegula.MemoryStore()).arrays[0].shape == (8, 5)


def test_fields_and_types_that_specs_lack(tmp_path: Path) -> None:
    records = tegula.create_array(tmp_path / "r", data=np.zeros(3, [("a", "i4"), ("b", "f8")]), format="zarr2")
    tegula.save_view(records.lazy["b"][1:], tmp_path / "v.json")
    assert tegula.open(tmp_path / "v.json")[...].tolist() == [0.0, 0.0]
    dates = tegula.create_array(tmp_path / "d", data=np.array(["2020-01-01"], "M8[s]"), format="zarr2")
    tegula.save_view(dates.lazy, tmp_path / "w.json")
    assert tegula.open(tmp_path / "w.json")[...] == np.array(["2020-01-01"], "M8[s]")
    for view in (records.lazy[["a"]], tegula.create_array({}, data=[1]).lazy, records.lazy["b"].astype("M8[s]")):
        with pytest.raises(UnsupportedError):
            tegula.save_view(view, tmp_path / "x.json")
    with pytest.raises(UnsupportedError, match="on this machine only"):
        tegula.save_view(dates.lazy, "s3://bucket/v.json")


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
        {"driver": "stack", "layers": [array_spec(), array_spec()]},
        {"driver": "cast", "dtype": "float32"},
        {"driver": "cast", "dtype": "object", "base": array_spec()},
        array_spec(kvstore=None),
        array_spec(kvstore={"driver": "memory"}),
        array_spec(kvstore={"driver": "s3", "path": "x"}),
        array_spec(path=7),
        array_spec(dtype="S5", transform=transform([0, 0], [8, 5], BOTH)),
        array_spec(schema={}),
        array_spec(transform=3),
        array_spec(transform={}),
        array_spec(transform={"input_exclusive_max": "x"}),
        array_spec(transform=transform([0, 0], [8, 2**70], BOTH)),
        array_spec(transform=transform([0, 9], [8, 5], BOTH)),
        array_spec(transform=transform([0], [8, 5], BOTH)),
        array_spec(transform=transform([-1, 0], [8, 5], BOTH)),
        array_spec(transform=transform([0, 0], [8, 5], [{"input_dimension": 0}, {"input_dimension": 0}])),
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


def test_other_json_is_no_view(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text('{"driver": 3}')
    with pytest.raises(TegulaError, match=r"v\.json"):
        tegula.open(tmp_path / "v.json")


@pytest.mark.slow
def test_documents_elsewhere_name_arrays_beside_them_only(http_server: Any) -> None:
    from tests.servers.static import StaticServer  # noqa: PLC0415 - only where the server is

    assert isinstance(http_server, StaticServer)
    bucket = http_server.bucket()
    directory = http_server.directory(bucket)
    tegula.create_array(directory / "a", data=VALUES)
    tegula.save_view(tegula.open(directory / "a").lazy[2:], directory / "v.json")
    np.testing.assert_array_equal(
        tegula.open(f"{bucket.url}/v.json", storage_options=bucket.storage_options)[...], VALUES[2:]
    )
    for path in ("/etc/", "../x/", str(directory / "a")):
        (directory / "w.json").write_text(json.dumps(array_spec(kvstore={"driver": "file", "path": path})))
        with pytest.raises(UnsupportedError, match="on this machine"):
            tegula.open(f"{bucket.url}/w.json", storage_options=bucket.storage_options)


def test_functions_and_the_program_take_documents(tmp_path: Path, arrays: list[tegula.Array]) -> None:
    tegula.save_view(tegula.concat(arrays)[::2], tmp_path / "v.json")
    expected = np.concatenate([VALUES, VALUES + 100, VALUES + 200])[::2]
    np.testing.assert_array_equal(tegula.load(tmp_path / "v.json"), expected)
    assert tegula.convert(tmp_path / "v.json", tmp_path / "out.zarr").arrays[0].shape == (12, 5)
    assert tegula.compare(tmp_path / "v.json", tmp_path / "out.zarr").equal
    result = CliRunner().invoke(app, ["head", str(tmp_path / "v.json"), "-n", "1"])
    assert result.exit_code == 0, result.output
    assert "0" in result.output


def test_names_of_dimensions_are_those_of_the_view(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "a", data=VALUES, format="zarr2", dimension_names=["t", "x"])
    for view, names in ((array.lazy.T, ("x", "t")), (tegula.concat([array, array.lazy.T[:, :5]]), None)):
        shown = tegula.open(view)
        assert (shown.dimension_names, dict(shown.attrs)) == (names, {})
