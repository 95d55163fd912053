"""Arrays with one metadata document, compared with TensorStore."""

from typing import Any

import pytest
import tensorstore
from tests.tensorstore.recorded_errors import kind_and_code

import tegula.tensorstore as ts

METADATA: dict[str, dict[str, Any]] = {
    "zarr": {"shape": [3], "dtype": "<f4", "chunks": [3], "fill_value": 0, "compressor": None},
    "zarr3": {"shape": [3], "data_type": "float32", "fill_value": 0},
}


def refusal(package: Any, spec: dict[str, Any], flags: dict[str, bool]) -> str | None:
    """Return the kind of the error if a spec is refused; None if it is not."""
    try:
        package.open(spec, **flags).result()
    except ValueError as error:
        return kind_and_code(error)
    return None


@pytest.mark.parametrize("driver", METADATA)
@pytest.mark.parametrize("assumed", ["assume_metadata", "assume_cached_metadata"])
@pytest.mark.parametrize("others", [{"open": True}, {"open": True, "create": True}])
def test_assumed_metadata_meet_the_schema(driver: str, assumed: str, others: dict[str, bool]) -> None:
    spec = {"driver": driver, "kvstore": "memory://", "metadata": METADATA[driver]}
    accepted = []
    for schema in (
        {"fill_value": 0},
        {"fill_value": 5},
        {"fill_value": [1, 2, 3]},
        {"dtype": "float32", "fill_value": "NaN"},
        {"chunk_layout": {"codec_chunk": {"shape": [3]}}},
        {"codec": {"driver": driver}},
    ):
        results = [
            refusal(package, {**spec, "schema": schema}, {assumed: True, **others}) for package in (ts, tensorstore)
        ]
        assert results[0] == results[1]
        accepted.append(results[0] is None)
    assert accepted == [True, False, False, False, False, True]
