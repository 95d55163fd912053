"""Consolidated metadata of a group: whether there is any, reading it, and writing it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from tegula import engine
from tegula.errors import ConflictError, MetadataError, TegulaError, UnsupportedError
from tegula.formats import find_format
from tegula.formats.located.consolidated import Consolidated
from tegula.hierarchy.ahead import AnyGroup
from tegula.hierarchy.members import Documents, walked
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store
from tegula.stores.capabilities import Translating, unchanged

__all__ = [
    "below", "documents_below", "has_consolidated", "opened_consolidated", "read_consolidated", "replace_entry",
    "write_consolidated",
]  # fmt: skip


def write_consolidated(
    store: Store,
    path: str,
    format: str,
    members: Callable[[], Iterable[tuple[str, Mapping[str, bytes]]]],
) -> GroupMetadata:
    """Write a copy of the documents of all members into a group, and return the description of the group.

    Parameters
    ----------
    store, path, format : Store, str, str
        The group.
    members : callable
        Returns the path of each member below the group, and its documents as they are now.

    Raises
    ------
    UnsupportedError
        If the format has no consolidated metadata.
    MetadataError
        If the group is implicit.
    ConflictError
        If other processes keep changing the group.
    """
    fmt, location = find_format(format), f"{store.url}/{path}".rstrip("/")
    if fmt.consolidate is None:
        raise UnsupportedError(f"{format} has no consolidated metadata", path=location)
    key = f"{path}/{fmt.consolidated_key}".lstrip("/")
    for attempt in range(10_000):
        before = store.get(key, with_generation=True)[1]
        current = engine.read_metadata(store, path, format)
        if not isinstance(current, GroupMetadata):
            raise MetadataError(
                "an implicit group has no document to hold the copy; create the group with tegula.create_group",
                path=location,
            )
        # listed anew in each attempt, since another process may have added a member
        new = fmt.consolidate(current, chain([("", current.documents)], members()))
        try:
            store.set(key, new[fmt.consolidated_key], if_generation=before)
        except ConflictError:  # the group's document has changed
            engine.back_off(attempt)
            continue
        finally:
            engine.forget(store, key)
        return replace(current, documents={**current.documents, **new}, consolidated=None)
    raise ConflictError("the metadata kept changing while it was being copied", path=location)


def documents_below(group: AnyGroup) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Yield path and documents of the members of a group that other readers can read: of all but those of drafts."""
    for path, node in walked(group, None, implicit=False, strict=True):
        if not isinstance(node.store, Translating):
            yield path, node.metadata.documents


def has_consolidated(store: Store, path: str, group: GroupMetadata) -> bool:
    """Return whether a group has consolidated metadata that can be read."""
    fmt = find_format(group.format)
    if fmt.consolidated is None:
        return False
    if group.consolidated is not None:
        return True
    try:
        return fmt.consolidated(engine.fetch_documents(store, path, [fmt.consolidated_key])) is not None
    except TegulaError:
        return False


def read_consolidated(store: Store, path: str, group: GroupMetadata) -> Documents | None:
    """Return the consolidated metadata of a group as it is now, ``None`` if there is none."""
    fmt, known = find_format(group.format), group.consolidated
    key = fmt.consolidated_key
    generation = known.generation if isinstance(known, Consolidated) else None
    if generation is not None and unchanged(store, f"{path}/{key}".lstrip("/"), generation):
        return known
    documents = engine.fetch_documents(store, path, [key] if key else [])
    if known is not None and key in documents and documents[key] == group.documents.get(key):
        return known  # parsed from the same bytes when the group was opened
    return fmt.consolidated(documents) if fmt.consolidated is not None else None


def replace_entry(store: Store, path: str, name: str, format: str, new: Mapping[str, bytes]) -> None:
    """Replace documents of a member in the consolidated metadata of a group, if it has an entry there."""
    group = engine.read_metadata(store, path, format)
    if not isinstance(group, GroupMetadata) or name not in (read_consolidated(store, path, group) or {}):
        return

    def members() -> Iterator[tuple[str, Mapping[str, bytes]]]:
        for member, documents in (read_consolidated(store, path, group) or {}).items():
            if member:
                yield member, {**documents, **new} if member == name else documents

    write_consolidated(store, path, format, members)


def opened_consolidated(group: GroupMetadata) -> Documents | None:
    """Return the consolidated metadata that was read with the document of a group, ``None`` if none was."""
    documents, fmt = group.consolidated, find_format(group.format)
    if documents is None and fmt.consolidated is not None and fmt.consolidated_key in group.documents:
        documents = fmt.consolidated(group.documents)
    return documents


def below(members: Documents, path: str) -> Documents:
    """Return consolidated metadata of the group at a path, by path in the store."""
    prefix = f"{path}/" if path else ""
    if isinstance(members, Consolidated):
        return members.below(prefix)
    return {prefix + name: nodes for name, nodes in members.items() if name}
