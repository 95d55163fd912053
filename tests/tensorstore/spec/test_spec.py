"""`Spec`, `OpenMode` and `open` against TensorStore itself: flags, constraints, views and URLs."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import outcome

import tegula.tensorstore as ts
from tegula.tensorstore.errors import ArgumentTypeError

LAW = settings(deadline=None, max_examples=150)
BASE = {"driver": "zarr", "kvstore": {"driver": "memory"}}
KNOWN = {**BASE, "metadata": {"shape": [5, 6, 7], "dtype": "<u2", "chunks": [2, 3, 4]}}
FLAGS = ("open", "create", "delete_existing", "assume_metadata", "assume_cached_metadata")


def shown(call: Callable[[], Any]) -> Any:
    return outcome(lambda: repr(call()))


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def both(call: Callable[[Any], Any]) -> None:
    assert shown(lambda: call(ts)) == shown(lambda: call(tensorstore))


flags = st.fixed_dictionaries({}, optional=dict.fromkeys(FLAGS, st.booleans()))


@given(flags, flags, st.none() | flags)
@LAW
def test_flags_are_merged_the_same(first: dict[str, bool], then: dict[str, bool], mode: dict[str, bool] | None) -> None:
    def updated(library: Any) -> Any:
        spec = library.Spec({**BASE, **first})
        spec.update(**then, **({} if mode is None else {"open_mode": library.OpenMode(**mode)}))
        return spec, spec.open_mode, text(spec.to_json(include_defaults=True))

    both(updated)


@given(flags, st.none() | st.booleans(), st.none() | st.booleans())
@LAW
def test_flags_and_modes_fit_the_same(options: dict[str, bool], read: bool | None, write: bool | None) -> None:
    def opened(library: Any) -> Any:
        spec = {**KNOWN, "kvstore": "memory://"}
        array = library.open(spec, read=read, write=write, context=library.Context(), **options).result()
        return array.mode, array.readable, array.writable

    both(opened)


@pytest.mark.parametrize(
    "constraints",
    [
        {"shape": [5, 6, 7]},
        {"shape": [5, 6]},
        {"shape": [5, 6, 8]},
        {"rank": 3},
        {"rank": 2},
        {"dtype": "uint16"},
        {"dtype": "int8"},
        {"fill_value": 5},
        {"fill_value": [[1, 2], [3, 4]]},
        {"dimension_units": ["nm", None, (2, "s")]},
        {"recheck_cached": False},
        {"recheck_cached_data": 5.5},
        {"recheck_cached_metadata": "open"},
        {"recheck_cached": "x"},
        {"minimal_spec": True},
    ],
    ids=repr,
)
@pytest.mark.parametrize("members", [BASE, KNOWN], ids=["unknown", "known"])
def test_updates_mean_the_same(members: dict[str, Any], constraints: dict[str, Any]) -> None:
    def updated(library: Any) -> Any:
        spec = library.Spec(members)
        spec.update(**constraints)
        return spec

    both(updated)


VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "slice": lambda spec, _: spec[1:3, 2],
    "stride": lambda spec, _: spec[::2],
    "label": lambda spec, _: spec.label["x", "y", "z"],
    "labelled": lambda spec, ts: spec[ts.d[0].label["x"]],
    "translate": lambda spec, _: spec.translate_by[5, 6, 7],
    "translate_to": lambda spec, _: spec.translate_to[1],
    "T": lambda spec, _: spec.T,
    "transpose": lambda spec, _: spec.transpose([2, 0, 1]),
    "newaxis": lambda spec, ts: spec[:, ts.newaxis],
    "oindex": lambda spec, _: spec.oindex[[1, 2], :, [0, 3]],
    "vindex": lambda spec, _: spec.vindex[[1, 2], :, [0, 3]],
    "implicit": lambda spec, _: spec.mark_bounds_implicit[False],
    "domain": lambda spec, ts: spec[ts.IndexDomain(shape=[2, 2, 2])],
}
PARTS = ("domain", "rank", "shape", "origin", "size", "transform", "chunk_layout", "dimension_units", "schema", "dtype")


@pytest.mark.parametrize("name", [*VIEWS])
@pytest.mark.parametrize("part", PARTS)
def test_views_mean_the_same(name: str, part: str) -> None:
    if part == "schema" and name in ("slice", "newaxis", "vindex"):  # TensorStore fails if the rank differs
        assert VIEWS[name](ts.Spec(KNOWN), ts).schema.rank == VIEWS[name](ts.Spec(KNOWN), ts).rank
        return
    both(lambda library: getattr(VIEWS[name](library.Spec(KNOWN), library), part))


@pytest.mark.parametrize("name", [*VIEWS])
def test_views_are_written_the_same(name: str) -> None:
    both(lambda library: VIEWS[name](library.Spec(KNOWN), library))


@pytest.mark.parametrize("name", ["translate", "T", "transpose"])
@pytest.mark.parametrize(
    "constraints",
    [
        {"fill_value": 3},
        {"dimension_units": ["1nm", "2nm", "3nm"]},
        {"rank": 2},
        {"dtype": "uint16"},
    ],
    ids=repr,
)
def test_constraints_on_views_mean_the_same(name: str, constraints: dict[str, Any]) -> None:
    def updated(library: Any) -> Any:
        spec = VIEWS[name](library.Spec(KNOWN), library)
        spec.update(**constraints)
        return spec

    both(updated)
    both(lambda library: VIEWS[name](library.Spec(BASE), library))


def test_chunks_of_a_view_are_those_of_the_array() -> None:
    def updated(library: Any) -> Any:
        spec = library.Spec({**BASE, "metadata": {"shape": [5, 6], "dtype": "<u2"}})[::1, 1:5].T.translate_by[3, 4]
        spec.update(chunk_layout=library.ChunkLayout(chunk_shape=[2, 3]))
        return spec

    both(updated)


@pytest.mark.parametrize(
    "url",
    [
        "memory://a|zarr2:", "memory://a|zarr2", "memory://a/|zarr2:b/c", "memory://a|zarr2:b%20c", "memory://a",
        "", "zarr2:", "memory://a|zarr2:b?x=1", "memory://a|zarr2:b#f", "memory://a|zarr2:|zarr3:",
        "file:///tmp/a|zarr3:",
    ],
)  # fmt: skip
def test_urls_mean_the_same(url: str) -> None:
    both(lambda library: library.Spec(url))
    both(lambda library: library.Spec(url).url)


_NO_TRANSFORM = {"driver": "array", "dtype": "int8", "array": [1], "transform": None}


@pytest.mark.parametrize(
    "members",
    [
        5,
        [1],
        None,
        {},
        {"driver": 5},
        {"driver": "nope"},
        *({**BASE, "transform": x} for x in (5, None)),
        _NO_TRANSFORM,
    ],
)
def test_odd_specs_are_refused_the_same(members: Any) -> None:
    both(lambda library: library.Spec(members))


@pytest.mark.parametrize("value", ["x", [], {}, 0, 1.5, False, np.True_])
@pytest.mark.parametrize("name", [*FLAGS, "minimal_spec", "unbind_context", "strip_context"])
def test_odd_switches_are_refused_the_same(name: str, value: Any) -> None:
    def updated(library: Any) -> Any:
        spec = library.Spec(BASE)
        spec.update(**{name: value})
        return spec

    both(updated)
    if isinstance(value, str):
        with pytest.raises(TypeError, match=f"Invalid {name}"):
            updated(ts)


@pytest.mark.parametrize("factors", [[], [2], [2, 2]])
@pytest.mark.parametrize(
    "base", [{"driver": "array", "dtype": "int8", "array": [1, 2]}, {**BASE, "schema": {"rank": 1}}, BASE]
)
def test_as_many_downsample_factors_as_dimensions(factors: list[int], base: Any) -> None:
    spec = {"driver": "downsample", "downsample_factors": factors, "downsample_method": "mean", "base": base}
    # the rank of a base that is known from elsewhere is written in another member
    assert shown(lambda: ts.Spec(spec))[0] == shown(lambda: tensorstore.Spec(spec))[0]
    if len(factors) != 1 and base is not BASE:
        both(lambda library: library.Spec(spec))


@pytest.mark.parametrize("depth", [31, 33, 98, 99, 5000])
def test_json_is_nested_as_deeply(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    both(lambda library: library.Spec({"driver": "array", "dtype": "json", "array": value}).rank)
    both(lambda library: library.Spec({**KNOWN, "driver": value}))


@pytest.mark.parametrize("text", ["\ud800", "memory://\ud800", "memory://|zarr3:\udfff"])
def test_lone_surrogates_are_refused(text: str) -> None:
    for make in (
        ts.Spec, ts.KvStore.Spec, lambda text: ts.Spec({"driver": text}), ts.Unit, lambda text: ts.Unit([1, text]),
        lambda text: ts.KvStore.Spec({"driver": "memory", "path": text}), lambda text: ts.CodecSpec({text: 1}),
    ):  # fmt: skip
        with pytest.raises(ArgumentTypeError, match="surrogates") as raised:
            make(text)
        assert str(raised.value).encode()


def test_contexts_mean_the_same() -> None:
    def steps(library: Any) -> Any:
        spec = library.Spec({**KNOWN, "cache_pool": {"total_bytes_limit": 10}})
        shown = [repr(spec), text(spec.to_json())]
        for change in ({"context": library.Context()}, {"unbind_context": True}, {"strip_context": True}):
            spec.update(**change)
            shown += [repr(spec), text(spec.to_json())]
        array = library.open(KNOWN, create=True).result()
        for options in ({}, {"retain_context": True}, {"unbind_context": True}, {"minimal_spec": True}):
            shown += [repr(array.spec(**options)), text(array.spec(**options).to_json(include_defaults=True))]
        return shown

    both(steps)


def test_kvstores_may_be_given_apart() -> None:
    def opened(library: Any) -> Any:
        store = library.KvStore.open("memory://a/").result()
        array = library.open({"driver": "zarr"}, kvstore=store, create=True, dtype="uint8", shape=[2]).result()
        return array.kvstore.path, store.list().result()

    both(opened)
    both(lambda library: library.open({"driver": "zarr"}).result())
    both(lambda library: library.open(BASE, kvstore=library.KvStore.Spec("memory://b")).result())


def test_specs_survive_pickling() -> None:
    array = ts.open(KNOWN, create=True).result()
    array[0] = 1
    spec = pickle.loads(pickle.dumps(array[:2].spec(retain_context=True)))
    assert spec == array[:2].spec(retain_context=True)
    assert ts.Spec(array.spec().to_json()) == array.spec()
    with pytest.raises(TypeError, match="unhashable"):
        hash(spec)


def test_paths_are_taken_for_files(tmp_path: Path) -> None:
    url = (tmp_path / "a").as_uri()
    ts.open(f"{url}|zarr2:", create=True, dtype=ts.uint8, shape=[3]).result().write([1, 2, 3]).result()
    for name in (str(tmp_path / "a"), f"{tmp_path}/a|zarr2:", f"{url}|zarr2:", url):
        assert ts.open(name).result().read().result().tolist() == [1, 2, 3]
    assert np.all(tensorstore.open(f"{url}|zarr2:").result().read().result() == [1, 2, 3])


@pytest.mark.parametrize(
    "members",
    [
        {"transform": {"input_inclusive_min": [1, 0, 0], "input_exclusive_max": [3, 6, 7]}},
        {"transform": {"input_rank": 3}},
        {"transform": {"input_rank": 2}},
        {"schema": {"domain": {"shape": [5, 6, 7], "labels": ["x", "y", "z"]}}},
        {"transform": {"input_shape": [4], "output": [{"input_dimension": 0}, {"offset": 2}, {"offset": 3}]}},
    ],
    ids=repr,
)
def test_transforms_are_opened_the_same(members: dict[str, Any]) -> None:
    def opened(library: Any) -> Any:
        context = library.Context()
        library.open(KNOWN, create=True, context=context).result()
        array = library.open({**BASE, **members}, context=context).result()
        return array.domain, array.spec(), array.read().result().shape

    both(opened)
    both(lambda library: library.Spec({**KNOWN, **members}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("float32", "NaN"),
        ("float32", "-Infinity"),
        ("float32", 1),
        ("bfloat16", [1, "NaN"]),
        ("int32", "NaN"),
        ("bool", 1),
    ],
)
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_fill_values_are_written_as_they_were_given(driver: str, name: str, value: Any) -> None:
    known = {"metadata": {"data_type": name}} if driver == "zarr3" else {"dtype": name}
    for members in ({"dtype": name}, known):
        spec = {"driver": driver, "kvstore": "memory://", "schema": {"fill_value": value}, **members}
        mine, real = ts.Spec(spec), tensorstore.Spec(spec)
        assert json.dumps(mine.to_json(), sort_keys=True) == json.dumps(real.to_json(), sort_keys=True)
        assert mine.fill_value is not None
        assert mine.fill_value.tolist() == real.fill_value.tolist() == value
        results = []
        for package in (ts, tensorstore):
            try:
                array = package.open(spec, create=True, shape=[2], context=package.Context()).result()
            except ValueError:
                results.append(None)
            else:
                results.append(repr(array.fill_value))
        assert results[0] == results[1]


_SHAPED = {"driver": "zarr3", "kvstore": "memory://a/", "metadata": {"shape": [2, 3]}}


@pytest.mark.parametrize(
    "members", [{}, {"schema": {"rank": 2}}, {"context": {}}, {"schema": {}, "recheck_cached_data": True}]
)
def test_a_spec_equals_the_spec_of_its_json(members: dict[str, Any]) -> None:
    for module in (ts, tensorstore):
        spec = module.Spec({**_SHAPED, **members})
        assert spec == module.Spec(spec.to_json()) == module.Spec(_SHAPED)
        assert "context" not in spec.to_json()
        assert spec != module.Spec({**_SHAPED, "recheck_cached_data": False})
