"""Names of files that other libraries and systems leave among the keys."""

from __future__ import annotations

import re

__all__ = ["foreign", "is_record", "is_system_file"]

_TEMPORARY = {
    re.compile(r"\.[0-9a-f]{32}\.partial\Z"): "zarr-python",
    re.compile(r"#[0-9]+\Z"): "the library object_store",
}
_LOCK = re.compile(r"\.__lock\Z")
_JOB = re.compile(r"(?:\A|/)\.tegula_(?:job/plan\.json|(job(?:-[^/]*)?/.*|complete))\Z")
_FILES = r"\._[^/]*|\.DS_Store|\.directory|(?i:(?:eh)?thumbs\.db|desktop\.ini)"
_DIRECTORIES = r"__MACOSX|\.(?:AppleDouble|Spotlight-V100|Trashes|fseventsd)|\$RECYCLE\.BIN|@eaDir"
_SYSTEM = re.compile(rf"(?:\A|/)(?:(?:{_FILES})\Z|(?:{_DIRECTORIES})/)").search


def is_system_file(key: str) -> bool:
    """Return whether a key is a file that operating systems create among others, or lies in such a directory.

    Examples
    --------
    >>> is_system_file("a/.DS_Store"), is_system_file("Thumbs.db"), is_system_file("__MACOSX/a/b")
    (True, True, True)
    >>> is_system_file("a/.zarray"), is_system_file("__MACOSX"), is_system_file("a/Thumbs.db/0")
    (False, False, False)
    """
    return _SYSTEM(key) is not None


def is_record(key: str) -> bool:
    """Return whether a key is a record of a job of tegula, other than its plan, which is reported.

    Examples
    --------
    >>> is_record("a/.tegula_job/units/7"), is_record("a/.tegula_complete"), is_record("a/.tegula_job/plan.json")
    (True, True, False)
    """
    found = _JOB.search(key)
    return found is not None and found[1] is not None


def foreign(key: str) -> tuple[str, str] | None:
    """Return kind and message of a finding if a key is another library's temporary file or lock, or a job's plan.

    Examples
    --------
    >>> foreign("c/0/1.0123456789abcdef0123456789abcdef.partial")
    ('foreign-temporary', 'a writer of zarr-python was interrupted, or is at work')
    >>> foreign("0.0.__lock"), foreign("c/0/1")
    (('foreign-lock', 'a writer of TensorStore was interrupted, or is at work'), None)
    """
    for pattern, writer in _TEMPORARY.items():
        if pattern.search(key):
            return "foreign-temporary", f"a writer of {writer} was interrupted, or is at work"
    if _JOB.search(key):
        return "interrupted-job", "a job of tegula was interrupted, or is at work"
    if _LOCK.search(key):
        return "foreign-lock", "a writer of TensorStore was interrupted, or is at work"
    return None
