"""zarr 2 reads and changes what tegula writes as N5, with its ``N5Store`` and its ``N5FSStore``, and the reverse.

``TEGULA_ZARR2_PYTHON`` names an interpreter with zarr 2.18, which runs once and is asked for one step after the other.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.oracles.peer_process import PeerProcess

import tegula

pytestmark = pytest.mark.slow

STORES = ("N5Store", "N5FSStore")
TYPES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8")
BOTH: list[Any] = [
    None, {"id": "gzip", "level": 1}, {"id": "zlib", "level": 4}, {"id": "bz2", "level": 1}, {"id": "zstd", "level": 3},
    {"id": "lzma", "preset": 1}, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 256},
]  # fmt: skip
"""Codecs of which both make arrays."""
OF_ZARR: list[Any] = [{"id": "lz4", "acceleration": 2}, {"id": "lzma", "format": 2, "preset": 1}]
"""Codecs in forms that zarr alone gives to new arrays; tegula keeps them."""


class Peer(PeerProcess):
    """The process with zarr 2."""

    def __call__(self, kind: str, root: Path, path: str, action: str, options: Any = None) -> Any:
        answer = json.loads(self.ask(json.dumps([kind, str(root), path, action, options])))
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["found"]


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    python = os.environ.get("TEGULA_ZARR2_PYTHON")
    if not python:
        pytest.skip("TEGULA_ZARR2_PYTHON names no Python with zarr 2")
    made = Peer(python, "n5_peer.py")
    yield made
    made.close()


class Zarr:
    """An array as zarr 2 sees it."""

    def __init__(self, peer: Peer, kind: str, root: Path, path: str = "") -> None:
        self.where = (kind, root, path)
        self.peer = peer
        self.file = str(root) + ".npy"

    def values(self) -> Any:
        self.peer(*self.where, "read", self.file)
        return np.load(self.file)

    def write(self, selection: list[list[Any]], values: Any) -> None:
        np.save(self.file, values)
        self.peer(*self.where, "write", {"selection": selection, "values": self.file})

    def append(self, values: Any, axis: int) -> None:
        np.save(self.file, values)
        self.peer(*self.where, "append", {"values": self.file, "axis": axis})

    def resize(self, shape: tuple[int, ...]) -> None:
        self.peer(*self.where, "resize", shape)

    def put(self, attributes: dict[str, Any]) -> None:
        self.peer(*self.where, "attrs", attributes)


class Tegula:
    """An array as tegula sees it, opened anew for each step."""

    def __init__(self, root: Path, path: str = "") -> None:
        self.where = {"target": root, "path": path}

    @property
    def array(self) -> Any:
        return tegula.open_array(**self.where, mode="r+")  # type: ignore[arg-type]

    def values(self) -> Any:
        return self.array[...]

    def write(self, selection: list[list[Any]], values: Any) -> None:
        self.array[tuple(slice(*part) for part in selection)] = values

    def append(self, values: Any, axis: int) -> None:
        self.array.append(values, axis=axis)

    def resize(self, shape: tuple[int, ...]) -> None:
        self.array.resize(shape)

    def put(self, attributes: dict[str, Any]) -> None:
        self.array.attrs.put(attributes)


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers that use all bytes of an element."""
    count = int(np.prod(shape))
    return (np.arange(count, dtype="u8") * 0x0123456789ABCDEF % 251 - 100).astype(dtype).reshape(shape)


def same(found: Any, expected: Any) -> None:
    assert (found.shape, found.dtype.newbyteorder("=")) == (expected.shape, expected.dtype)
    assert np.ascontiguousarray(found, expected.dtype).tobytes() == expected.tobytes()


def through_all_steps(first: Any, second: Any, values: Any) -> None:
    """Append, write a part, shrink and grow, each by the first, and compare what both read."""

    def compare(expected: Any) -> None:
        for reader in (second, first):
            same(reader.values(), expected)

    compare(values)
    first.append(values[:3], 0)
    more = np.ones((10, 2, 4), values.dtype)
    first.append(more, 1)
    expected = np.concatenate([np.concatenate([values, values[:3]]), more], 1)
    compare(expected)
    first.write([[1, 9, None], [1, 4, None], [0, 4, None]], expected[8:0:-1, 1:4] + 1)
    expected[1:9, 1:4] = expected[8:0:-1, 1:4] + 1
    compare(expected)
    first.resize((3, 2, 1))
    compare(expected[:3, :2, :1].copy())
    first.resize((8, 6, 3))
    grown = np.zeros((8, 6, 3), values.dtype)
    grown[:3, :2, :1] = expected[:3, :2, :1]
    if isinstance(first, Tegula):  # zarr leaves what the last chunks hold beyond the end
        compare(grown)
    else:
        same(second.values(), first.values())


@pytest.mark.parametrize("kind", STORES)
def test_zarr_reads_every_type_with_every_codec(peer: Peer, tmp_path: Path, kind: str) -> None:
    for number, (codec, dtype) in enumerate(product(BOTH, TYPES)):
        values, root = numbers((7, 5, 4), dtype), tmp_path / f"{number}.n5"
        tegula.create_array(root, data=values, chunks=(2, 3, 4), codecs=codec, format="n5")
        through_all_steps(Tegula(root), Zarr(peer, kind, root), values)


@pytest.mark.parametrize("kind", STORES)
def test_arrays_of_zarr(peer: Peer, tmp_path: Path, kind: str) -> None:
    for number, (codec, dtype) in enumerate(product([*BOTH, *OF_ZARR], ("i2", "f8"))):
        for writer in ("zarr", "tegula"):
            if writer == "zarr" and codec is None:
                continue  # zarr can't resize without a compressor
            values, root = numbers((7, 5, 4), dtype), tmp_path / f"{number}-{writer}.n5"
            theirs, ours = Zarr(peer, kind, root), Tegula(root)
            options = {"shape": values.shape, "chunks": (2, 3, 4), "dtype": dtype, "compressor": codec}
            peer(kind, root, "", "create", options)
            theirs.write([[None], [None], [None]], values)
            first, second = (theirs, ours) if writer == "zarr" else (ours, theirs)
            through_all_steps(first, second, values)
            assert tegula.check(root).ok


def test_the_containers_of_lz4_differ(peer: Peer, tmp_path: Path) -> None:
    tegula.create_array(tmp_path, data=numbers((9,), "i4"), codecs="lz4", format="n5")
    with pytest.raises(ValueError, match="blockSize"):
        peer("N5Store", tmp_path, "", "describe")


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("path", ["", "a/b"])
def test_the_documents_are_those_of_zarr(peer: Peer, tmp_path: Path, kind: str, path: str) -> None:
    for number, codec in enumerate(BOTH):
        options = {"shape": (7, 5), "chunks": (2, 3), "dtype": "i4"}
        ours, theirs = tmp_path / f"{number}-ours", tmp_path / f"{number}-theirs"
        tegula.create_array(ours, path=path, codecs=codec, format="n5", **options)
        peer(kind, theirs, path, "create", {**options, "compressor": codec})
        documents = [json.loads((root / path / "attributes.json").read_text()) for root in (ours, theirs)]
        for document in documents:
            document.pop("n5", None)  # only the root needs it
            for member in ("id", "checksum"):  # numcodecs adds them to zstd; other libraries know neither
                document["compression"].pop(member, None)
        assert documents[0] == documents[1]


def described(node: Any) -> Any:
    found: dict[str, Any] = {"attrs": {**node.attrs}}
    if isinstance(node, tegula.Group):
        found["members"] = {name: described(node[name]) for name in sorted(node)}
    else:
        found |= {"shape": [*node.shape], "chunks": [*node.chunks], "dtype": node.dtype.name}
    return found


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("writer", ["zarr", "tegula"])
def test_groups_and_attributes(peer: Peer, tmp_path: Path, kind: str, writer: str) -> None:
    if writer == "tegula":
        root = tegula.create_group(tmp_path, format="n5")
        root.create_group("a/b")
        root.create_group("c")
        root.create_array("a/b/x", shape=(3, 4), chunks=(2, 2), dtype="u2")
    else:
        for path in ("a/b", "c"):
            peer(kind, tmp_path, path, "group")
        peer(kind, tmp_path, "a/b/x", "create", {"shape": (3, 4), "chunks": (2, 2), "dtype": "u2", "compressor": None})
    for number, path in enumerate(("", "a", "a/b", "c", "a/b/x") * 2):
        attributes = {"title": "ä", "n": [1, {"b": None}], f"v{number}": 0.5}
        if number % 2:
            tegula.open(tmp_path, path=path, mode="r+").attrs.put(attributes)
        else:
            peer(kind, tmp_path, path, "attrs", attributes)
        assert described(tegula.open(tmp_path)) == peer(kind, tmp_path, "", "describe")
        assert {**tegula.open(tmp_path, path=path).attrs} == attributes
    report = tegula.check(tmp_path)
    assert report.ok, report


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_both_change_an_array_in_turn(peer: Peer, data: st.DataObject) -> None:
    kind, dtype = data.draw(st.sampled_from(STORES)), data.draw(st.sampled_from(TYPES))
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=7))
    chunks = tuple(data.draw(st.integers(1, size + 1)) for size in shape)
    codec = data.draw(st.sampled_from(BOTH))
    with tempfile.TemporaryDirectory() as folder:
        root, path = Path(folder, "x.n5"), data.draw(st.sampled_from(["", "g/a"]))
        sides: list[Any] = [Tegula(root, path), Zarr(peer, kind, root, path)]
        if data.draw(st.booleans()):
            tegula.create_array(root, path=path, shape=shape, chunks=chunks, dtype=dtype, codecs=codec, format="n5")
        else:
            options = {"shape": shape, "chunks": chunks, "dtype": dtype, "compressor": codec}
            peer(kind, root, path, "create", options)
        expected, attributes = np.zeros(shape, dtype), {}
        for _ in range(data.draw(st.integers(1, 8))):
            side = data.draw(st.sampled_from(sides))
            actions = (
                ["write", "attrs"] if codec is None and side is sides[1] else ["write", "attrs", "append", "resize"]
            )
            action = data.draw(st.sampled_from(actions))
            if action == "write":
                corners = [sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in expected.shape]
                selection = [[*corner, None] for corner in corners]
                part = expected[tuple(slice(*corner) for corner in corners)]
                part[...] = data.draw(hnp.arrays(dtype, part.shape, elements=st.integers(0, 9)))
                if part.size:
                    side.write(selection, part)
            elif action == "append":
                axis = data.draw(st.integers(0, expected.ndim - 1))
                length = data.draw(st.integers(1, 4))
                more = numbers((*expected.shape[:axis], length, *expected.shape[axis + 1 :]), dtype)
                side.append(more, axis)
                expected = np.concatenate([expected, more], axis)
            elif action == "resize":
                # each axis grows or stays, so that nothing depends on what lies beyond the end
                shape = tuple(data.draw(st.integers(n, n + 3)) for n in expected.shape)
                side.resize(shape)
                expected = np.pad(expected, [(0, new - old) for new, old in zip(shape, expected.shape)])
            else:
                values = st.integers() | st.text("ä/\\")
                attributes = data.draw(st.dictionaries(st.sampled_from("abc"), values, max_size=3))
                side.put(attributes)
            for reader in sides:
                same(reader.values(), expected)
            assert {**sides[0].array.attrs} == attributes == peer(*sides[1].where, "describe")["attrs"]
        assert tegula.check(root).ok
