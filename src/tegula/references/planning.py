"""Plans for the references of a hierarchy: the documents of each node, and whether its chunks can be referenced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from tegula import engine
from tegula.arrays.array import Array
from tegula.codecs.equivalence import decode_alike
from tegula.engine.stored.array import StoredArray
from tegula.errors import MetadataError, UnsupportedError
from tegula.formats import Format, find_format
from tegula.formats.layout import without_blocks
from tegula.hierarchy.group import Group
from tegula.hierarchy.walking import with_known_members
from tegula.jobs.rewriting.rules import Rules
from tegula.jobs.rewriting.targets import Layout, target_metadata
from tegula.metadata.chunk_keys import ChunkKeyEncoding
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, inner_codecs
from tegula.stores import MemoryStore
from tegula.tables.columns import ORDER
from tegula.tables.table import Table

__all__ = [
    "PlannedArray", "PlannedGroup", "Unsupported", "check_choice", "check_chunks", "check_least", "plan_array",
    "planned",
]  # fmt: skip

Unsupported = Literal["error", "skip", "inline"]
_CHECKS: Final = frozenset({"crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3"})


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A group of the references.

    Parameters
    ----------
    path : str
        Its path.
    documents : mapping of str to bytes
        Its documents, by key relative to it.
    """

    path: str
    documents: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class PlannedArray:
    """An array of the references.

    Parameters
    ----------
    path : str
        Its path.
    source : Array
        The array that is referenced.
    target : StoredArray
        The array as the references describe it.
    referenced : bool
        Whether its chunks can be referenced; if not, they are encoded again and stored among the references.
    complete : bool
        Whether absent chunks must be stored, too, since the fill value has changed.
    framed : bool
        Whether each stored value is a chunk file of bcolz, whose frame is referenced.
    in_blocks : bool
        Whether each stored value is a block of N5, of which the bytes behind the header are referenced.
    """

    path: str
    source: Array
    target: StoredArray
    referenced: bool
    complete: bool
    framed: bool
    in_blocks: bool

    @property
    def documents(self) -> Mapping[str, bytes]:
        """Its documents, by key relative to it; those of the source as they are where nothing differs."""
        metadata = self.target.metadata
        if metadata.documents:
            return metadata.documents
        return find_format(metadata.format).serialize(metadata)


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raise a `MetadataError` unless an argument has one of the values that it may have."""
    if value not in choices:
        raise MetadataError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r:.60}", field=name)


def check_least(name: str, value: Any, least: int) -> None:
    """Raise a `MetadataError` unless an argument is a whole number and large enough."""
    if type(value) is not int or value < least:
        raise MetadataError(f"{name} must be a whole number of at least {least}, not {value!r:.60}", field=name)


def check_chunks(unsupported: Any, inline_threshold: Any) -> None:
    """Raise a `MetadataError` unless the arguments say which chunks are referenced."""
    check_choice("unsupported", unsupported, get_args(Unsupported))
    check_least("inline_threshold", inline_threshold, 0)


def planned(
    node: Array | Group | Table, item: Format, path: str, unsupported: Unsupported, skipped: dict[str, str], *,
    keys: ChunkKeyEncoding | None = None,
) -> Iterator[PlannedGroup | PlannedArray]:  # fmt: skip
    """Yield the nodes of the references of a hierarchy, groups before their members.

    Parameters
    ----------
    node : Array, Group or Table
        The source.
    item : Format
        The format of the documents.
    path : str
        Path of the node in the references.
    unsupported : {"error", "skip", "inline"}
        What to do with arrays whose chunks can't be referenced.
    skipped : dict
        Receives path and reason of arrays that are left out.
    keys : ChunkKeyEncoding, optional
        The encoding of chunk keys, if not every encoding may be used.

    Raises
    ------
    UnsupportedError
        If chunks of an array can't be referenced, or the members of a group on a web server are not known.
    """
    # groups above
    parts = path.split("/") if path else []
    for depth in range(len(parts)):
        yield _group("/".join(parts[:depth]), {}, item)
    if isinstance(node, Array):
        found = _attempt(node, path, item, unsupported, skipped, keys, named=node.dimension_names is not None)
        if found is not None:
            yield found
        return

    # the hierarchy; xarray needs names, if only an empty list, of 0-d arrays next to arrays that have names
    node = with_known_members(node)
    failed: dict[str, str] = {}
    members = [("", node), *(node.walk(failed, implicit=True) if isinstance(node, Group) else [])]
    arrays = [(name, member) for name, member in _with_columns(members)]
    named = any(isinstance(member, Array) and member.dimension_names for _, member in arrays)
    for name, member in arrays:
        place = f"{path}/{name}".strip("/")
        if not isinstance(member, Array):
            yield _group(place, _attributes(member), item)
        elif (found := _attempt(member, place, item, unsupported, skipped, keys, named)) is not None:
            yield found
    for name, reason in failed.items():
        if unsupported != "skip":
            raise UnsupportedError(f"the node can't be opened: {reason}", path=f"{node.location}/{name}")
        skipped[f"{path}/{name}".strip("/")] = reason


def _with_columns(members: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, member in members:
        yield name, member
        if isinstance(member, Table):
            yield from ((f"{name}/{column}".strip("/"), member[column]) for column in member.names)


def _attributes(node: Group | Table) -> dict[str, Any]:
    return {**node.attrs.asdict(), **({ORDER: [*node.names]} if isinstance(node, Table) else {})}


def _group(path: str, attributes: Mapping[str, Any], item: Format) -> PlannedGroup:
    return PlannedGroup(path, item.serialize(GroupMetadata(attributes=attributes, format=item.name)))


def _attempt(
    source: Array,
    path: str,
    item: Format,
    unsupported: Unsupported,
    skipped: dict[str, str],
    keys: ChunkKeyEncoding | None,
    named: bool,
) -> PlannedArray | None:
    try:
        return plan_array(source, path, item, inline=unsupported == "inline", keys=keys, named=named)
    except (UnsupportedError, MetadataError) as error:
        if unsupported != "skip":
            error.within(path=source.location)
            raise
        skipped[path] = error.message
        return None


def plan_array(
    source: Array,
    path: str,
    item: Format,
    *,
    inline: bool = False,
    keys: ChunkKeyEncoding | None = None,
    named: bool = False,
) -> PlannedArray:
    """Describe an array of the references.

    Parameters
    ----------
    source : Array
        The array that is referenced.
    path : str
        Its path in the references.
    item : Format
        The format of the documents.
    inline : bool
        Whether chunks that can't be referenced are encoded again.
    keys : ChunkKeyEncoding, optional
        The encoding of chunk keys, if not every encoding may be used.
    named : bool
        Whether arrays beside it have names of dimensions.

    Raises
    ------
    UnsupportedError
        If its chunks can't be referenced.
    """
    old = source.metadata
    metadata, complete, reason = old, False, None
    if old.format != item.name:
        metadata, complete, reason = _converted(source, item, named, None)
    reason = reason or _obstacle(old, metadata)
    if reason is not None:
        if not inline or old.data_type.variable == "object":
            raise UnsupportedError(f"its chunks can't be referenced: {reason}", path=source.location)
        metadata, complete, _ = _converted(source, item, named, "auto")
    if keys is not None and metadata.keys != keys:
        metadata = replace(metadata, keys=keys, documents={})
    target = engine.stored_array(MemoryStore(), path, metadata, write_empty=True)
    framed = old.codecs[-1].name == "blpk"
    in_blocks = old.format == "n5" != item.name
    return PlannedArray(path, source, target, reason is None, complete and not old.dense, framed, in_blocks)


def _converted(source: Array, item: Format, named: bool, codecs: Any) -> tuple[ArrayMetadata, bool, str | None]:
    """Convert metadata as `tegula.convert` does; also return why they alone do not describe the chunks."""
    names = source.dimension_names
    if names is None and not source.ndim and named:
        names = ()
    layout = Layout(item, codecs=Rules("codecs", codecs), consolidated=False)
    found = target_metadata(source, tuple(map(range, source.shape)), layout, names, path="")
    recoded = [note for note in found.notes if note.startswith(("the codecs", "the chunks", "the shards"))]
    return found.metadata, found.complete, "; ".join(recoded) or None


def _obstacle(old: ArrayMetadata, new: ArrayMetadata) -> str | None:
    """Return why a reader could not decode the stored chunks of an array by its new description; ``None`` if it can."""
    for codec in inner_codecs(old.codecs):
        options = codec.configuration
        if codec.name in ("numcodecs.pickle", "bcolz.pickle"):
            return "objects are pickled"
        if codec.name.endswith("blosc") and options.get("cname") == "snappy":
            return "other libraries have no snappy"
        if codec.name == "numcodecs.lzma" and old.format == "zarr1" and options.get("filters"):
            return "numcodecs does not read LZMA with filters as zarr 1 wrote it"
    if old.format == new.format:
        return None
    codecs = without_blocks(old.codecs) if old.format == "n5" else old.codecs
    if old.grid != new.grid or not decode_alike(codecs, old.data_type, new.codecs, new.data_type):
        return f"{new.format} has no codecs that decode them"
    # containers and checksums at the end, which `decode_alike` leaves out
    tails = [[codec.name.removeprefix("numcodecs.") for codec in metadata.codecs] for metadata in (old, new)]
    checks = [[name for name in tail if name in _CHECKS] for tail in tails]
    return None if checks[0] == checks[1] else f"{new.format} has no such checksum"
