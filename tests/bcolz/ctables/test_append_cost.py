"""The number of Python functions in an append to a table, which is most of the time that a few rows take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.walks import within

from tegula import bcolz, config


@pytest.mark.once(executors="both")
@pytest.mark.parametrize(("place", "most"), [("directory", 110), ("memory", 25)])
def test_a_few_rows_are_appended_in_few_calls(tmp_path: Path, kernel: object, place: str, most: int) -> None:
    columns = (np.arange(3), np.arange(3.0))
    rootdir = str(tmp_path / "t") if place == "directory" else None
    with config.configure(executor="kernel"):
        table = bcolz.ctable(columns, names=["a", "b"], rootdir=rootdir, mode="w")
        assert within(most, lambda: table.append(columns))
        assert len(table) >= 12
        assert table["b"][:].tolist() == [0.0, 1.0, 2.0] * (len(table) // 3)
        if rootdir is not None:
            assert len(bcolz.open(rootdir, mode="r")) == len(table)


def test_columns_of_different_kinds_grow_together_over_few_and_many_chunks(tmp_path: Path) -> None:
    table = bcolz.ctable(
        (np.arange(3), np.ones((3, 2)), np.array(["a", None, 5], object)),
        names=["a", "b", "c"],
        rootdir=str(tmp_path / "t"),
        mode="w",
        chunklen=4,
    )
    for start, count in [(3, 1), (4, 2), (6, 30), (36, 1)]:  # objects are left by the executor, one for each chunk
        rows = np.arange(start, start + count)
        table.append((rows, np.full((count, 2), start), rows.astype(object)))
    found = {name: bcolz.carray(rootdir=str(tmp_path / "t" / name), mode="r") for name in ("a", "b")}
    assert found["a"][:].tolist() == [*range(37)]
    assert found["b"][:, 1].tolist() == [1, 1, 1, 3, 4, 4, *[6] * 30, 36]
    assert table["c"][:].tolist() == ["a", None, 5, *range(3, 37)]
