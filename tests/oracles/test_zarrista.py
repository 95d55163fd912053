"""zarrs, by zarrista, reads and writes arrays with the codec ``reshape``, which no other library has.

``TEGULA_ZARR3_PYTHON`` names an interpreter, which runs once if it has zarrista.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.oracles.peer_process import PeerProcess

import tegula

pytestmark = pytest.mark.slow


class Peer(PeerProcess):
    """The process with zarrista."""

    def __call__(self, path: Path, file: Path, action: str) -> None:
        if problem := self.ask(json.dumps([str(path), str(file), action])):
            raise ValueError(problem)


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    python = os.environ.get("TEGULA_ZARR3_PYTHON")
    looked = [python or "", "-c", "import numpy, zarrista"]
    if not python or subprocess.run(looked, capture_output=True, check=False).returncode:
        pytest.skip("TEGULA_ZARR3_PYTHON names no Python with zarrista")
    made = Peer(python, "zarrista_peer.py")
    yield made
    made.close()


@st.composite
def reshaped(draw: st.DrawFn) -> tuple[list[int], list[Any]]:
    """Return the shape of a chunk, and one to reshape it to: of joined axes, lengths, and a rest."""
    chunk = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    shape: list[Any] = []
    axis, may_rest = 0, True
    while axis < len(chunk):
        count = draw(st.integers(1, len(chunk) - axis))
        axes = [*range(axis, axis + count)]
        axis += count
        size = prod(chunk[each] for each in axes)
        kinds = ["axes", "length"] + (["rest"] if may_rest else [])
        kind = draw(st.sampled_from(kinds))
        may_rest = may_rest and kind != "rest"
        shape.append({"axes": axes, "length": size, "rest": -1}[kind])
    return chunk, shape


@settings(max_examples=examples(60), deadline=None)
@given(
    case=reshaped(),
    counts=st.lists(st.integers(1, 3), min_size=4, max_size=4),
    dtype=st.sampled_from(["u1", "i4", "f8"]),
    behind=st.sampled_from([[], [{"name": "gzip", "configuration": {"level": 1}}]]),
    turned=st.booleans(),
)
def test_reshaped_chunks(
    peer: Peer, case: tuple[list[int], list[Any]], counts: list[int], dtype: str, behind: list[Any], turned: bool
) -> None:
    chunk, shape = case
    order = [*range(len(shape))][::-1]
    codecs: list[Any] = [{"name": "reshape", "configuration": {"shape": shape}}]
    codecs += [{"name": "transpose", "configuration": {"order": order}}] if turned and len(shape) > 1 else []
    codecs += ["bytes", *behind]
    size = [max(1, length * count - count // 2) for length, count in zip(chunk, counts)]
    values = np.arange(1, prod(size) + 1).astype(dtype).reshape(size)
    with tempfile.TemporaryDirectory() as folder:
        path, file = Path(folder, "x.zarr"), Path(folder, "x.npy")
        array = tegula.create_array(path, data=values, chunks=chunk, codecs=codecs)
        peer(path, file, "read")
        np.testing.assert_array_equal(np.load(file), values)
        values = values[::-1].copy()
        np.save(file, values)
        peer(path, file, "write")
        np.testing.assert_array_equal(array[...], values)
        assert tegula.check(path).ok
