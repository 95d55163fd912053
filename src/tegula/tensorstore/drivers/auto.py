"""The ``auto`` driver: detects the format of an existing array from its keys, and opens the array."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, Self

from tegula.errors import StoreError
from tegula.stores.targets.paths import local_path
from tegula.tensorstore.drivers.stored import StoredSpec
from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.index.transform import IndexTransform
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, Opening, OpenMode, SpecMember
from tegula.tensorstore.spec.spec import Spec, read_spec
from tegula.views import documents, specs

__all__ = ["AutoSpec"]

_FORMATS: Final = {
    "zarr.json": "zarr3",
    ".zarray": "zarr2",
    "attributes.json": "n5",
    "meta/storage": "bcolz",
    "__rootdirs__": "bcolz",
    "meta": "zarr1",
}
"""Keys below an array's path that identify its format, and the URL scheme of the format."""


class AutoSpec(StoredSpec):
    """The spec of an existing array of any format."""

    name: ClassVar[str] = "auto"
    directory: ClassVar[bool] = False
    resources: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")
    optional_resources: ClassVar[frozenset[str]] = frozenset(resources)
    creates: ClassVar[bool] = False
    members: ClassVar[Mapping[str, SpecMember]] = {}

    def merge(self, *, flags: OpenMode | None = None, **options: Any) -> Self:
        if flags is not None and flags.create and not flags.open:
            raise invalid("create mode not compatible with format auto-detection")
        return super().merge(flags=flags, **options)

    def url_suffix(self) -> str:
        return "auto:"

    def open(self, request: Opening) -> tuple[Driver, IndexTransform | None]:
        kvstore = self.opened_kvstore(request)
        document = _document_of_view(kvstore)
        if document is None:
            document = {"driver": self._detect_scheme(kvstore), "kvstore": self.kvstore}
        spec = Spec._of(*read_spec(document))._merged(schema=self.schema)
        spec._driver.bindings.take_over(self.bindings)
        return spec._bound(self.bindings.home(request.context))._open(request)

    def _detect_scheme(self, kvstore: KvStore) -> str:
        """Return the URL scheme of the only format whose keys exist."""
        store, path = kvstore._store, kvstore._path
        prefix = path if not path or path.endswith("/") else f"{path}/"
        schemes = set()
        for key, scheme in _FORMATS.items():
            with suppress(StoreError):  # there may be a file where the key has a directory
                schemes |= {scheme} if store.exists(prefix + key) else set()
        if len(schemes) == 1:
            return schemes.pop()
        found = f"Multiple possible formats detected, {', '.join(sorted(schemes))}," if schemes else ""
        raise status("FAILED_PRECONDITION", f"{found or 'Failed to detect format'} for {kvstore._describe_key('')}")


def _document_of_view(kvstore: KvStore) -> dict[str, Any] | None:
    """Return the document of a view that a path names, with absolute paths; ``None`` if it names something else."""
    store, path = kvstore._store, kvstore._path
    document = documents.read_document(store, path) if path.endswith(".json") else None
    if document is None:
        return None
    folder = kvstore.url.rpartition("/")[0]
    local = local_path(folder)
    return specs.absolute(document, folder if local is None else local, local is None)
