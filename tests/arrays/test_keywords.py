"""Unknown keywords: the error names the equivalent or the known ones."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
import tegula.bcolz
from tegula.arrays.foreign_names import ATTRIBUTES, FOREIGN_NAMES, KEYWORDS
from tegula.errors import MetadataError, SelectionError, TegulaError


def calls() -> dict[str, Callable[..., Any]]:
    g = tegula.create_group({})
    t = tegula.create_table({}, {"a": [1]})
    return {
        "create_array": lambda **given: tegula.create_array({}, shape=3, dtype="u1", **given),
        "create_group": lambda **given: tegula.create_group({}, **given),
        "create_table": lambda **given: tegula.create_table({}, {"a": [1]}, **given),
        "open": lambda **given: tegula.open({}, "a", **given),
        "open_array": lambda **given: tegula.open_array({}, "a", shape=3, **given),
        "open_group": lambda **given: tegula.open_group({}, "a", **given),
        "zeros": lambda **given: tegula.zeros(3, **given),
        "array": lambda **given: tegula.array([1], **given),
        "ones_like": lambda **given: tegula.ones_like([1], **given),
        "Group.create_array": lambda **given: g.create_array("x", shape=3, dtype="u1", **given),
        "Group.require_array": lambda **given: g.require_array("y", shape=3, dtype="u1", **given),
        "Table.add_column": lambda **given: t.add_column("b", [2], **given),
    }


OFTEN = ["compressor", "zarr_format", "zarr_version", "compression", "compression_opts", "chunk_shape", "maxshape"]
OFTEN += ["fillvalue", "dimension_separator", "serializer", "filters", "driver"]


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("call", [*calls()])
@pytest.mark.parametrize("keyword", OFTEN)
def test_other_libraries_keywords_name_the_equivalent(call: str, keyword: str) -> None:
    with pytest.raises(TypeError, match=f"'{keyword}'; (in tegula that is|leave it out:) ") as found:
        calls()[call](**{keyword: None})
    assert isinstance(found.value, MetadataError)
    assert KEYWORDS[keyword] in str(found.value)


@pytest.mark.parametrize("call", ["Group.create_array", "Group.require_array", "Table.add_column"])
def test_a_node_has_its_storage_options(call: str) -> None:
    with pytest.raises(TypeError, match="storage_options= of the function that takes the URL"):
        calls()[call](storage_options={})


def test_a_misspelt_keyword_gets_a_suggestion() -> None:
    with pytest.raises(TypeError, match="did you mean fill_value="):
        tegula.create_array({}, shape=3, dtype="u1", fil_value=3)
    with pytest.raises(TypeError, match=r"the keywords are .*attributes"):
        tegula.create_group({}, qqq=3)


def test_a_refused_call_creates_nothing() -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(MetadataError):
        tegula.open(store, "w", shape=3, mode_=1)
    with pytest.raises(MetadataError):
        tegula.zeros(3, store=store, compressor="zstd")
    assert not store


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: tegula.copy(g, {}, if_exists="replace"), "copy has no keyword 'if_exists'; .*overwrite=True"),
        (lambda g: g.copy("x", "y", dest="z"), "target="),
        (lambda g: g.members(max_depth=None), r"walk\(\)"),
        (lambda g: g.arrays(recurse=True), r"walk\(\)"),
        (lambda g: g.tree(level=2), "max_depth="),
        (lambda g: g.move("x", dest="y"), "target="),
        (lambda g: g.create_group("y", attrs={}), "attributes="),
        (lambda g: g.require_group("y", overwrite=True), r"create_group\(name, overwrite=True\)"),
        (lambda g: g.require_array("x", shape=3, dtype="u1", compression="gzip"), "codecs="),
        (lambda g: tegula.load(g.store, zarr_format=2), "the format is detected"),
        (lambda _: tegula.zeros(3, fill_value=1), r"tegula\.full\("),
        (lambda g: tegula.ones_like(g["x"], fill_value=1), r"tegula\.full_like\("),
        (lambda g: g.create_array("y", (3,), "u1"), "by position; .* shape=, dtype="),
        (lambda _: tegula.create_array({}, (3,)), "by position; .* shape=, dtype="),
        (lambda g: g.create_array("y", name="z", shape=3), "create_array got name by position and again by name"),
        (lambda g: tegula.open_table(g.store, shape=3), "open_table has no keyword 'shape'"),
        (lambda g: g["x"].resize(4, shap=5), "resize has no keyword 'shap'; it takes none"),
        (lambda g: g["x"].astype("i4", copy=True), "astype has no keyword 'copy'"),
        (lambda g: g["x"].to_dask(chunk=2), "did you mean chunks="),
        (lambda g: g.view(heigt=2), "did you mean height="),
    ],
)
def test_every_function_of_the_hierarchy_has_these_errors(call: Callable[[Any], Any], words: str) -> None:
    store: dict[str, bytes] = {}
    g = tegula.create_group(store)
    g.create_array("x", shape=3, dtype="u1")
    before = dict(store)
    with pytest.raises(TypeError, match=words) as found:
        call(g)
    assert isinstance(found.value, MetadataError)
    assert store == before


def test_save_says_which_options_it_has() -> None:
    with pytest.raises(MetadataError, match="zarr_format would be names; the options are path=, format="):
        tegula.save({}, [1], zarr_format=2)


def test_names_of_other_libraries_have_equivalents() -> None:
    for name, ours in FOREIGN_NAMES.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; in tegula that is ") as found:
            getattr(tegula, name)
        assert found.value.name == name
        first = re.match(r"(tegula\.)?(\w+)[(.,]?", ours)
        assert first is not None
        assert "(" not in ours or hasattr(tegula, first[2])
    g = tegula.create_group({})
    for node in (g, g.create_array("x", shape=3, dtype="u1")):
        for name in ATTRIBUTES:
            if not hasattr(node, name):
                with pytest.raises(AttributeError, match="in tegula that is "):
                    getattr(node, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = tegula.nothing


def test_no_own_keyword_counts_as_foreign() -> None:
    ours = {*tegula.create_array.__wrapped__.__code__.co_varnames}
    assert not ours & {*KEYWORDS} - {"store", "data", "storage_options"}


@pytest.mark.parametrize("name", ["mean", "sum", "reshape", "tolist"])
def test_a_method_of_numpy_is_refused_with_the_way_to_it(name: str) -> None:
    a = tegula.create_array({}, data=np.arange(3))
    with pytest.raises(AttributeError, match=rf"read the elements first, as in a\[\.\.\.\]\.{name}$"):
        getattr(a, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'$"):
        getattr(tegula.create_group({}), name)


def test_values_that_can_not_be_appended_are_an_error_that_names_the_array() -> None:
    for format in ("zarr3", "bcolz"):
        a = tegula.create_array({}, shape=(2, 3), dtype="u1", format=format)
        with pytest.raises(SelectionError) as caught:
            a.append([1, 2])
        assert caught.value.path == a.store.url


HUGE = [10**5000, 10**400, -(10**400), 2**63, float("inf"), float("nan")]


@pytest.mark.parametrize("number", HUGE, ids=["10**5000", "10**400", "-10**400", "2**63", "inf", "nan"])
def test_no_number_is_too_large_for_an_error_of_tegula(number: Any) -> None:
    bcolz = pytest.importorskip("tegula.bcolz")
    calls = [
        lambda: tegula.create_array({}, shape=number, dtype="u1"),
        lambda: tegula.create_array({}, shape=(2, number), dtype="u1"),
        lambda: tegula.create_array({}, shape=4, dtype="u1", chunks=(number, 2)),
        lambda: tegula.create_array({}, shape=4, dtype="u1", chunks=2, shards=(number,)),
        lambda: tegula.create_array({}, shape=4, dtype="i4", fill_value=number),
        lambda: tegula.zeros(number),
        lambda: tegula.full(3, number, dtype="i4"),
        lambda: tegula.create_table({}, {"a": [1]}, expectedlen=number),
        lambda: tegula.create_array({}, shape=4, dtype="u1").resize(number),
    ]
    if number != HUGE[0]:
        calls.append(lambda: bcolz.carray([1], expectedlen=number))
    if number != 2**63:
        calls.append(lambda: bcolz.utils.calc_chunksize(number))
    for call in calls:
        with pytest.raises(tegula.TegulaError):
            call()


def test_integers_that_can_not_be_printed_are_refused_by_errors_of_tegula() -> None:
    huge, group, array = 10**5000, tegula.create_group({}), tegula.create_array({}, data=[1, 2])
    calls: list[Any] = [
        lambda: group.create_dataset("q", huge, data=[1]),
        lambda: tegula.full_like(array, 1, shape=huge),
        lambda: array.append([1], axis=huge),
        lambda: group[huge],  # type: ignore[index]
        lambda: tegula.open(huge),  # type: ignore[arg-type]
        lambda: tegula.compare(array, huge),  # type: ignore[arg-type]
        lambda: tegula.bcolz.zeros(huge),
        lambda: tegula.bcolz.fill(huge, 1),
    ]
    for call in calls:
        with pytest.raises(TegulaError, match="too large to be printed"):
            call()


def test_a_target_that_is_not_the_first_parameter_is_also_called_store(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    write = importlib.import_module("tegula.xarray").write
    write(xr.Dataset({"x": ("t", [1, 2, 3])}), store=tmp_path / "x.zarr")
    assert tegula.open(tmp_path / "x.zarr")["x"][:].tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="write has no keyword 'compresion'"):
        write(xr.Dataset(), tmp_path / "y.zarr", compresion=1)
    importlib.import_module("tegula.references").write(tmp_path / "x.zarr", store=tmp_path / "x.json")
    assert tegula.open(tmp_path / "x.json")["x"][:].tolist() == [1, 2, 3]
    da = pytest.importorskip("dask.array")
    importlib.import_module("tegula.dask").store(da.arange(4, chunks=2), store=tmp_path / "d.zarr", chunks=2)
    assert tegula.open(tmp_path / "d.zarr")[:].tolist() == [0, 1, 2, 3]
