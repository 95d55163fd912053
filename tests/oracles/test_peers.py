"""Libraries that can't be installed beside the others, run by an interpreter of their own if there is one.

``TEGULA_ZARR1_PYTHON``, ``TEGULA_ZARR2_PYTHON`` and ``TEGULA_ZARR3_PYTHON`` name interpreters with zarr 1.1.0, with
zarr 2.18 and with the newest zarr 3.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tegula

pytestmark = pytest.mark.slow

Cases = Callable[..., st.SearchStrategy[Any]]
FEW = settings(max_examples=3, deadline=None, phases=[Phase.generate])  # each example is a batch and starts a process


@dataclass
class Batch:
    """Cases, too many to be shown."""

    cases: list[Any] = field(repr=False)


def exchange(python: str, script: str, batch: Batch) -> None:
    """Let the peer read the arrays of a batch and write them again, and compare all that is stored."""
    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for number, case in enumerate(batch.cases):
            root = Path(folder, str(number))
            root.mkdir()
            np.save(root / "values.npy", case.values)
            np.save(root / "fill.npy", np.asarray(case.fill, case.dtype))
            case.create(root / "ours")
            names[str(number)] = {
                part: getattr(case, part)
                for part in ("chunks", "shards", "order", "filters", "compressors", "separator")
            }
        Path(folder, "cases.json").write_text(json.dumps(names))
        command = [python, str(Path(__file__).with_name(script)), folder]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        for number, found in json.loads(done.stdout).items():
            case, root = batch.cases[int(number)], Path(folder, number)
            assert found == "", case
            case.check(tegula.open_array(root / "theirs")[...])
            compare_stored(case, root)


def compare_stored(case: Any, root: Path) -> None:
    """The keys and the document are the same to the byte, and so are chunks that are not compressed."""
    keys = [
        {str(path.relative_to(root / who)) for path in (root / who).rglob("*") if path.is_file()}
        for who in ("ours", "theirs")
    ]
    nat = case.dtype.kind in "mM" and np.isnat(case.fill)  # zarr 2 does not see that such chunks are empty
    # zarr 1 stores all chunks
    assert keys[0] <= keys[1] if nat or case.format == "zarr1" else keys[0] == keys[1], (case, keys)
    if case.format == "zarr2" and not case.shape:
        return  # zarr 2 never compresses an array without dimensions
    name = {"zarr1": "meta", "zarr2": ".zarray", "zarr3": "zarr.json"}[case.format]
    ours, theirs = ((root / who / name).read_text() for who in ("ours", "theirs"))
    if case.format == "zarr2":
        # TensorStore refuses the member that numcodecs adds to zstd, so tegula leaves it out
        theirs = theirs.replace('"checksum": false,\n        ', "")
    if case.format == "zarr1":  # zarr 1 distinguishes 0 and 0.0, and writes the value it was given
        ours, theirs = (json.loads(text, parse_constant=str) for text in (ours, theirs))
    assert ours == theirs, case
    if not case.compressors and case.shards is None:  # the chunks of a shard may lie in any order
        for key in keys[0] - {name}:
            assert (root / "ours" / key).read_bytes() == (root / "theirs" / key).read_bytes(), case


def known_to_zarr1(case: Any) -> bool:
    """Its Blosc takes no times, and its fill values are JSON as it stands."""
    blosc = bool(case.compressors) and case.compressors[0]["id"] == "blosc"
    if case.dtype.kind in "mM":
        return not blosc and not np.isnat(case.fill)
    return case.dtype.kind != "c" and not (case.dtype.kind == "S" and case.fill > b"\x7f")


@FEW
@given(st.data())
def test_zarr1(cases: Cases, data: st.DataObject) -> None:
    python = os.environ.get("TEGULA_ZARR1_PYTHON")
    if python:
        batch = data.draw(
            st.lists(cases(formats=("zarr1",)).filter(known_to_zarr1), min_size=40, max_size=60).map(Batch)
        )
        exchange(python, "zarr1_peer.py", batch)


@FEW
@given(st.data())
def test_zarr2(cases: Cases, data: st.DataObject) -> None:
    python = os.environ.get("TEGULA_ZARR2_PYTHON")
    if python:
        # zarr 2 treats -0.0 as 0.0
        drawn = cases(formats=("zarr2",)).filter(lambda case: case.dtype.kind != "f" or not np.signbit(case.fill))
        batch = data.draw(st.lists(drawn, min_size=40, max_size=60).map(Batch))
        exchange(python, "zarr2_peer.py", batch)


@FEW
@given(st.data())
def test_zarr3(cases: Cases, data: st.DataObject) -> None:
    python = os.environ.get("TEGULA_ZARR3_PYTHON")
    if python:
        batch = data.draw(st.lists(cases(formats=("zarr3",)), min_size=40, max_size=60).map(Batch))
        exchange(python, "zarr3_peer.py", batch)


def edges(length: int) -> st.SearchStrategy[list[int]]:
    """Lengths of chunks that cover an axis exactly."""
    cuts = st.sets(st.integers(1, max(1, length - 1)), max_size=3)
    return cuts.map(lambda inner: [b - a for a, b in zip([0, *sorted(inner)], [*sorted(inner), length]) if b > a])


@FEW
@given(st.data())
def test_chunks_of_varying_length(cases: Cases, data: st.DataObject) -> None:
    python = os.environ.get("TEGULA_ZARR3_PYTHON")
    if not python:
        return
    batch = []
    for case in data.draw(st.lists(cases(formats=("zarr3",)), min_size=20, max_size=40)):
        if case.shape and 0 not in case.shape:
            chunks: Any = [data.draw(edges(length)) for length in case.shape]
            batch.append(replace(case, chunks=chunks, shards=None))
    exchange(python, "zarr3_peer.py", Batch(batch))
