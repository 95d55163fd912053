"""The formats: which keys to look at, documents to model (`parse`), model to documents (`serialize`).

Each module is a few pure functions over a mapping of keys to bytes; none does I/O. Converting metadata between formats
is ``parse`` with one, ``adapt`` and ``serialize`` with another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tegula.errors import MetadataError, TegulaError
from tegula.formats import zarr1, zarr2, zarr3
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata

__all__ = ["FORMATS", "Format", "find_format", "parse"]

Documents = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Format:
    """The functions of one format; see the module of that name for each.

    Parameters
    ----------
    name : str
        Its name in `tegula.open` and `tegula.create_array`.
    keys : tuple of str
        The keys to look at, relative to a node.
    has_groups, writable : bool
        Whether it knows groups, and whether arrays are written in it.
    """

    name: str
    keys: tuple[str, ...]
    parse: Callable[[Documents], NodeMetadata | None]
    serialize: Callable[[NodeMetadata], dict[str, bytes]]
    adapt: Callable[[ArrayMetadata], ArrayMetadata]
    compressors: tuple[CodecSpec, ...]
    has_groups: bool = True
    writable: bool = True
    consolidated_key: str = ""
    consolidated: Callable[[Documents], dict[str, dict[str, bytes]] | None] | None = None
    consolidate: Callable[[GroupMetadata, Mapping[str, Documents]], dict[str, bytes]] | None = None


FORMATS: Final[Mapping[str, Format]] = {
    item.name: item
    for item in (
        Format(
            zarr3.NAME, zarr3.KEYS, zarr3.parse, zarr3.serialize, zarr3.adapt, zarr3.DEFAULT_COMPRESSORS,
            consolidated_key="zarr.json", consolidated=zarr3.consolidated, consolidate=zarr3.consolidate,
        ),
        Format(
            zarr2.NAME, zarr2.KEYS, zarr2.parse, zarr2.serialize, zarr2.adapt, zarr2.DEFAULT_COMPRESSORS,
            consolidated_key=".zmetadata", consolidated=zarr2.consolidated, consolidate=zarr2.consolidate,
        ),
        Format(
            zarr1.NAME, zarr1.KEYS, zarr1.parse, zarr1.serialize, zarr1.adapt, zarr1.DEFAULT_COMPRESSORS,
            has_groups=False,
        ),
        Format(
            zarr1.OLD_NAME, zarr1.OLD_KEYS, zarr1.parse_old, zarr1.serialize, zarr1.adapt, zarr1.DEFAULT_COMPRESSORS,
            has_groups=False, writable=False,
        ),
    )
}  # fmt: skip
"""Every format by name, the newest first."""


def find_format(name: str) -> Format:
    """Return the format of that name.

    Raises
    ------
    MetadataError
        If there is none.
    """
    try:
        return FORMATS[name]
    except (KeyError, TypeError):
        raise MetadataError(f"no format is called {name!r}; there are {', '.join(FORMATS)}", field="format") from None


def parse(documents: Documents) -> NodeMetadata | None:
    """Detect the format of a node from the keys that are present, and read its documents.

    Where one place holds documents of several formats, an array goes before a group, and then the newer format before
    the older: libraries have left empty groups in the directories of older arrays, and a migrated array carries two
    descriptions of the same chunks.

    Returns
    -------
    ArrayMetadata, GroupMetadata or None
        ``None`` if no format has its documents there.
    """
    group: NodeMetadata | None = None
    for item in FORMATS.values():
        if not any(key in documents for key in item.keys):
            continue
        try:
            node = item.parse(documents)
        except TegulaError:
            if group is None:
                raise
            continue  # a file of that name beside a group need not be ours
        if isinstance(node, ArrayMetadata):
            return node
        group = group or node
    return group
