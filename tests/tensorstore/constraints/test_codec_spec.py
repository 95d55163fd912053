"""`CodecSpec` against the installed TensorStore."""

import pickle
from typing import Any

import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

from tegula import tensorstore as ts
from tegula.errors import TegulaError

pytestmark = pytest.mark.once(executors="none")

levels = st.sampled_from([0, 1, 5, 9, 10, -1, 22, 23, "a", None, 1.0, 1.5])
compressors = st.one_of(
    st.none(),
    st.sampled_from([5, {}, {"id": 5}, {"id": "nonsense"}]),
    st.fixed_dictionaries(
        {"id": st.sampled_from(["zlib", "gzip", "bz2"])},
        optional={"level": levels.filter(lambda level: level != -1)},  # which is another test's
    ),
    st.fixed_dictionaries({"id": st.just("zstd")}, optional={"level": levels}),
    st.fixed_dictionaries(
        {"id": st.just("blosc")},
        optional={
            "cname": st.sampled_from(["lz4", "zstd", "nonsense"]),
            "clevel": levels,
            "shuffle": st.integers(-2, 3),
            "blocksize": st.sampled_from([0, 1, 4096]),
            "more": st.just(1),
        },
    ),
)
zarr = st.fixed_dictionaries(
    {"driver": st.sampled_from(["zarr", "zarr2"])}, optional={"compressor": compressors, "filters": st.none()}
)


def configured(name: str, options: dict[str, Any]) -> st.SearchStrategy[Any]:
    configuration = st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(elements) for key, elements in options.items()}
    )
    return st.just(name) | st.builds(lambda options: {"name": name, "configuration": options}, configuration)


buffers = st.one_of(
    configured("gzip", {"level": [1, 9, 10]}),
    configured("zstd", {"level": [3, 300], "checksum": [True, False]}),
    configured(
        "blosc", {"cname": ["lz4"], "clevel": [5], "shuffle": ["shuffle", "x"], "typesize": [4], "blocksize": [0]}
    ),
    configured("crc32c", {}),
    st.sampled_from(["nonsense", 5, {}]),
)
serializers = configured("bytes", {"endian": ["little", "big", "x"]}) | configured(
    "sharding_indexed", {"chunk_shape": [[2, 3], [0]], "codecs": [["gzip"], ["bytes"]], "index_location": ["end", "x"]}
)
arrays = st.builds(
    lambda order: {"name": "transpose", "configuration": {"order": order}}, st.sampled_from(["C", "F", [1, 0], [0, 0]])
)
chains = st.builds(
    lambda first, middle, last: [*first, *middle, *last],
    st.lists(arrays, max_size=1),
    st.lists(serializers, max_size=1),
    st.lists(buffers, max_size=2),
)
zarr3 = st.fixed_dictionaries({"driver": st.just("zarr3")}, optional={"codecs": chains})
specs = (
    zarr | zarr3 | st.sampled_from([{}, 5, None, {"driver": 5}, {"driver": "nonsense"}, {"driver": "zarr", "more": 1}])
)


def outcome(build: Any, library: Any) -> Any:
    try:
        created = build(library)
    except ValueError as error:
        return kind_and_code(error) if library is tensorstore or isinstance(error, TegulaError) else error
    return created.to_json(), created.to_json(include_defaults=True), repr(created)


@settings(deadline=None, max_examples=500)
@given(specs)
def test_json_means_the_same(json: Any) -> None:
    def build(library: Any) -> Any:
        return library.CodecSpec(json)

    assert outcome(build, ts) == outcome(build, tensorstore)


@pytest.mark.parametrize("name", ["zlib", "gzip"])
def test_the_level_that_means_the_usual_one_is_known(name: str) -> None:
    json = {"driver": "zarr", "compressor": {"id": name, "level": -1}, "filters": None}
    assert ts.CodecSpec(json).to_json() == json  # numcodecs writes it
    with pytest.raises(ValueError, match="level"):
        tensorstore.CodecSpec(json)


@settings(deadline=None, max_examples=500)
@given(specs, specs)
def test_merging_means_the_same(first: Any, second: Any) -> None:
    def build(library: Any) -> Any:
        schema = library.Schema(codec=library.CodecSpec(first))
        schema.update(codec=library.CodecSpec(second))
        return schema.codec

    assert outcome(build, ts) == outcome(build, tensorstore)


def test_pickles_and_equality() -> None:
    spec = ts.CodecSpec({"driver": "zarr3", "codecs": ["bytes", {"name": "gzip", "configuration": {"level": 5}}]})
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(ts.CodecSpec(spec.to_json()))
    assert spec != ts.CodecSpec({"driver": "zarr3"})


def test_filters_are_constraints_too() -> None:
    filters = [{"id": "delta", "dtype": "<i4"}]
    schema = ts.Schema(codec=ts.CodecSpec({"driver": "zarr", "filters": filters}))
    schema.update(codec=ts.CodecSpec({"driver": "zarr", "compressor": None, "filters": None}))
    assert schema.codec is not None
    assert schema.codec.to_json() == {"compressor": None, "driver": "zarr", "filters": filters}
    with pytest.raises(ValueError, match='"filters" does not match'):
        schema.update(codec=ts.CodecSpec({"driver": "zarr", "filters": [{"id": "delta", "dtype": "<i8"}]}))


@pytest.mark.parametrize("arguments", [(), (1, 2)])
def test_there_is_one_argument(arguments: Any) -> None:
    with pytest.raises(TypeError):
        ts.CodecSpec(*arguments)
