"""Arrays with one metadata document, compared with TensorStore."""

from typing import Any

import pytest
import tensorstore
from tests.tensorstore.recorded_errors import kind_and_code, value_or_error

import tegula.tensorstore as ts

SHAPES: dict[str, list[dict[str, Any]]] = {
    "zarr": [{}, {"shape": [3, 4]}, {"chunks": [2, 2]}],
    "zarr3": [
        {},
        {"shape": [3, 4]},
        {"dimension_names": ["x", "y"]},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}},
    ],
    "n5": [{}, {"dimensions": [3, 4]}, {"axes": ["x", "y"]}, {"blockSize": [2, 2]}],
}
DOMAINS: list[dict[str, Any]] = [
    {"exclusive_max": [3, 4], "inclusive_min": [0, 0], "labels": ["a", "y"]},
    *({"exclusive_max": [3, 4], "inclusive_min": low} for low in ([0, 0], [1, 0], [0, 1], [[1], 0], ["-inf", 0])),
    *({"inclusive_min": low} for low in ([1, 0], [-1, 0], [1])),
    *({"exclusive_max": high, "inclusive_min": [0, 0]} for high in ([5, 4], [[3], [4]], [[5], [4]])),
    *({"exclusive_max": [3], "inclusive_min": [low]} for low in (0, 1)),
    {"rank": 1},
]
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


def domain_of(package: Any, spec: dict[str, Any], domain: dict[str, Any]) -> Any:
    """Return what a spec says with a domain in its schema, and with one that is added; errors as `kind_and_code`."""

    def within() -> str:
        return repr(package.Spec({**spec, "schema": {"dtype": "int16", "domain": domain}}).domain)

    def added() -> str:
        described = package.Spec({**spec, "dtype": "int16"})
        described.update(domain=package.IndexDomain(json=domain))
        return repr(described.domain)

    return [value_or_error(call) for call in (within, added)]


@pytest.mark.parametrize("driver", SHAPES)
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_domains_fit_the_metadata(driver: str, domain: dict[str, Any]) -> None:
    for metadata in SHAPES[driver]:
        spec = {"driver": driver, "kvstore": "memory://", "metadata": metadata}
        assert domain_of(ts, spec, domain) == domain_of(tensorstore, spec, domain)


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
