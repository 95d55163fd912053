from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tegula.codecs import CodecChain, build_chain
from tegula.metadata.data_types import as_data_type
from tegula.metadata.fill_values import scalar_array
from tegula.metadata.nodes import CodecSpec

Build = Callable[..., CodecChain]


@pytest.fixture(scope="session")
def build() -> Build:
    """Return a function that builds a chain from names or ``(name, configuration)``; the default fill value is 0."""

    def build(
        codecs: Sequence[Any], dtype: Any, ndim: int = 1, fill: Any = 0, chunk_shape: Any = None, **options: Any
    ) -> CodecChain:
        specs = [CodecSpec(codec) if isinstance(codec, str) else CodecSpec(*codec) for codec in codecs]
        data_type = as_data_type(dtype)
        value = None if fill is None else scalar_array(fill, data_type)
        return build_chain(specs, data_type, value, ndim=ndim, chunk_shape=chunk_shape, **options)

    return build
