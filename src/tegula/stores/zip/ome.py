"""Single-file OME-Zarr: archives whose names end in ``.ozx`` (OME-NGFF RFC 9).

Documents ``zarr.json`` come first in the archive and in its directory, level by level from that of the root, members
are stored and not packed, the end records are those of ZIP64, and the comment tells the version of OME-Zarr.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from tegula.stores.zip.records import Member

__all__ = ["DOCUMENT", "arranged", "comment_of", "is_single_file"]

DOCUMENT: Final = "zarr.json"
_SUFFIX: Final = ".ozx"


def is_single_file(path: str) -> bool:
    """Return whether the name of an archive says that it is a single-file OME-Zarr."""
    return path.endswith(_SUFFIX)


def arranged(members: Iterable[Member]) -> list[Member]:
    """Return members in the order of RFC 9: documents by their depth, and then all others as they were.

    Examples
    --------
    >>> members = [Member(name, 0, 0, 0, 0, 0, 0, b"", ()) for name in ("0/c/0", "0/b/zarr.json", "1/zarr.json")]
    >>> [member.name for member in arranged(members)]
    ['1/zarr.json', '0/b/zarr.json', '0/c/0']
    """
    return sorted(members, key=_rank)


def _rank(member: Member) -> tuple[int, str]:
    if member.name == DOCUMENT or member.name.endswith(f"/{DOCUMENT}"):
        return member.name.count("/"), member.name
    return 1 << 20, ""  # deeper than any document: a name has at most 2**16 bytes


def comment_of(document: Callable[[], bytes | None], old: bytes) -> bytes:
    """Return the comment of an archive: the version of OME-Zarr in the root document, with what else `old` says.

    The comment is empty if the document states no version, unless it was not written for OME-Zarr.

    Examples
    --------
    >>> comment_of(lambda: b'{"attributes": {"ome": {"version": "0.5"}}}', b"")
    b'{"ome": {"version": "0.5"}}'
    """
    stated = _member(_member(_loaded(document()), "attributes"), "ome").get("version")
    known = _loaded(old)
    if not isinstance(stated, str):
        return b"" if "ome" in known else old
    return json.dumps({**known, "ome": {**_member(known, "ome"), "version": stated}}, ensure_ascii=False).encode()


def _loaded(raw: bytes | None) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        value = json.loads((raw or b"").rstrip(b"\0"))
        return value if isinstance(value, dict) else {}
    return {}


def _member(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
