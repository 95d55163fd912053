"""bcolz arrays that others shorten and lengthen while they are read and written through older handles."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.engine.stored import lengths

READS: dict[str, Callable[[tegula.Array, Any], Any]] = {
    "basic": lambda a, part: a[part],
    "background": lambda a, part: a.read(part).result(),
    "orthogonal": lambda a, part: a.oindex[part],
    "points": lambda a, part: a.vindex[np.arange(*part.indices(40))],
    "backwards": lambda a, part: a[part][::-1] if part.stop is None else a[part.start : part.stop : 1],
}


@pytest.fixture
def old(tmp_path: Path) -> tegula.Array:
    """A handle to an array of 40 rows that has been shortened to 18 since."""
    array = tegula.create_array(tmp_path / "x", shape=40, chunks=16, dtype="i4", format="bcolz")
    array[:] = np.arange(40)
    handle = tegula.open_array(tmp_path / "x", "r+")
    array.resize(18)
    return handle


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("part", [slice(0, 18), slice(3, 5), slice(16, 18), slice(17, 18)])
def test_remaining_rows_are_read(old: tegula.Array, how: str, part: slice) -> None:
    assert READS[how](old, part).tolist() == [*range(40)][part]


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("part", [slice(0, 40), slice(17, 19), slice(18, 19), slice(39, 40), slice(3, 40)])
def test_removed_rows_are_not_reported_as_damage(old: tegula.Array, how: str, part: slice) -> None:
    with pytest.raises(tegula.SelectionError, match="shortened to 18 rows since it was opened; call refresh"):
        READS[how](old, part)
    old.refresh()
    assert old[:].tolist() == [*range(18)]


def test_elements(old: tegula.Array) -> None:
    assert (old[17], old.oindex[17]) == (17, 17)
    for row in (18, -1):
        with pytest.raises(tegula.SelectionError, match="no longer exists"):
            old[row]


def test_writing(old: tegula.Array) -> None:
    old[17] = -1
    old[15:18] = -1
    with pytest.raises(tegula.SelectionError, match="shortened to 18 rows"):
        old[17:19] = -2
    with pytest.raises(tegula.SelectionError, match="shortened to 18 rows"):
        old[39] = -2
    old.refresh()
    assert old[14:].tolist() == [14, -1, -1, -1]


def test_an_array_that_has_grown_again(old: tegula.Array) -> None:
    other = tegula.open_array(old.store, "r+")
    other.append(np.arange(7))
    assert old[15:25].tolist() == [15, 16, 17, *range(7)]
    with pytest.raises(tegula.SelectionError, match="shortened to 25 rows"):
        old[25]


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_damage_is_reported_as_damage(tmp_path: Path, damage: str) -> None:
    array = tegula.create_array(tmp_path / "x", shape=40, chunks=16, dtype="i4", format="bcolz")
    chunk = tmp_path / "x" / "data" / "__1.blp"
    if damage == "missing":
        chunk.unlink()
    else:
        chunk.write_bytes((tmp_path / "x" / "data" / "__2.blp").read_bytes())
    text = "the chunk is missing" if damage == "missing" else "there are 8 rows where the array has 16"
    for read in (lambda: array[...], lambda: array[30], lambda: array.__setitem__(30, 1)):
        with pytest.raises((tegula.StoreError, tegula.CodecError), match=text) as caught:
            read()
        assert caught.value.key == "data/__1.blp"
    assert array[:16].tolist() == [0] * 16


def test_another_array_at_its_place(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=40, chunks=16, dtype="i4", format="bcolz")
    tegula.create_array(tmp_path / "x", shape=4, chunks=16, dtype="f4", format="bcolz", overwrite=True)
    with pytest.raises(tegula.NotFoundError, match="replaced since"):
        array[20]
    with pytest.raises(tegula.NotFoundError, match="replaced since"):
        array[...]


def test_the_length_changes_between_two_reads_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten and lengthen an array to the same length while a reader reads the length."""
    array = tegula.create_array(tmp_path / "x", shape=40, chunks=16, dtype="i4", fill_value=5, format="bcolz")
    handle = tegula.open_array(tmp_path / "x")
    chunk = tmp_path / "x" / "data" / "__2.blp"
    looks: list[int] = []

    def look(stored: Any, original: Any = lengths.current_length) -> Any:
        looks.append(len(looks))
        if len(looks) <= 4:  # at the fourth look it is whole again
            array.resize(30)
            array.resize(40)
            if len(looks) < 4:
                chunk.unlink()
        return original(stored)

    monkeypatch.setattr(lengths, "current_length", look)
    chunk.unlink()
    assert handle[:].tolist() == [5] * 40
    assert len(looks) == 4


CHURN = """
import sys, numpy as np, tegula
array = tegula.open_array(sys.argv[1], "r+")
for number in range(100_000):
    array.refresh()
    array.append(np.full(5, 7, "i4")) if len(array) < 30 or number % 3 == 0 and len(array) < 60 else array.resize(12)
"""


@pytest.mark.slow
def test_readers_and_writers_beside_others_that_change_the_length(tmp_path: Path) -> None:
    place = tmp_path / "x"
    tegula.create_array(place, shape=40, chunks=16, dtype="i4", fill_value=7, format="bcolz")
    others = [subprocess.Popen([sys.executable, "-c", CHURN, place]) for _ in range(2)]
    acts: list[Callable[[tegula.Array], Any]] = [
        lambda array: array[...],
        lambda array: array.oindex[[0, -1]],
        lambda array: array.__setitem__(slice(3, 9), 7),
        lambda array: array.__setitem__(-1, 7),
    ]
    messages = []
    try:
        begin = time.monotonic()
        # on a busy machine it may take a while until a length changes between two of these steps
        while time.monotonic() < begin + 4 or (not messages and time.monotonic() < begin + 120):
            array = tegula.open_array(place, "r+")
            for act in acts:
                try:
                    values = act(array)
                except tegula.SelectionError as error:
                    messages.append(str(error))
                else:
                    assert values is None or (values == 7).all()
            assert (array[:12] == 7).all()  # which are always there
        assert all(process.poll() is None for process in others)
    finally:
        for process in others:
            process.kill()
            process.wait(60)
    assert messages
    assert all("shortened" in message for message in messages)


def test_an_array_is_gone_with_either_of_its_documents(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=4, dtype="i4", format="bcolz")
    array = tegula.open_array(tmp_path / "x", "r+")
    (tmp_path / "x" / "meta" / "storage").unlink()
    with pytest.raises(tegula.NotFoundError, match="deleted or moved"):
        array.append([1])
