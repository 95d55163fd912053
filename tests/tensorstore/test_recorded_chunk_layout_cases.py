"""Recorded choices of chunk shapes are made again by creating each array."""

from typing import Any

import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

from tegula import config
from tegula import tensorstore as ts
from tegula.errors import TegulaError

pytestmark = [pytest.mark.once(executors="none"), pytest.mark.slow]

# TensorStore writes the order "F" of an array of at most one dimension as "C", and then refuses that as another one
# than was asked for, with the document left behind. The two orders are the same there, so it is accepted.
SAME_ORDER = 'Expected "order" of "F" but received: "C"'


def create(case: dict[str, Any]) -> dict[str, Any]:
    """Create the array of a case; return what is recorded of it."""
    driver, shape = case["driver"], case["extents"]
    spec: dict[str, Any] = {"driver": driver, "kvstore": {"driver": "memory"}, "metadata": {}}
    metadata, schema = spec["metadata"], spec.setdefault("schema", {})
    if case["chunk_layout"] is not None:
        schema["chunk_layout"] = case["chunk_layout"]
    if "dtype" in case:
        metadata["dtype"], metadata["shape"] = case["dtype"], shape
    else:
        spec["dtype"], schema["domain"] = "uint8", {"shape": shape}
    if (chunks := case.get("metadata_chunks")) is not None:
        grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
        metadata.update({"chunks": chunks} if driver == "zarr" else {"chunk_grid": grid})
    if "order" in case:
        metadata["order"] = case["order"]
    with config.configure(max_chunk_bytes=2**62):  # some chunks are huge, but nothing is put into them
        created = ts.open(spec, create=True).result()
    if driver == "zarr":
        stored = created.spec().to_json()["metadata"]
        return {"chunks": stored["chunks"], "order": stored["order"]}
    layout = created.chunk_layout
    return {usage: list(getattr(layout, usage).shape or ()) for usage in ("read_chunk", "write_chunk")}


def test_recorded_choices() -> None:
    wrong = []
    for case in recorded("chunk_layout_cases")["cases"]:
        expected = case["expected"]
        if SAME_ORDER in expected.get("error", ""):
            assert create(case)["order"] in ("C", "F")
        elif "error" in expected:
            with pytest.raises(TegulaError) as caught:
                create(case)
            check(caught.value, {"type": expected["error_type"], "message": expected["error"]}, case["chunk_layout"])
        elif (actual := create(case)) != expected:
            wrong.append((case, actual))
    assert not wrong
