"""Metadata of nodes that this process has unpickled, for further copies of them.

A program that distributes its work to processes sends the same node with each task. In each process the first copy
reads the documents; later copies use its metadata if they were pickled from documents with the same bytes. Like any
other node object, a copy has the metadata that was read last, and `refresh` reads it again.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tegula.engine.documents.reading import read_metadata
from tegula.metadata.nodes import NodeMetadata
from tegula.stores import Store
from tegula.stores.identity import location

__all__ = ["KNOWN", "fingerprint", "forget_unpickled", "read_unpickled"]

_MOST: Final = 256
KNOWN: Final[dict[tuple[str, str, bytes], NodeMetadata]] = {}


def fingerprint(metadata: NodeMetadata) -> bytes:
    """Return a digest of the documents that a node was read from.

    Examples
    --------
    >>> from tegula.formats import parse
    >>> group = parse({".zgroup": b'{"zarr_format": 2}'})
    >>> len(fingerprint(group)), fingerprint(group) == fingerprint(parse({".zgroup": b'{"zarr_format":2}'}))
    (16, False)
    """
    digest = import_module("hashlib").blake2b(digest_size=16)
    for key, raw in sorted(metadata.documents.items()):
        digest.update(b"%d,%d:" % (len(key), len(raw)))
        digest.update(key.encode() + raw)
    digested: bytes = digest.digest()
    return digested


def read_unpickled(store: Store, path: str, format: str, wanted: bytes) -> NodeMetadata | None:
    """Return the metadata of an unpickled node; read it unless this process has unpickled the node before.

    Parameters
    ----------
    store, path, format
        Where the node is.
    wanted : bytes
        The `fingerprint` of the node that was pickled.

    Raises
    ------
    MetadataError, UnsupportedError
        If there are documents and they can't be read.
    """
    # a store without a lasting identity was copied together with the node, so no other copy of the node is in that
    # store
    lasts = isinstance(store.identity, str)
    key = location(store.identity, path), format, wanted
    metadata = KNOWN.get(key) if lasts else None
    if metadata is None:
        metadata = read_metadata(store, path, format, kept=True)
        if lasts and metadata is not None and fingerprint(metadata) == wanted:
            if len(KNOWN) >= _MOST:
                KNOWN.clear()
            KNOWN[key] = metadata
    return metadata


def forget_unpickled(store: Store, name: str) -> None:
    """Forget the nodes that a key belongs to, or those at and below a prefix, since this process has changed them."""
    if KNOWN and isinstance(store.identity, str):
        changed = location(store.identity, name).rstrip("/") + "/"
        for known in [*KNOWN]:
            node = known[0].rstrip("/") + "/"
            if node.startswith(changed) or changed.startswith(node):
                KNOWN.pop(known, None)
