"""TensorStore's Python interface over tegula's arrays: to run a program written for TensorStore, change its import.

Names and arguments mean what https://google.github.io/tensorstore/python/api/ says. Here their descriptions are short;
they say more where something differs.
"""

from tegula.tensorstore.adapters import (
    DownsampleMethod,
    array,
    cast,
    concat,
    downsample,
    overlay,
    stack,
    virtual_chunked,
)
from tegula.tensorstore.constraints import dtypes as _dtypes
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import *  # noqa: F403 - the names of all data types
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.context import Context
from tegula.tensorstore.drivers.virtual_chunked import VirtualChunkedReadParameters, VirtualChunkedWriteParameters
from tegula.tensorstore.future import Batch, Future, FutureLike, Promise, WriteFutures
from tegula.tensorstore.index.dim import Dim, inf
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.indexing import (
    DimExpression,
    DimSelection,
    DimSelectionLike,
    NumpyIndexingSpec,
    NumpyIndexTerm,
    d,
    newaxis,
)
from tegula.tensorstore.index.output_maps import OutputIndexMap, OutputIndexMaps, OutputIndexMethod
from tegula.tensorstore.index.transform import Indexable, IndexTransform
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.transaction import Transaction
from tegula.tensorstore.spec.interface import OpenMode, RecheckCacheOption
from tegula.tensorstore.spec.spec import Spec
from tegula.tensorstore.store import TensorStore, open

__all__ = [
    "Batch", "ChunkLayout", "CodecSpec", "Context", "Dim", "DimExpression", "DimSelection", "DimSelectionLike",
    "DownsampleMethod", "Future", "FutureLike", "IndexDomain", "IndexTransform", "Indexable", "KvStore",
    "NumpyIndexTerm", "NumpyIndexingSpec", "OpenMode", "OutputIndexMap", "OutputIndexMaps", "OutputIndexMethod",
    "Promise", "RecheckCacheOption", "Schema", "Spec", "TensorStore", "Transaction", "Unit",
    "VirtualChunkedReadParameters", "VirtualChunkedWriteParameters", "WriteFutures", "array", "cast", "concat", "d",
    "downsample", "inf", "newaxis", "open", "overlay", "stack", "virtual_chunked",
]  # fmt: skip
__all__ += _dtypes.__all__
