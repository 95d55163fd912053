"""Formats: the keys of their documents, and conversion between documents and the metadata model.

Each format consists of a few pure functions over a mapping of keys to bytes, without any I/O: ``parse`` reads
documents, ``serialize`` writes them, and ``adapt`` converts the metadata of another format. To convert metadata, call
``parse`` of one format, then ``adapt`` and ``serialize`` of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tegula.errors import MetadataError, TegulaError
from tegula.formats.keys import (
    BCOLZ_KEYS,
    BCOLZ_NODE_KEYS,
    BCOLZ_SHAPE_KEY,
    CONSOLIDATED_KEY,
    N5_KEY,
    N5_MEMBERS,
    NETCDF_KEY,
    OLD_KEYS,
    ZARR1_KEYS,
    ZARR2_KEYS,
    ZARR3_KEY,
)
from tegula.metadata.chunk_keys import ChunkKeyEncoding
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata
from tegula.runtime.deferred import Later, before_threads, on_first_use

if TYPE_CHECKING:
    from tegula.formats import leniency
    from tegula.formats.documents import load
    from tegula.formats.keys import Style
    from tegula.formats.layout import portable
    from tegula.formats.leniency import Oddity
else:
    leniency = Later("tegula.formats.leniency")

__all__ = [
    "ALL_KEYS", "COMMON_KEYS", "FORMATS", "Format", "find_format", "is_common", "keys_of_array", "keys_up_to", "load",
    "next_keys", "oddities", "parse", "portable",
]  # fmt: skip

Documents = Mapping[str, bytes]


class Format:
    """The functions and properties of one format; those defined in modules are imported at their first use.

    Parameters
    ----------
    **members
        The attributes. For those that a module of this package defines, ``homes`` has the place instead, as in
        ``{"parse": "zarr3.parse"}``.

    Attributes
    ----------
    name : str
        Its name in `tegula.open` and `tegula.create_array`.
    keys : tuple of str
        Keys of all documents of a node, relative to the node.
    node_keys : tuple of str
        Keys of documents, each of which makes a node if it is present.
    shape_key : str
        Key of the document that states the shape of an array.
    parse : callable
        Converts the documents of a node, by key, to metadata; returns ``None`` if there is no node of this format.
        Raises `MetadataError` if a document is not valid, and `UnsupportedError` if it describes an array that tegula
        can't read.
    serialize : callable
        Converts metadata to documents; unchanged parts keep their bytes. Raises `UnsupportedError` if an array does not
        have the form that `adapt` returns.
    adapt : callable
        Converts the metadata of an array of any format, or a new one, to a form that `serialize` writes: the same
        elements. Raises `UnsupportedError` for a data type, chunk grid, fill value or codec that the format can't
        express, and `MetadataError` if a codec can't encode the elements or has options that are not valid.
    compressors : tuple of CodecSpec
        Default compressors of a new array.
    has_groups, has_tables, writable : bool
        Whether the format has groups; tables (groups that list their columns in order); whether tegula writes it.
    folders_are_groups : bool
        Whether a prefix without documents is a group of the format, if there are nodes of it below.
    common : bool
        Whether most nodes have this format. A remote store is asked for the documents of other formats only where it
        has none of the `node_keys` of the common ones.
    automatic_chunks : callable, optional
        The format's own rule for the chunk shape of a new array, given its shape and the bytes of an element.
    new_draft : callable, optional
        Makes, from a unique text, a placeholder for the document `shape_key` while the chunks of a new dense array are
        written. The array can't be opened until the document replaces the placeholder.
    is_draft : callable
        Returns whether a document is such a placeholder.
    lies_apart : bool
        Whether documents and chunks do not lie below the path of their node, so that a node can't be copied as it is.
    reserved_prefix : str
        A prefix that names of new nodes must not have; existing nodes with such names are read.
    mask : str
        Where readers of CF data look for the value of missing elements: ``"fill_value"``, ``"attribute"``, or ``""``
        for nowhere.
    attributes_at : (str, tuple of str, Style), optional
        For changing single attributes in place: the key of their document, the names of the members that lead to them,
        and the style of a new document.
    interpreted_attributes : frozenset of str
        Names of attributes that are also represented in the metadata model.
    reserved_attributes : frozenset of str
        Names that attributes can't have, since the format has members of that name beside them.
    portable_attributes : callable, optional
        Returns the attributes of an array as other formats know them: without the names of its dimensions.
    stored_attributes : callable, optional
        The reverse: returns the attributes of an array as this format stores them, with the names of its dimensions.
    shape_member : str
        The member of the document `shape_key` that lists the lengths of the axes; ``""`` if there is none.
    key_field : callable, optional
        Returns the member of the document `shape_key` that names a chunk key encoding, and its value, or ``None``.
    oddities : callable, optional
        Returns what valid documents have that the specification does not allow; see `oddities`.
    consolidated_key : str
        Key of the document that holds consolidated metadata; ``""`` if the format has none.
    consolidated : callable, optional
        Reads consolidated metadata: the documents of each member by path, or ``None`` if there are none.
    consolidate : callable, optional
        Writes consolidated metadata, given a group, and paths and documents of its members.
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
    folders_are_groups: bool = False
    common: bool = False
    has_tables: bool = False
    automatic_chunks: Callable[[tuple[int, ...], int], tuple[int, ...]] | None
    new_draft: Callable[[str], bytes] | None
    is_draft: Callable[[bytes], bool]
    lies_apart: bool = False
    reserved_prefix: str = ""
    mask: str = ""
    attributes_at: tuple[str, tuple[str, ...], Style] | None
    interpreted_attributes: frozenset[str] = frozenset()
    reserved_attributes: frozenset[str] = frozenset()
    portable_attributes: Callable[[ArrayMetadata], Mapping[str, Any]] | None
    stored_attributes: Callable[[ArrayMetadata], Mapping[str, Any]] | None
    shape_member: str = "shape"
    key_field: Callable[[ChunkKeyEncoding], tuple[str, Any] | None] | None
    oddities: Callable[[Documents], list[Oddity]] | None
    consolidated_key: str = ""
    consolidated: Callable[[Documents], Mapping[str, Documents] | None] | None
    consolidate: Callable[[GroupMetadata, Iterable[tuple[str, Documents]]], dict[str, bytes]] | None

    def __init__(self, **members: Any) -> None:
        vars(self).update(members)

    def changed(self, **members: Any) -> Format:
        """Return a copy of the format with some members changed."""
        return Format(**{**vars(self), **members})


def _imported(fmt: Format, name: str) -> Any:
    """Return a member that a module of this package defines; ``None`` if the format lacks it."""
    home = vars(fmt).get("homes", {}).get(name)
    if home is None:
        if name not in Format.__annotations__:
            raise AttributeError(f"a Format has no attribute {name!r}", name=name, obj=fmt)
        value = _is_no_draft if name == "is_draft" else None
    else:
        module, _, attribute = home.rpartition(".")
        value = getattr(import_module(f"{__name__}.{module}"), attribute)
    vars(fmt)[name] = value
    return value


if not TYPE_CHECKING:  # otherwise type checkers accept any name
    Format.__getattr__ = _imported
    __getattr__, __dir__ = on_first_use(__name__, {"layout": "portable", "documents": "load"})


def _is_no_draft(raw: bytes) -> bool:
    return False


def _homes(module: str, adapting: str, **members: str) -> dict[str, str]:
    """Return which modules define the members that every format has, and further `members`."""
    homes = (module, adapting, *(member.rpartition(".")[0] for member in members.values()))
    before_threads([f"{__name__}.{home}" for home in homes])
    functions = {"parse": f"{module}.parse", "serialize": f"{module}.serialize", "adapt": f"{adapting}.adapt"}
    return {**functions, "compressors": f"{module}.DEFAULT_COMPRESSORS", **members}


_ZARR1 = Format(
    name="zarr1",
    keys=ZARR1_KEYS,
    node_keys=ZARR1_KEYS[:1],
    shape_key=ZARR1_KEYS[0],
    has_groups=False,
    homes=_homes("zarr1", "zarr1"),
)
_ZARR2 = Format(
    name="zarr2",
    keys=(*ZARR2_KEYS, NETCDF_KEY),
    node_keys=ZARR2_KEYS[:2],
    shape_key=ZARR2_KEYS[0],
    common=True,
    mask="fill_value",
    consolidated_key=CONSOLIDATED_KEY,
    interpreted_attributes=frozenset({"_ARRAY_DIMENSIONS", "_nczarr_array"}),
    homes=_homes(
        "zarr2",
        "zarr2_adapting",
        stored_attributes="dimension_names.stored_attributes",
        attributes_at="zarr2.ATTRIBUTES_AT",
        key_field="zarr2.key_field",
        oddities="zarr2.oddities",
        consolidated="zarr2.consolidated",
        consolidate="zarr2.consolidate",
    ),
)
_ZARR3 = Format(
    name="zarr3",
    keys=(ZARR3_KEY,),
    node_keys=(ZARR3_KEY,),
    shape_key=ZARR3_KEY,
    common=True,
    reserved_prefix="__",
    mask="attribute",
    interpreted_attributes=frozenset({"_nczarr_array"}),
    consolidated_key=ZARR3_KEY,
    homes=_homes(
        "zarr3",
        "zarr3_adapting",
        attributes_at="zarr3.ATTRIBUTES_AT",
        key_field="zarr3.key_field",
        oddities="zarr3.oddities",
        consolidated="zarr3.consolidated",
        consolidate="zarr3.consolidate",
    ),
)
_OLD = _ZARR1.changed(
    name="zarr0.4",
    keys=OLD_KEYS,
    node_keys=OLD_KEYS[:1],
    shape_key=OLD_KEYS[0],
    writable=False,
    homes=_homes("zarr1", "zarr1", parse="zarr1.parse_old"),
)
_BCOLZ = Format(
    name="bcolz",
    keys=BCOLZ_KEYS,
    node_keys=BCOLZ_NODE_KEYS,
    shape_key=BCOLZ_SHAPE_KEY,
    has_groups=False,
    has_tables=True,
    homes=_homes(
        "bcolz.documents",
        "bcolz.adapting",
        automatic_chunks="bcolz.chunks.automatic_chunks",
        new_draft="bcolz.documents.new_draft",
        is_draft="bcolz.documents.is_draft",
    ),
)
_N5 = Format(
    name="n5",
    keys=(N5_KEY,),
    node_keys=(N5_KEY,),
    shape_key=N5_KEY,
    shape_member="",  # the axes are in reverse order
    mask="attribute",
    folders_are_groups=True,
    reserved_attributes=N5_MEMBERS,
    homes=_homes("n5", "n5", portable_attributes="n5.portable_attributes", stored_attributes="n5.stored_attributes"),
)
_DRAFT = _ZARR3.changed(
    name="zarr3_draft",
    writable=False,
    lies_apart=True,
    common=False,
    reserved_prefix="",
    mask="fill_value",
    consolidated_key="",
    interpreted_attributes=_ZARR2.interpreted_attributes,
    homes=_homes("zarr3_draft", "zarr3_draft"),
)
FORMATS: Final[Mapping[str, Format]] = {fmt.name: fmt for fmt in (_ZARR3, _ZARR2, _ZARR1, _OLD, _BCOLZ, _N5, _DRAFT)}
"""The formats by name, in the order of detection."""
ALL_KEYS: Final = tuple(dict.fromkeys(key for fmt in FORMATS.values() for key in fmt.keys))
"""The keys of the documents of all formats, in the order of detection."""
COMMON_KEYS: Final = tuple(key for fmt in FORMATS.values() if fmt.common for key in fmt.keys if key != NETCDF_KEY)
"""Those of the common formats, which a remote store is asked for first."""
_COMMON_NODE_KEYS: Final = tuple(key for fmt in FORMATS.values() if fmt.common for key in fmt.node_keys)


def find_format(name: str) -> Format:
    """Return the format of that name.

    Raises
    ------
    MetadataError
        If there is none.

    Examples
    --------
    >>> find_format("zarr3").keys
    ('zarr.json',)
    """
    try:
        return FORMATS[name]
    except (KeyError, TypeError):
        raise MetadataError(f"no format is called {name!r}; there are {', '.join(FORMATS)}", field="format") from None


def parse(documents: Documents) -> NodeMetadata | None:
    """Detect the format of a node from the keys that are present, and read its documents.

    If there are documents of several formats, an array takes precedence over a group, and a newer format over an older
    one: some libraries left empty groups in the directories of older arrays, and a migrated array has two descriptions
    of the same chunks.

    Parameters
    ----------
    documents : mapping of str to bytes
        Documents of all formats, by key.

    Returns
    -------
    ArrayMetadata, GroupMetadata or None
        ``None`` if there is no node of any format.

    Raises
    ------
    MetadataError
        If a document is not valid.
    UnsupportedError
        If a document describes a node that tegula can't read.

    Examples
    --------
    >>> parse({".zgroup": b'{"zarr_format": 2}'}).format
    'zarr2'
    """
    group: NodeMetadata | None = None
    for fmt in FORMATS.values():
        if fmt.lies_apart and group is not None:
            continue  # the document has been read as one of Zarr v3
        for main in fmt.node_keys:
            if (main_document := documents.get(main)) is not None:
                break
        else:
            continue
        try:
            present = {}
            for key in _keys_beside(fmt, main):
                if (raw := main_document if key == main else documents.get(key)) is not None:
                    present[key] = raw
            node = fmt.parse(present)
        except TegulaError:
            if group is None:
                raise
            continue  # a file of that name beside a valid group may have another purpose
        if isinstance(node, ArrayMetadata):
            return node
        group = group or node
    return group


def is_common(documents: Mapping[str, bytes | None]) -> bool:
    """Return whether some of the documents that exist make a node of a common format.

    Examples
    --------
    >>> is_common({"zarr.json": None, ".zgroup": b"{}"}), is_common({"zarr.json": None, ".zattrs": b"{}"})
    (True, False)
    """
    return any(documents.get(key) is not None for key in _COMMON_NODE_KEYS)


def next_keys(keys: Iterable[str], documents: Mapping[str, bytes | None]) -> list[str]:
    """Return which documents of a node to ask a remote store for together, given its answers so far.

    The documents of common formats come first. The others come next, and only if there is no node of a common format.

    Parameters
    ----------
    keys : iterable of str
        The keys of the documents that can determine the node.
    documents : mapping of str to bytes or None
        The documents by key that have been asked for; ``None`` stands for one that does not exist.

    Examples
    --------
    >>> next_keys(["zarr.json", ".zarray", "meta"], {})
    ['zarr.json', '.zarray']
    >>> next_keys(["zarr.json", ".zarray", "meta"], {"zarr.json": None, ".zarray": None})
    ['meta']
    >>> next_keys(["zarr.json", ".zarray", "meta"], {"zarr.json": b"{}", ".zarray": None})
    []
    """
    missing = [key for key in keys if key not in documents]
    return [key for key in missing if key in COMMON_KEYS] or ([] if is_common(documents) else missing)


def oddities(fmt: Format, documents: Documents) -> list[Oddity]:
    """Return what the documents of a format have that its specification does not allow, although they can be read.

    Examples
    --------
    >>> documents = {".zgroup": b'{"zarr_format": 2}', ".zattrs": b"null"}
    >>> [oddity.message for oddity in oddities(find_format("zarr2"), documents)]
    ['the document is null instead of {}']
    """
    own = {key: raw for key, raw in documents.items() if key in fmt.keys}
    return [*leniency.odd_encodings(own), *(fmt.oddities(own) if fmt.oddities is not None else ())]


@cache
def keys_of_array(fmt: Format) -> tuple[str, ...]:
    """Return the keys of the documents that an array of a format may have.

    Examples
    --------
    >>> keys_of_array(find_format("zarr2"))
    ('.zarray', '.zattrs', '.nczarray')
    """
    return _keys_beside(fmt, fmt.shape_key)


@cache
def keys_up_to(name: str) -> tuple[str, ...]:
    """Return the keys of the documents of arrays of a format, and of newer formats, which take precedence.

    Examples
    --------
    >>> keys_up_to("zarr2")
    ('zarr.json', '.zarray', '.zattrs', '.nczarray')
    """
    formats = [*FORMATS.values()]
    return tuple(key for fmt in formats[: formats.index(find_format(name)) + 1] for key in keys_of_array(fmt))


@cache
def _keys_beside(fmt: Format, main: str) -> tuple[str, ...]:
    """Return the keys of the documents that belong to a node with the node key `main`; an array has no ``.zgroup``."""
    others = () if fmt is not _ZARR2 else fmt.node_keys if main == fmt.shape_key else (*fmt.node_keys, NETCDF_KEY)
    return tuple(key for key in fmt.keys if key == main or key not in others)
