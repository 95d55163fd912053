"""An object knows the chunk that it has extended last, as long as no other writer has changed the file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config

FORMATS = ["bcolz", "zarr2", "zarr3"]
CHUNK = 8


def rows(start: int, count: int) -> dict[str, Any]:
    numbers = np.arange(start, start + count)
    return {"a": numbers.astype("i4"), "b": numbers / 2}


def new_table(place: str, format: str, **options: Any) -> None:
    tegula.create_table(place, rows(0, CHUNK + 1), format=format, chunks=CHUNK, **options)


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "cut", "grow", "set", "other program"]), st.integers(0, 2),
        st.integers(1, 2 * CHUNK)),
    max_size=20,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(one_in=13)
@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=100)
@given(steps=STEPS, compressed=st.booleans())
def test_objects_and_programs_that_take_turns_lose_nothing(
    format: str, steps: list[tuple[str, int, int]], compressed: bool
) -> None:
    compressed = compressed or format == "bcolz"
    with tempfile.TemporaryDirectory() as place:
        new_table(f"{place}/t", format, **({} if compressed else {"codecs": None}))
        tables = [tegula.open_table(f"{place}/t", mode="r+") for _ in range(3)]
        expected = np.arange(CHUNK + 1)
        for what, which, number in steps:
            table, length = tables[which], len(expected)
            if what == "append":
                table.append(rows(1000 * number, number))
                expected = np.concatenate([expected, 1000 * number + np.arange(number)])
            elif what in ("cut", "grow"):
                new = max(0, length - number) if what == "cut" else length + number
                table.resize(new)
                expected = np.resize(expected[:new], new) if new <= length else np.pad(expected, (0, new - length))
            elif length and what == "set":
                index = number % length
                tegula.open_array(f"{place}/t", path="a", mode="r+")[index] = 7
                tegula.open_array(f"{place}/t", path="b", mode="r+")[index] = 3.5
                expected[index] = 7
            elif length and not compressed:  # writes into the file of the last chunk, which keeps its size
                change_in_place(f"{place}/t", expected)
            for one in tables:
                one.refresh()
                assert one["a"][...].tolist() == expected.tolist()
                assert one["b"][...].tolist() == (expected / 2).tolist()


def change_in_place(place: str, expected: Any) -> None:
    """Negate the last chunks of both columns, which are not compressed; the files keep their sizes."""
    number = (len(expected) - 1) // CHUNK
    for name, dtype in (("a", "i4"), ("b", "f8")):
        for file in Path(place, name, "c", str(number)), Path(place, name, str(number)):
            if file.exists():  # unless all of it is the fill value
                stored = np.fromfile(file, dtype)
                with file.open("r+b") as opened:
                    opened.write((-stored).tobytes())
    expected[number * CHUNK :] *= -1


@pytest.mark.parametrize("format", FORMATS)
def test_a_further_append_does_not_read_the_chunk_again(kernel: Any, format: str, tmp_path: Path) -> None:
    new_table(str(tmp_path / "t"), format)
    table = tegula.open_table(tmp_path / "t", mode="r+")
    calls: list[tuple[str, str]] = []

    def chunks_read(number: int) -> int:
        calls.clear()
        kernel.faults(lambda call, path: calls.append((call, path)))
        try:
            with config.configure(executor="kernel"):
                table.append(rows(number, 1))
        finally:
            kernel.faults()
        return sum("read" in call for call, _ in calls)

    assert [chunks_read(number) > 0 for number in range(4)] == [True, False, False, False]
    other = tegula.open_table(tmp_path / "t", mode="r+")
    other.append(rows(4, 1))
    assert chunks_read(5) > 0
    assert chunks_read(6) == 0
    assert table["a"][CHUNK + 1 :].tolist() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_chunks_of_few_mebibytes_are_kept_at_most(kernel: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", KEPT, str(tmp_path)]
    environment = {**os.environ, "TEGULA_EXECUTOR": "kernel"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 48 * 2**20


KEPT = """
import os, sys
import numpy as np
import tegula

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

columns = {f"c{i}": np.zeros(2**17 - 10) for i in range(100)}
table = tegula.create_table(sys.argv[1] + "/t", columns, format="zarr3", chunks=2**17, codecs=None)
row = {name: [1.0] for name in columns}
tegula.create_table(sys.argv[1] + "/other", row, format="zarr3").append(row)  # loads what appends need
before = resident()
for _ in range(6):
    table.append(row)
assert table["c99"][-6:].tolist() == [1.0] * 6
print(resident() - before)
"""
