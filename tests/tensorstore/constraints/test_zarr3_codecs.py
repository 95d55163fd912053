"""Chains of Zarr v3 codecs are read, merged and completed as TensorStore does it."""

import json
from typing import Any

import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import value_or_error

import tegula.tensorstore
from tegula.metadata.data_types import as_data_type
from tegula.tensorstore.constraints.codec_spec import CodecSpec, Layout, chain_from_json, complete_chain, merge_chains

pytestmark = pytest.mark.once(executors="none")

RANK = 2
ORDERS = st.sampled_from([[0, 1], [1, 0], "C", "F"])
OPTIONS: dict[str, dict[str, Any]] = {
    "gzip": {"level": st.integers(0, 9)},
    "zstd": {"level": st.integers(1, 5), "checksum": st.booleans()},
    "blosc": {
        "cname": st.sampled_from(["lz4", "zstd"]),
        "clevel": st.integers(0, 9),
        "shuffle": st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]),
        "typesize": st.sampled_from([1, 4]),
        "blocksize": st.sampled_from([0, 128]),
    },
    "crc32c": {},
    "bytes": {"endian": st.sampled_from(["little", "big"])},
}
BUFFERS = st.sampled_from(["gzip", "zstd", "blosc", "crc32c"]).flatmap(
    lambda name: st.builds(
        lambda options: {"name": name, "configuration": options}, st.fixed_dictionaries({}, optional=OPTIONS[name])
    )
)
TRANSPOSES = ORDERS.map(lambda order: {"name": "transpose", "configuration": {"order": order}})
BYTES = st.fixed_dictionaries({}, optional=OPTIONS["bytes"]).map(lambda o: {"name": "bytes", "configuration": o})


def chains(depth: int = 1) -> st.SearchStrategy[list[Any]]:
    middle = BYTES
    if depth:
        shard = st.fixed_dictionaries(
            {},
            optional={
                "chunk_shape": st.lists(st.sampled_from([1, 2, 4]), min_size=RANK, max_size=RANK),
                "codecs": chains(depth - 1),
                "index_location": st.sampled_from(["start", "end"]),
            },
        )
        middle = BYTES | shard.map(lambda options: {"name": "sharding_indexed", "configuration": options})
    parts = (st.lists(TRANSPOSES, max_size=2), st.lists(middle, max_size=1), st.lists(BUFFERS, max_size=2))
    return st.tuples(*parts).map(lambda lists: [codec for part in lists for codec in part])


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["gzip", "zzz", None, 5, [0, 0], [1, 0], "F", True, {}]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["gzip", "blosc", "transpose", "sharding_indexed", "bytes", "zzz", 5]),
                "configuration": st.dictionaries(
                    st.sampled_from(["level", "order", "chunk_shape", "codecs", "endian", "cname", "x"]),
                    inner,
                    max_size=2,
                ),
            },
        )
    ),
    max_leaves=6,
)


def real_codec(chain: Any) -> Any:
    return tensorstore.CodecSpec({"driver": "zarr3", "codecs": chain})


@settings(deadline=None, max_examples=200)
@given(chains() | JUNK | st.lists(JUNK, max_size=2))
def test_chains_are_read_the_same(chain: Any) -> None:
    wanted = value_or_error(lambda: real_codec(chain).to_json()["codecs"])
    assert value_or_error(lambda: CodecSpec({"driver": "zarr3", "codecs": chain}).to_json()["codecs"]) == wanted


@settings(deadline=None, max_examples=200)
@given(chains(), chains())
def test_chains_are_merged_the_same(first: Any, second: Any) -> None:
    def theirs() -> Any:
        schema = tensorstore.Schema(codec=real_codec(first))
        schema.update(codec=real_codec(second))
        assert schema.codec is not None
        return schema.codec.to_json()["codecs"]

    def ours() -> Any:
        merged = merge_chains(chain_from_json(first), chain_from_json(second))
        assert merged is not None
        return merged.to_json()

    assert value_or_error(ours) == value_or_error(theirs)


@settings(deadline=None, max_examples=150)
@given(
    chains(),
    st.sampled_from(["uint8", "uint16", "complex64"]),
    st.sampled_from([None, (0, 1), (1, 0)]),
    st.sampled_from([(2, 2), (2, 4), (4, 4)]),
    st.sampled_from([(1, 1), (1, 2), (2, 2)]),
)
def test_chains_are_completed_the_same(chain: Any, dtype: str, order: Any, read: Any, factor: Any) -> None:
    write = tuple(a * b for a, b in zip(read, factor))
    layout: dict[str, Any] = {"read_chunk": {"shape": read}, "write_chunk": {"shape": write}}
    if order:
        layout["inner_order"] = order
    codec = {"driver": "zarr3", "codecs": chain}
    spec = {"driver": "zarr3", "kvstore": "memory://", "schema": {"chunk_layout": layout, "codec": codec}}

    def created(library: Any) -> Any:
        array = library.open(spec, create=True, dtype=dtype, shape=[8, 8], context=library.Context()).result()
        codecs = json.loads(array.kvstore["zarr.json"])["codecs"]
        return codecs, array.chunk_layout.inner_order, array.chunk_layout.read_chunk.shape

    assert value_or_error(lambda: created(tegula.tensorstore)) == value_or_error(lambda: created(tensorstore))


@given(chains())
def test_completing_a_complete_chain_changes_nothing(chain: Any) -> None:
    try:
        full = complete_chain(chain_from_json(chain), as_data_type("uint16"), RANK, Layout(None, (2, 2)))
    except ValueError:
        return
    again = chain_from_json(full.to_json(stored=True))
    assert complete_chain(again, as_data_type("uint16"), RANK).to_json() == full.to_json()
    assert merge_chains(full, chain_from_json(full.to_json()), strict=True) == full
