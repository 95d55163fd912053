"""The ``json`` driver: a value in a JSON document, as a 0-d array."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from math import isfinite
from typing import Any, ClassVar, Self
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from tegula.errors import ConflictError
from tegula.indexing import Transform
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.drivers.stored import StoredSpec
from tegula.tensorstore.errors import stating, status
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json import MISSING, checked_pointer, dump, parse, replaced, resolve, to_json_value
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.transaction import Transaction
from tegula.tensorstore.spec.interface import Driver, Opening, OpenMode, SpecMember

__all__ = ["JsonSpec"]

_RETRIES = 10_000
_SCALAR = IndexDomain(rank=0)


class JsonSpec(StoredSpec):
    """The spec of a value in a JSON document; opening it creates nothing."""

    name: ClassVar[str] = "json"
    directory: ClassVar[bool] = False
    resources: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")
    creates: ClassVar[bool] = False
    members: ClassVar[Mapping[str, SpecMember]] = {
        "recheck_cached_data": StoredSpec.members["recheck_cached_data"],
        "json_pointer": SpecMember("pointer", checked_pointer, True),
    }
    recheck_data: Any = "open"
    pointer: str = ""

    def read_members(self, members: dict[str, Any]) -> None:
        super().read_members(members)
        self._check()

    def _check(self) -> None:
        """Refuse constraints that JSON values do not support, and set their data type and rank."""
        schema = self.schema
        schema._set_dtype(dtypes.json)
        schema._refuse("fill_value", "codec", by=" by json driver")
        schema._set_rank(0)

    def get_domain(self) -> IndexDomain:
        return _SCALAR

    def get_schema(self) -> Schema:
        return Schema()._put(dtype=dtypes.json, domain=_SCALAR)

    def get_chunk_layout(self) -> ChunkLayout:
        """Return the layout of a value, which no constraints change."""
        return ChunkLayout(rank=0)

    def merge(self, *, flags: OpenMode | None = None, **options: Any) -> Self:
        other = super().merge(**options)
        other._check()
        return other

    def url_suffix(self) -> str:
        return "json:" + quote(self.pointer, safe="/~-._!$&'()*+,;=:@")

    def open(self, request: Opening) -> tuple[Driver, None]:
        driver = JsonDriver(self, self.opened_kvstore(request))
        driver.mode = request.mode
        return driver, None


class JsonDriver(Driver):
    """The driver of a value in a JSON document.

    Several drivers may change the same document: each change applies to its current version.
    """

    name = "json"
    dtype = dtypes.json
    domain = _SCALAR
    source: JsonSpec
    kvstore: KvStore

    def __init__(self, source: JsonSpec, kvstore: KvStore) -> None:
        self.source = source
        self.kvstore = kvstore
        self.chunk_layout = ChunkLayout(rank=0)
        self.dimension_units = ()

    def _document(self) -> tuple[Any, Any]:
        """Return the document, `MISSING` if there is none, and its generation."""
        raw, generation = self.kvstore._store.get(self.kvstore._path, with_generation=True)
        try:
            return MISSING if raw is None else parse(bytes(raw)), generation
        except (ValueError, RecursionError):
            raise status("FAILED_PRECONDITION", f"{self._error_while('reading')}: Invalid JSON") from None

    def _error_while(self, action: str) -> str:
        return f"Error {action} {self.kvstore._describe_key('')}"

    def read(self, transform: Transform) -> npt.NDArray[Any]:
        document, _ = self._document()
        if document is MISSING:
            raise status("NOT_FOUND", self._error_while("reading"))
        with stating(self._error_while("reading")):
            value = resolve(document, self.source.pointer)
        out = np.empty(transform.shape, object)
        out.flat[0] = value
        return out

    def write(self, transform: Transform, values: npt.NDArray[Any]) -> None:
        value = _finite(to_json_value(np.asarray(values, object).item()))
        store, key = self.kvstore._store, self.kvstore._path
        if not self.source.pointer:
            store.set(key, dump(value).encode())
            return
        for _ in range(_RETRIES):
            document, generation = self._document()
            with stating(self._error_while("writing")), suppress(ConflictError):
                store.set(key, dump(replaced(document, self.source.pointer, value)).encode(), if_generation=generation)
                return
        raise status("ABORTED", f"{self._error_while('writing')}: the document kept changing")

    def with_transaction(self, transaction: Transaction | None) -> Driver:
        other = copy(self)
        other.kvstore = self.kvstore.with_transaction(transaction)
        return other


def _finite(value: Any) -> Any:
    """Return a value with null in place of infinities and NaNs, which JSON lacks."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value
