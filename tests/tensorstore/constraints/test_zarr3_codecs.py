"""Chains of Zarr v3 codecs are read, merged and completed as TensorStore does it."""

import json
from typing import Any

import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.tensorstore.constraints.zarr3_codecs import Chain, Codec, chain_from_json, merge_chains
from tegula.tensorstore.drivers.zarr3.resolution import Element, Layout, check_shapes, decoded_layout, resolve_chain

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


def text(error: Exception) -> str:
    return str(error).split(" [tensorstore_spec")[0].removeprefix("FAILED_PRECONDITION: ")


def real_codec(chain: Any) -> Any:
    return tensorstore.CodecSpec({"driver": "zarr3", "codecs": chain})


@settings(deadline=None, max_examples=200)
@given(chains() | JUNK | st.lists(JUNK, max_size=2))
def test_chains_are_read_the_same(chain: Any) -> None:
    try:
        wanted = real_codec(chain).to_json()["codecs"]
    except ValueError as error:
        wanted = text(error)
    try:
        actual: Any = chain_from_json(chain).to_json()
    except ValueError as error:
        actual = 'Error parsing object member "codecs": ' + text(error)
    # the error for a missing member is the same for every kind
    assert actual == wanted or "member is missing" in str(actual)


@settings(deadline=None, max_examples=200)
@given(chains(), chains())
def test_chains_are_merged_the_same(first: Any, second: Any) -> None:
    schema = tensorstore.Schema(codec=real_codec(first))
    try:
        schema.update(codec=real_codec(second))
        assert schema.codec is not None
        wanted = schema.codec.to_json()["codecs"]
    except ValueError as error:
        wanted = text(error).split('"driver":"zarr3"}: ')[-1]
    try:
        merged = merge_chains(chain_from_json(first), chain_from_json(second))
        assert merged is not None
        actual: Any = merged.to_json()
    except ValueError as error:
        actual = text(error)
    if isinstance(wanted, str) and "sharding_indexed" in wanted:  # shows how far merging within shards has come
        actual, wanted = str(actual).rsplit(": ", 1)[-1], wanted.rsplit(": ", 1)[-1]
    assert actual == wanted


@settings(deadline=None, max_examples=150)
@given(
    chains(),
    st.sampled_from([("uint8", 8, False), ("uint16", 16, True), ("complex64", 64, True)]),
    st.sampled_from([None, (0, 1), (1, 0)]),
    st.sampled_from([(2, 2), (2, 4), (4, 4)]),
    st.sampled_from([(1, 1), (1, 2), (2, 2)]),
)
def test_chains_are_completed_the_same(chain: Any, kind: Any, order: Any, read: Any, factor: Any) -> None:
    name, bits, ordered = kind
    write = tuple(a * b for a, b in zip(read, factor))
    layout: dict[str, Any] = {"read_chunk": {"shape": read}, "write_chunk": {"shape": write}}
    if order:
        layout["inner_order"] = order
    codec = {"driver": "zarr3", "codecs": chain}
    spec = {"driver": "zarr3", "kvstore": "memory://", "schema": {"chunk_layout": layout, "codec": codec}}
    try:
        real = tensorstore.open(spec, create=True, dtype=name, shape=[8, 8], context=tensorstore.Context()).result()
        assert real.kvstore is not None
        wanted = json.loads(real.kvstore["zarr.json"])["codecs"]
    except ValueError as error:
        wanted = text(error).split('"metadata" and schema: ')[-1]
    try:
        given_chain = chain_from_json(chain)
        if read != write and not given_chain.sharding_height:
            shard = Codec("sharding_indexed", {"chunk_shape": [*read], "codecs": given_chain})
            given_chain = Chain(serializer=shard)
        full = resolve_chain(given_chain, Element(name, bits, ordered), RANK, Layout(order, read))
        check_shapes(full, write, bits // 8)
        actual: Any = full.to_json(stored=True)
    except ValueError as error:
        actual = text(error)
    if isinstance(wanted, str) and "Error setting" in wanted:  # what the codecs say contradicts the layout
        return
    assert actual == wanted
    if not isinstance(wanted, str):
        shown = decoded_layout(full, RANK, write)
        assert shown.inner_order == real.chunk_layout.inner_order
        assert shown.read_shape == real.chunk_layout.read_chunk.shape


@given(chains())
def test_completing_a_complete_chain_changes_nothing(chain: Any) -> None:
    try:
        full = resolve_chain(chain_from_json(chain), Element("uint16", 16, True), RANK, Layout(None, (2, 2)))
    except ValueError:
        return
    again = chain_from_json(full.to_json(stored=True), constraints=False)
    assert resolve_chain(again, Element("uint16", 16, True), RANK, constraints=False).to_json() == full.to_json()
    assert merge_chains(full, chain_from_json(full.to_json()), strict=True) == full
