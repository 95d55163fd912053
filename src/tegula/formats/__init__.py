"""The formats: which keys to look at, documents to model (`parse`), model to documents (`serialize`).

Each module is a few pure functions over a mapping of keys to bytes; none does I/O. Converting metadata between formats
is ``parse`` with one, ``adapt`` and ``serialize`` with another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tegula.errors import MetadataError, TegulaError
from tegula.formats import bcolz1, zarr1, zarr2, zarr3
from tegula.formats.documents import Style
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
    node_keys : tuple of str
        Those of which one makes a node.
    has_groups, writable : bool
        Whether it knows groups, and whether arrays are written in it.
    has_tables : bool
        Whether it knows tables: groups that list their columns in order.
    shape_key : str
        The one whose document says the shape of an array.
    new_draft : callable, optional
        From a unique text, makes what stands for the document of `shape_key` while the chunks of a new array are
        written, where each of them has to be stored. Until that is replaced the array can't be opened.
    is_draft : callable
        Whether a document was made by `new_draft`.
    attributes_at : tuple, optional
        Where a few attributes of many can be changed by themselves: the key of the document, the names of the members
        that lead to them, and the style of a new document.
    telling : frozenset of str
        Names of attributes that `parse` makes more of than an attribute.
    automatic_chunks : callable, optional
        Its own rule for the chunks of a new array: from shape and bytes of an element to chunk shape.
    reserved_prefix : str
        What names of nodes must not begin with; those that an older format allowed are read all the same.
    mask : str
        Where readers of CF data look for the value that stands for missing ones: ``"fill_value"``, ``"attribute"``, or
        nowhere.
    """

    name: str
    keys: tuple[str, ...]
    node_keys: tuple[str, ...]
    shape_key: str
    parse: Callable[[Documents], NodeMetadata | None]
    serialize: Callable[[NodeMetadata], dict[str, bytes]]
    adapt: Callable[[ArrayMetadata], ArrayMetadata]
    compressors: tuple[CodecSpec, ...]
    has_groups: bool = True
    writable: bool = True
    has_tables: bool = False
    automatic_chunks: Callable[[tuple[int, ...], int], tuple[int, ...]] | None = None
    new_draft: Callable[[str], bytes] | None = None
    is_draft: Callable[[bytes], bool] = lambda raw: False
    reserved_prefix: str = ""
    mask: str = ""
    attributes_at: tuple[str, tuple[str, ...], Style] | None = None
    telling: frozenset[str] = frozenset()
    consolidated_key: str = ""
    consolidated: Callable[[Documents], Mapping[str, Documents] | None] | None = None
    consolidate: Callable[[GroupMetadata, Iterable[tuple[str, Documents]]], dict[str, bytes]] | None = None


def _format(module: Any, **options: Any) -> Format:
    return Format(
        module.NAME, module.KEYS, module.NODE_KEYS, module.SHAPE_KEY, module.parse, module.serialize, module.adapt,
        module.DEFAULT_COMPRESSORS, **options,
    )  # fmt: skip


_ZARR1 = _format(zarr1, has_groups=False)
_ZARR2 = _format(
    zarr2,
    mask="fill_value",
    consolidated_key=zarr2.CONSOLIDATED_KEY,
    consolidated=zarr2.consolidated,
    consolidate=zarr2.consolidate,
    attributes_at=(zarr2.KEYS[2], (), zarr2.STYLE),
    telling=frozenset({"_ARRAY_DIMENSIONS"}),
)
_ZARR3 = _format(
    zarr3,
    reserved_prefix="__",
    mask="attribute",
    consolidated_key=zarr3.SHAPE_KEY,
    consolidated=zarr3.consolidated,
    consolidate=zarr3.consolidate,
    attributes_at=(zarr3.SHAPE_KEY, ("attributes",), zarr3.STYLE),
)
FORMATS: Final[Mapping[str, Format]] = {
    item.name: item
    for item in (
        _ZARR3,
        _ZARR2,
        _ZARR1,
        replace(
            _ZARR1,
            name=zarr1.OLD_NAME,
            keys=zarr1.OLD_KEYS,
            node_keys=zarr1.OLD_KEYS[:1],
            shape_key=zarr1.OLD_KEYS[0],
            parse=zarr1.parse_old,
            writable=False,
        ),
        _format(
            bcolz1,
            has_groups=False,
            has_tables=True,
            automatic_chunks=bcolz1.automatic_chunks,
            new_draft=bcolz1.new_draft,
            is_draft=bcolz1.is_draft,
        ),
    )
}
"""Every format by name, in the order in which they are looked for."""


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
        main = next((key for key in item.node_keys if key in documents), None)
        if main is None:
            continue
        try:
            node = item.parse(
                {key: documents[key] for key in item.keys if _counts(item, key, main) and key in documents}
            )
        except TegulaError:
            if group is None:
                raise
            continue  # a file of that name beside a group need not be ours
        if isinstance(node, ArrayMetadata):
            return node
        group = group or node
    return group


def _counts(item: Format, key: str, main: str) -> bool:
    """Return whether a document says something of a node of which `main` is the first that makes it one."""
    return item is not _ZARR2 or key == main or key not in item.node_keys  # an array of Zarr v2 is no group besides
