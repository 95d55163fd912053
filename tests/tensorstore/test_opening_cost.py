"""Opening and reading take a bounded number of Python calls, which are most of the time that they take."""

from pathlib import Path
from typing import Any

import pytest
from tests.walks import within

import tegula
import tegula.tensorstore as ts
from tegula import config

MOST = 150
MOST_OF_A_READ = 50


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_opening_again_takes_few_calls(tmp_path: Path, format: str) -> None:
    tegula.create_array(tmp_path / "a", shape=(100, 100), chunks=(10, 10), dtype="f4", format=format)
    spec = {"driver": format, "kvstore": f"file://{tmp_path}/a/"}
    assert within(MOST, lambda: ts.open(spec).result())


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_reading_a_few_rows_takes_few_calls(tmp_path: Path, kernel: Any, format: str) -> None:
    tegula.create_array(tmp_path / "a", shape=(100, 100), chunks=(10, 10), dtype="f4", format=format)[...] = 1
    array = ts.open({"driver": format, "kvstore": f"file://{tmp_path}/a/"}).result()
    with config.configure(executor="kernel"):
        assert within(MOST_OF_A_READ, lambda: array[10:20].read().result())
