"""Opening an array takes a bounded number of Python calls, which is most of the time it takes."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tegula
import tegula.tensorstore as ts

MOST = 150


def calls_of(function: Callable[[], Any]) -> int:
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    gc.collect()
    gc.disable()  # garbage of other tests must not count
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_opening_again_takes_few_calls(tmp_path: Path, format: str) -> None:
    tegula.create_array(tmp_path / "a", shape=(100, 100), chunks=(10, 10), dtype="f4", format=format)
    spec = {"driver": format, "kvstore": f"file://{tmp_path}/a/"}
    for _ in range(2):
        ts.open(spec).result()
    count = calls_of(lambda: ts.open(spec).result())
    assert count <= MOST, f"{count} calls"
    assert count > 20  # they were counted
