"""Arrays whose elements are converted when they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError


@pytest.mark.parametrize("dtype", [True, "foo", "5,", object()])
def test_astype_error_names_the_invalid_data_type(dtype: Any) -> None:
    with pytest.raises(MetadataError, match=r"is not a data type.*'dtype'"):
        tegula.zeros(3).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "i8", "c16", "S3"])
def test_astype_converts_elements_on_reading(dtype: str) -> None:
    values = np.arange(12, dtype="i2").reshape(3, 4)
    view = tegula.array(values, chunks=(2, 2)).astype(dtype)
    for selection in [..., 1, (1, 2), slice(None, None, -1), [0, 2], (slice(1), [1, 1])]:
        expected = values.astype(dtype)[selection]
        assert np.array_equal(view[selection], expected)
        assert view[selection].dtype == expected.dtype
        assert type(view[selection]) is type(expected)
    assert (len(view), view.shape, view.ndim, view.size, view.dtype) == (3, (3, 4), 2, 12, np.dtype(dtype))
    assert np.asarray(view).dtype == np.dtype(dtype)
    assert np.asarray(view, "O").dtype == object
    with pytest.raises(ValueError, match="copy"):
        np.array(view, copy=False)
