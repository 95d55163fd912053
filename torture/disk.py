"""A disk that is full, files that may not be written, and places that can't be read: an error, and the old values stay.

A small file system is mounted in a namespace of its own, which needs no privileges on most Linux systems; where that is
refused, what is measured is a limit on the length of files (``RLIMIT_FSIZE``). Root becomes another user first.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from torture.kills import leftovers
from torture.libraries.interface import Lacking, Library
from torture.outcome import Outcome
from torture.workers import Failed, Worker

_CHUNKS = 8
_LENGTH = 2**15  # elements of a chunk, of two bytes each
_ROOM = 3  # chunks that fit
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_OTHER_USER = 65534
LAYOUTS = ("zarr3", "zarr2", "own", "bcolz")

OBSTACLES = {
    "a directory in the place of a chunk": lambda chunk: (chunk.unlink(), chunk.mkdir()),
    "a dangling link": lambda chunk: (chunk.unlink(), chunk.symlink_to(chunk.with_name("nowhere"))),
    "links in a circle": lambda chunk: (chunk.unlink(), chunk.symlink_to(chunk)),
    "a chunk without permission": lambda chunk: chunk.chmod(0),
    "a directory without permission": lambda chunk: chunk.parent.chmod(0),
    "an empty file": lambda chunk: chunk.write_bytes(b""),
}  # type: dict[str, Callable[[Path], Any]]


# --- jobs


def _make(library: Library, path: str, layout: str) -> Any:
    """Create an array whose chunks are small, since they are all the same."""
    library.check(layout)
    library.create(path, layout, _CHUNKS * _LENGTH, _LENGTH, "lz4", "u2")
    node = library.open(path, layout)
    library.write(node, slice(None), np.full(_CHUNKS * _LENGTH, 1, "u2"))
    return node


def _mount(path: str, nbytes: int) -> bool:
    """Mount a small file system, in a namespace that ends with this process; return whether that worked."""
    if sys.platform != "linux":
        return False
    system = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if system.unshare(_CLONE_NEWNS | _CLONE_NEWUSER):
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except OSError:
        return False
    Path(path).mkdir()
    return not system.mount(b"tegula", os.fsencode(path), b"tmpfs", 0, f"size={nbytes}".encode())


def fill(library: Library, around: Any, path: str, layout: str) -> dict[str, Any]:
    """Overwrite chunks with larger ones until the disk is full; count how many are new, old, and neither."""
    chunk_bytes = 2 * _LENGTH
    mounted = _mount(path, 64 * chunk_bytes)
    if not mounted:
        Path(path).mkdir(exist_ok=True)
    place = f"{path}/a"
    node = _make(library, place, layout)
    if mounted:
        status = os.statvfs(path)
        ballast = status.f_bavail * status.f_frsize - int((_ROOM + 0.5) * chunk_bytes)
        Path(path, "ballast").write_bytes(b"x" * ballast)
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (chunk_bytes // 2, chunk_bytes // 2))
    new = np.random.default_rng(0).integers(2, 2**16, _CHUNKS * _LENGTH).astype("u2")
    errors = 0
    message = ""
    for number in range(_CHUNKS):
        part = slice(number * _LENGTH, (number + 1) * _LENGTH)
        try:
            library.write(node, part, new[part])
        except Exception as error:  # as it should be
            errors, message = errors + 1, f"{type(error).__name__}: {error}"[:300]
    left = leftovers(Path(place))
    found: dict[str, Any] = {"mounted": mounted, "errors": errors, "message": message, "left": left}
    kinds = {"new": 0, "old": 0, "wrong": 0, "unreadable": 0}
    for number in range(_CHUNKS):
        part = slice(number * _LENGTH, (number + 1) * _LENGTH)
        try:
            values = library.read(library.refresh(node, place, layout) if not number else node, part)
        except Exception:
            kinds["unreadable"] += 1
            continue
        kinds["new" if (values == new[part]).all() else "old" if (values == 1).all() else "wrong"] += 1
    return {**found, **kinds}


def _drop_root(library: Library) -> None:
    """Become another user where this is root, who may do anything; that user may not be able to read the packages."""
    if os.getuid() == 0:
        library.load()
        os.setgroups([])
        os.setgid(_OTHER_USER)
        os.setuid(_OTHER_USER)


def refuse(library: Library, around: Any, path: str, layout: str) -> dict[str, Any]:
    """Write a chunk in a directory that may not be written."""
    Path(path).parent.chmod(0o777)
    _drop_root(library)
    node = _make(library, path, layout)
    library.close(node)
    places = [Path(path), *(place for place in Path(path).rglob("*"))]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    error = ""
    try:
        node = library.open(path, layout)
        library.write(node, slice(0, 10), np.full(10, 2, "u2"))
    except Exception as caught:  # as it should be
        error = f"{type(caught).__name__}: {caught}"[:300]
    for place in places:
        place.chmod(0o755 if place.is_dir() else 0o644)
    kept = bool((library.read(library.open(path, layout)) == 1).all())
    return {"error": error, "kept": kept}


def obstruct(library: Library, around: Any, path: str, layout: str, obstacle: str) -> dict[str, Any]:
    """Put something else in the place of a chunk and read it."""
    Path(path).parent.chmod(0o777)
    _drop_root(library)
    library.close(_make(library, path, layout))
    if Path(path).is_file():
        raise Lacking("its chunks are no files")
    # of equal chunks the last name; documents are in no directory or have names of their own
    chunk = max(
        file for file in Path(path).rglob("*") if (file.is_file() and file.name[-1].isdigit()) or file.suffix == ".blp"
    )
    node = library.open(path, layout)
    OBSTACLES[obstacle](chunk)
    try:
        values = library.read(node)
    except Exception as error:  # as it should be
        return {"outcome": "error", "message": f"{type(error).__name__}: {error}"[:300]}
    finally:
        chunk.parent.chmod(0o755)
    return {"outcome": "filled" if (values != 1).any() else "read"}


# --- the section


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Try each kind of trouble once, in the library's first layout."""
    outcomes = []
    layout = ""
    for known in LAYOUTS:
        try:
            worker.ask("disk:_known", layout=known)
        except Lacking:
            continue
        layout = known
        break
    trouble = (
        ("A full disk, 8 chunks overwritten with room for 3", "fill", _text_of_fill, {}),
        ("A directory that may not be written: error, and the values stay", "refuse", _text_of_refusal, {}),
        *((f"Read: {name}", "obstruct", _text_of_obstacle, {"obstacle": name}) for name in OBSTACLES),
    )
    for number, (promise, job, text, more) in enumerate(trouble):
        path = root / f"{number}-{job}" / "x"
        path.parent.mkdir(parents=True)
        try:
            facts = worker.ask(f"disk:{job}", path=str(path), layout=layout, **more)
        except Lacking:
            continue
        except Failed as error:
            facts = {"failed": str(error)}
        outcomes.append(
            Outcome("disk", promise, worker.name, text(facts) if "failed" not in facts else "crash or no answer", facts)
        )
    return outcomes


def _known(library: Library, around: Any, layout: str) -> None:
    library.check(layout)


def _text_of_fill(facts: dict[str, Any]) -> str:
    text = f"{facts['errors']} errors, {facts['new']} new, {facts['old']} old"
    for name in ("wrong", "unreadable"):
        text += f", {facts[name]} {name}" if facts[name] else ""
    return text + (f"; {facts['left']} files left" if facts["left"] else "")


def _text_of_refusal(facts: dict[str, Any]) -> str:
    return f"{'error' if facts['error'] else 'no error'}, {'kept' if facts['kept'] else 'lost'}"


def _text_of_obstacle(facts: dict[str, Any]) -> str:
    return {"error": "error", "filled": "fill value", "read": "as it was"}[facts["outcome"]]
