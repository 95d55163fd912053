"""Opening an array takes a bounded number of Python calls, which is most of the time it takes."""

from pathlib import Path

import pytest
from tests.walks import within

import tegula
import tegula.tensorstore as ts

MOST = 150


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_opening_again_takes_few_calls(tmp_path: Path, format: str) -> None:
    tegula.create_array(tmp_path / "a", shape=(100, 100), chunks=(10, 10), dtype="f4", format=format)
    spec = {"driver": format, "kvstore": f"file://{tmp_path}/a/"}
    assert within(MOST, lambda: ts.open(spec).result())
