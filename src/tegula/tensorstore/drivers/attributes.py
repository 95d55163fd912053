"""The user's attributes of a stored array, as a mapping that writes through; TensorStore itself has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tegula.attributes import Attributes
from tegula.errors import ConflictError
from tegula.stores import Store
from tegula.tensorstore.errors import annotate, status
from tegula.tensorstore.json.binding import dump, obj

__all__ = ["attributes_in"]

_RETRIES = 10_000
Change = Callable[[dict[str, Any]], dict[str, Any]]


def attributes_in(store: Store, key: str, check: Callable[[bytes], Any] | None, *, writable: bool) -> Attributes:
    """Return the attributes that a JSON document holds.

    Parameters
    ----------
    store, key : Store, str
        The document, which need not exist.
    check : callable, optional
        For an array's own document, in which they are the member ``attributes``: raises if one could not be opened
        again. None if the document has nothing but attributes.
    writable : bool
        Whether they may be changed.
    """
    document = _Document(store, key, check)

    def change(how: Change) -> None:
        if not writable:
            raise status("INVALID_ARGUMENT", "Destination does not support writing.")
        document.change(how)

    return Attributes(document.attributes, change)


class _Document:
    """The JSON document that attributes are in: the array's own, or one beside it."""

    def __init__(self, store: Store, key: str, check: Callable[[bytes], Any] | None) -> None:
        self.store, self.key, self.check = store, key, check

    def attributes(self) -> dict[str, Any]:
        return self._parts(self.store.get(self.key))[1]

    def _parts(self, raw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the document and the attributes in it."""
        try:
            document = obj(json.loads(bytes(raw).decode("utf-8-sig"))) if raw is not None else {}
            return document, document if self.check is None else obj(document.get("attributes", {}))
        except ValueError as error:
            wrong = status("FAILED_PRECONDITION", f"Invalid JSON: {error}")
            raise annotate(wrong, f"Error reading {dump(self.key)}") from None

    def change(self, how: Change) -> None:
        for _ in range(_RETRIES):
            raw, generation = self.store.get(self.key, with_generation=True)
            document, attributes = self._parts(raw)
            changed = how(attributes)
            new = dump(changed if self.check is None else {**document, "attributes": changed}).encode()
            if self.check is not None:
                self.check(new)
            try:
                self.store.set(self.key, new, if_generation=generation)
                return
            except ConflictError:
                continue
        raise status("ABORTED", f"{dump(self.key)} kept changing")
