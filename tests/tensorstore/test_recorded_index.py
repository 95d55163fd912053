"""Recorded indexing expressions: domains, transforms, and the coordinates that the values encode."""

from typing import Any

import numpy as np
import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check as check_error

from tegula.tensorstore.index import domain, indexing, output_maps, transform

pytestmark = pytest.mark.once(executors="none")

SHAPE = (6, 7, 8)


class ts:
    """The names that the expressions use."""

    IndexDomain = domain.IndexDomain
    IndexTransform = transform.IndexTransform
    OutputIndexMap = output_maps.OutputIndexMap
    d = indexing.d


CASES = recorded("golden_index")["cases"]


def coordinates(x: transform.IndexTransform) -> np.ndarray[Any, Any]:
    """Look every index of a transform's domain up, as the C-order position in the array."""
    flat = [np.ravel_multi_index(x(np.add(index, x.origin)), SHAPE) for index in np.ndindex(x.shape)]
    return np.array(flat, np.int64).reshape(x.shape)


def check(case: dict[str, Any]) -> None:
    x = transform.identity(domain.IndexDomain(shape=SHAPE))
    if "error" in case:
        kind = {"IndexError": IndexError, "ValueError": ValueError, "AttributeError": AttributeError}
        with pytest.raises(kind[case["error"]["type"]]) as caught:
            eval(case["expr"], {"x": x, "ts": ts, "np": np})
        check_error(caught.value, case["error"], case["expr"])
        return
    result = eval(case["expr"], {"x": x, "ts": ts, "np": np})
    if "repr" in case:
        assert repr(result) == case["repr"]
        return
    assert result.domain.to_json() == case["domain"]
    assert list(result.origin) == case["origin"]
    assert list(result.shape) == case["shape"]
    assert result.to_json() == case["transform"]
    assert transform.IndexTransform(json=case["transform"]).to_json() == case["transform"]
    if "values" in case:
        values = coordinates(result)
        assert values.tolist() == case["values"]
        assert int(values.sum()) == case["values_sum"]
    if "read_error" in case:
        with pytest.raises(ValueError, match="7"):
            coordinates(result)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["expr"])
def test_indexing_does_what_was_recorded(case: dict[str, Any]) -> None:
    check(case)
