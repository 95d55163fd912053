"""Opening and reading take a bounded number of Python calls, which are most of the time that they take."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.walks import calls, within

import tegula
import tegula.tensorstore as ts
from tegula import config

MOST = 150
MOST_OF_A_READ = 50
MOST_OF_AN_UNKNOWN_DOCUMENT = 500


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


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_document_is_read_once(tmp_path: Path, format: str) -> None:
    key = "zarr.json" if format == "zarr3" else ".zarray"
    tegula.create_array(tmp_path / "a", shape=(4321, 100), chunks=(10, 10), dtype="f4", format=format)
    (tmp_path / "b").mkdir()
    document = (tmp_path / "a" / key).read_text().replace("4321", "4322")  # known to nobody
    (tmp_path / "b" / key).write_text(document)
    ts.open({"driver": format, "kvstore": f"file://{tmp_path}/a/"}).result()  # imports what is needed
    seen = calls(lambda: ts.open({"driver": format, "kvstore": f"file://{tmp_path}/b/"}).result())
    counts = Counter(name for file, name in seen if file.endswith((f"{format}.py", "data_types.py")))
    assert len(seen) <= MOST_OF_AN_UNKNOWN_DOCUMENT
    assert counts["describe"] == 1
    assert counts["data_type_from_json"] == (format == "zarr3")
