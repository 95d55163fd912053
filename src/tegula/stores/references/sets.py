"""kerchunk references in JSON: keys to parts of files elsewhere, or to values stored among the references."""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

from tegula.config.budget import Budget, parse_json
from tegula.errors import StoreError
from tegula.stores.arguments import is_key
from tegula.stores.key_tree import KeyTree
from tegula.stores.references.templates import Generator, render
from tegula.stores.secrets import redacted

__all__ = ["JsonReferences", "Reference", "ReferenceSet", "inlined", "reference_from"]

_LONGEST: Final = 2**16  # characters of a URL
_FREE: Final = 2**14  # of the cost of each lookup; more is taken from the budget of the document


class Reference(NamedTuple):
    """A part of a file elsewhere.

    Attributes
    ----------
    url : str
        The file.
    offset : int
        Offset of the part.
    length : int or None
        Length of the part; ``None`` means up to the end.
    """

    url: str
    offset: int = 0
    length: int | None = None


class ReferenceSet(ABC):
    """A mapping of keys to references, in which a `tegula.stores.references.store.ReferenceStore` looks them up."""

    @abstractmethod
    def find(self, key: str) -> Reference | bytes | None:
        """Return the reference of a key, or its value, or ``None`` if there is neither.

        Raises
        ------
        StoreError
            If what is stored for the key is not a reference.
        """

    @abstractmethod
    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys below a prefix."""

    @abstractmethod
    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below a prefix, each sorted."""

    @abstractmethod
    def some_url(self) -> str | None:
        """Return the URL of one of the files; ``None`` if there is none."""


class JsonReferences(ReferenceSet):
    """References of one JSON document, of version 0 or 1 of kerchunk's specification.

    Parameters
    ----------
    document : mapping
        The document.
    templates : mapping, optional
        Templates that replace those of the document.
    budget : Budget, optional
        What the document may cost besides the memory that it takes already: for what it generates, and for templates.

    Raises
    ------
    StoreError
        If the document does not have the form of references, or its generators cost more than the budget.

    Examples
    --------
    >>> found = JsonReferences({"version": 1, "templates": {"u": "s3://b"}, "refs": {"x/0": ["{{u}}/f.nc", 8, 4]}})
    >>> found.find("x/0")
    Reference(url='s3://b/f.nc', offset=8, length=4)
    """

    def __init__(self, document: Any, templates: Mapping[str, str] | None = None, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._made: dict[str, int] = {}  # the generated keys, and which of all generated references each has
        self._generators: list[Generator] = []
        self._starts: list[int] = []
        if not isinstance(document, Mapping):
            raise StoreError("the document is not a JSON object, so it holds no kerchunk references")
        if document.get("version") is None and "refs" not in document:
            self._refs: Mapping[str, Any] = document
            self._templates: Mapping[str, str] = {}
            return
        if document.get("version", 1) != 1:
            raise StoreError(f"kerchunk references have version 0 or 1, not {document['version']!r:.40}")
        refs, own = document.get("refs", {}), document.get("templates", {})
        if not isinstance(refs, Mapping) or not isinstance(own, Mapping) or not isinstance(templates, Mapping | None):
            raise StoreError("refs and templates of references must be JSON objects")
        self._templates = {**own, **(templates or {})}
        entries = document.get("gen", [])
        if not isinstance(entries, list):
            raise StoreError("gen of references must be a JSON list", field="gen")
        self._refs = refs
        count = 0
        for entry in entries:
            self._generators.append(Generator(entry))
            self._starts.append(count)
            for key in self._generators[-1].keys(self._templates, self._budget):
                self._made[key] = count
                count += 1

    @classmethod
    def parse(cls, raw: bytes, templates: Mapping[str, str] | None = None) -> JsonReferences:
        """Read the references from the bytes of a document."""
        budget = Budget(len(raw))
        return cls(parse_json(raw, StoreError, budget), templates, budget)

    @cached_property
    def _tree(self) -> KeyTree:
        return KeyTree(filter(is_key, chain(self._refs, self._made)))

    def find(self, key: str) -> Reference | bytes | None:
        number = self._made.get(key)
        value = None if number is not None else self._refs.get(key)
        if number is None and (not self._templates or not isinstance(value, list)):
            return None if value is None else reference_from(value)

        # an ordinary lookup costs the document nothing; once its budget is used up, templates are evaluated no more
        before = self._budget.left
        own = Budget()
        own.left = before + min(_FREE, before)
        try:
            if number is not None:
                at = bisect_right(self._starts, number) - 1
                return reference_from(self._generators[at].reference(number - self._starts[at], self._templates, own))
            return reference_from(value, lambda text: render(text, self._templates, own))
        finally:
            if own.left < before:
                self._budget.left = max(0, self._budget.left - (before - own.left))

    def keys(self, prefix: str) -> Iterator[str]:
        return iter(self._tree.keys(prefix))

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        return self._tree.children(prefix)

    def some_url(self) -> str | None:
        for key in chain(self._made, (key for key, value in self._refs.items() if isinstance(value, (list, tuple)))):
            found = self.find(key)
            return found.url if isinstance(found, Reference) else None
        return None


def reference_from(value: Any, rendered: Callable[[str], str] | None = None) -> Reference | bytes:
    """Read one entry of references, in whose URL `rendered` replaces the templates.

    Raises
    ------
    StoreError
        If it is not valid.

    Examples
    --------
    >>> reference_from("base64:YWJj"), reference_from({"zarr_format": 2}), reference_from(["x.nc"])
    (b'abc', b'{"zarr_format": 2}', Reference(url='x.nc', offset=0, length=None))
    """
    if isinstance(value, str):
        return inlined(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (bytes, bytearray)):
        return inlined(bytes(value))
    if isinstance(value, Mapping):
        return json.dumps(value).encode()
    if not isinstance(value, (list, tuple)) or len(value) not in (1, 3):
        raise StoreError(redacted(f"{value!r:.80} is not a reference"))
    url, *part = value
    if not isinstance(url, str) or not url or "\0" in url:
        raise StoreError(redacted(f"a reference names no file: {value!r:.80}"))
    if "{{" in url and rendered is not None:
        url = rendered(url)
    if len(url) > _LONGEST:
        raise StoreError(f"a reference names a file by more than {_LONGEST} characters: {url[:60]!r}")
    if not part:
        return Reference(url)
    if any(type(number) is not int or not 0 <= number < 2**63 for number in part):
        raise StoreError(f"offset and length of a reference must be whole numbers of at least 0, not {part!r:.60}")
    return Reference(url, *part)


def inlined(value: bytes) -> bytes:
    """Return a value stored among the references, which may be encoded as base64."""
    if not value.startswith(b"base64:"):
        return value
    try:
        return base64.b64decode(value[7:].translate(None, b" \t\n\r\v\f"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise StoreError(f"a value among the references is not valid base64: {error}") from error
