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
from tegula.errors import MetadataError, NotFoundError, ReadOnlyError, SelectionError, TegulaError, UnsupportedError

from .chains import steps
from .test_specs import array_spec

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
    with pytest.raises(MetadataError, match=r"ends in \.json"):
        tegula.save_view(dates.lazy, tmp_path / "v")
    with pytest.raises(MetadataError, match="only a view or an array"):
        tegula.save_view(str(tmp_path / "d"), tmp_path / "v.json")  # type: ignore[arg-type]
    tegula.save_view(dates, tmp_path / "v.json")  # type: ignore[arg-type]
    assert tegula.open(tmp_path / "v.json").shape == (1,)


def test_arrays_that_show_views_are_stored_as_these(tmp_path: Path, arrays: list[tegula.Array]) -> None:
    shown = tegula.open(tegula.concat(arrays)[2:, ::-1])
    tegula.save_view(shown.lazy[::2].T.astype("f4"), tmp_path / "v.json")
    expected = np.concatenate([VALUES, VALUES + 100, VALUES + 200])[2:, ::-1][::2].T.astype("f4")
    np.testing.assert_array_equal(tegula.open(tmp_path / "v.json")[...], expected, strict=True)
    cast = tegula.open(arrays[1].lazy.astype("f4")).lazy.astype("i2")
    tegula.save_view(tegula.concat([shown.lazy.astype("i2"), cast]), tmp_path / "v.json")
    assert tegula.open(tmp_path / "v.json")[20:24, 0][...].tolist() == [234, 239, 100, 105]


def test_stacks_with_gaps_are_stored(tmp_path: Path, arrays: list[tegula.Array]) -> None:
    tegula.save_view(tegula.concat(arrays), tmp_path / "v.json")
    spec = json.loads((tmp_path / "v.json").read_text())
    del spec["layers"][1]
    (tmp_path / "v.json").write_text(json.dumps(spec))
    tegula.save_view(tegula.open(tmp_path / "v.json")[6:], tmp_path / "w.json")
    view = tegula.open(tmp_path / "w.json")
    np.testing.assert_array_equal(view[10:][...], VALUES + 200)
    with pytest.raises(SelectionError, match="no layer"):
        view[9:][...]
    del spec["layers"][1]
    (tmp_path / "v.json").write_text(json.dumps(spec))
    with pytest.raises(MetadataError, match="leaves"):
        tegula.open(tmp_path / "v.json")


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
    assert tegula.copy(tmp_path / "v.json", tmp_path / "copy.zarr").arrays == 1
    assert tegula.compare(tmp_path / "copy.zarr", tmp_path / "v.json").equal
    assert tegula.check(tmp_path / "v.json").ok
    assert tegula.open_array(tmp_path / "v.json").shape == (12, 5)
    for open_other in (tegula.open_group, tegula.open_table):
        with pytest.raises(NotFoundError, match="there is a"):
            open_other(tmp_path / "v.json")
    np.testing.assert_array_equal(tegula.concat([tmp_path / "v.json", arrays[0]])[...], [*expected, *VALUES])
    result = CliRunner().invoke(app, ["head", str(tmp_path / "v.json"), "-n", "1"])
    assert result.exit_code == 0, result.output
    assert "0" in result.output


def test_names_of_dimensions_are_those_of_the_view(tmp_path: Path) -> None:
    names = ["t", "x"]
    array = tegula.create_array(tmp_path / "a", data=VALUES, format="zarr2", dimension_names=names, fill_value=None)
    for view, names in ((array.lazy.T, ("x", "t")), (tegula.concat([array, array.lazy.T[:, :5]]), None)):
        shown = tegula.open(view)
        assert (shown.dimension_names, dict(shown.attrs)) == (names, {})
