"""Ctrl-C at any moment: it leaves no descriptor, no lock and no temporary file behind, and nothing waits forever."""

from __future__ import annotations

import dis
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
from faults import open_files_below
from tests.effort import amount

import tegula
from tegula import config
from tegula.engine.reading.remote import InFlight
from tegula.stores import LocalStore, ZipStore
from tegula.zarr1 import ProcessSynchronizer

fcntl = pytest.importorskip("fcntl")
pytestmark = [
    pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="open files are looked for in /proc"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # interrupts of finalizers
]

ROOT = Path(tegula.__file__).parent
PLACES = [
    str(ROOT / place)
    for place in (
        "stores",
        "runtime/threads.py",
        "engine/lengths/atomic_append.py",
        "engine/reading/remote.py",
        "engine/lengths/length_documents.py",
        "engine/lengths/new_rows.py",
        "engine/concurrency/pool.py",
        "zarr1/synchronizers.py",
    )
]
RANDOM = amount("INTERRUPTS", usual=400, nightly=4000)


# --- each moment in turn


class Interrupt:
    """A trace function that raises KeyboardInterrupt at one of the points where Python looks for signals.

    It does so after a call of compiled code, when a function of Python begins, and before a loop begins anew. What
    comes after a call can only be tried where the next instruction is protected by the same handler as the call.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self.where = ""
        self.error: KeyboardInterrupt | None = None
        self._calls: dict[FrameType, int] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        back = frame.f_back
        if event == "call" and back in self._calls and frame.f_code.co_name != "__init__":
            del self._calls[back]  # not looked for signals when a function of Python returns
        if not frame.f_code.co_filename.startswith(tuple(PLACES)):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call":
            if _table(frame.f_code)[0][frame.f_lasti] == "RESUME":  # otherwise a generator is closed
                self._point(frame)
        elif event == "opcode":
            names, handlers = _table(frame.f_code)
            call = self._calls.pop(frame, None)
            if call is not None and handlers.get(call) == handlers.get(frame.f_lasti):
                self._point(frame)
            if names[frame.f_lasti].startswith("JUMP_BACKWARD"):
                self._point(frame)
            if names[frame.f_lasti] in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"):
                self._calls[frame] = frame.f_lasti
        else:
            self._calls.pop(frame, None)
        return self

    def _point(self, frame: FrameType) -> None:
        self.count += 1
        if self.count > self.at:
            self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
            self._calls.clear()
            raise KeyboardInterrupt


@cache
def _table(code: CodeType) -> tuple[dict[int, str], dict[int, int]]:
    """Return the name of each instruction of a function, and where an exception that it raises leads."""
    names = {item.offset: item.opname for item in dis.get_instructions(code)}
    handlers = {}
    for entry in dis._parse_exception_table(code):
        handlers.update(dict.fromkeys(range(entry.start, entry.end), entry.target))
    return names, handlers


def interrupted(act: Callable[[], Any], at: int) -> Interrupt | None:
    """Carry out an action and interrupt it; return ``None`` if it ended before."""
    trace = Interrupt(at)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt as error:
        sys.settrace(before)
        trace.error = error  # with its frames, as a debugger keeps them
        return trace
    finally:
        sys.settrace(before)
    return None


def check_nothing_left(root: Path, where: str) -> None:
    assert open_files_below(root) == [], where
    left = [path for path in root.rglob("*") if path.name.endswith(".tmp")]
    assert left == [], where
    for path in [root, *root.rglob("*")]:
        fd = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail(f"{path} is still locked: {where}")
        finally:
            os.close(fd)


def _local(path: Path) -> LocalStore:
    store = LocalStore(path / "s", durability="fsync")
    store.set("a/b", b"old")
    return store


def _array(format: str) -> Callable[[Path], Any]:
    def make(path: Path) -> Any:
        return tegula.create_array(path / "a", shape=4, chunks=4, dtype="i4", codecs=None, format=format)

    return make


def _no_locks_on_directories(path: Path) -> LocalStore:
    store = LocalStore(path / "s")
    store.set("a/b", b"old")
    (path / "s" / "a" / ".tegula-lock").touch()
    return store


def _lock_key(store: LocalStore) -> None:
    with store.lock("a/b") as held:
        assert held


def _lock(synchronizer: ProcessSynchronizer) -> None:
    with synchronizer.lock():
        pass


def _zip(path: Path) -> Any:
    with ZipStore(path / "a.zip", "w") as store:
        store.set("a", b"1")
    return path / "a.zip"


def _open_and_write(path: Path) -> None:
    store = ZipStore(path, "a")
    try:
        store.set("b", b"2")
        store.flush()
        store.set("c", b"3")
        store.compact()
    finally:
        store.close()


OPERATIONS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Any]]] = {
    "get": (_local, lambda store: store.get("a/b", with_generation=True)),
    "get part": (_local, lambda store: store.get("a/b", (1, 1))),
    "set": (_local, lambda store: store.set("a/b", b"new")),
    "set if": (_local, lambda store: store.set("a/b", b"new", if_generation=store.get("a/b", with_generation=True)[1])),
    "set new": (_local, lambda store: store.set("c/d/e", b"new")),
    "delete": (_local, lambda store: store.delete("a/b")),
    "delete all": (_local, lambda store: store.delete_prefix("a/")),
    "lock key": (_local, _lock_key),
    "list": (_local, lambda store: (store.list_dir(""), [*store.list()], [*store.prefixes_with("", ["b"])])),
    "reclaim": (_local, lambda store: ([*store.leftovers()], store.reclaim())),
    "lock file": (_no_locks_on_directories, lambda store: store.delete("a/b")),
    "append": (_array("zarr3"), lambda array: array.append(np.ones(3, "i4"))),
    "append bcolz": (_array("bcolz"), lambda array: array.append(np.ones(3, "i4"))),
    "resize bcolz": (_array("bcolz"), lambda array: array.resize(2)),
    "attributes": (_array("zarr2"), lambda array: array.attrs.update(x=1)),
    "archive": (_zip, _open_and_write),
    "read archive": (_zip, lambda path: ZipStore(path).get("a")),
    "synchronizer": (lambda path: ProcessSynchronizer(path / "s"), _lock),
}


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupt_at_each_moment(operation: str, tmp_path: Path) -> None:
    make, act = OPERATIONS[operation]
    with config.configure(threads=1):
        act(make(tmp_path / "first"))  # what is imported or remembered for the first time is not counted
        for at in range(10_000):
            place = tmp_path / str(at)
            place.mkdir()
            subject = make(place)
            caught = interrupted(lambda subject=subject: act(subject), at)
            if caught is None:
                break
            if "archive" in operation:
                caught.error = None  # its frames may read from the archive, which is open as long as they do
            check_nothing_left(place, f"{at}: {caught.where}")
            act(make(place / "again"))
    assert at > 3


def test_room_for_bytes_is_given_back_at_each_moment() -> None:
    def use(room: InFlight) -> None:
        with room.hold(5):
            len("")

    use(InFlight())
    for at in range(1000):
        room = InFlight()
        caught = interrupted(lambda room=room: use(room), at)
        if caught is None:
            break
        caught.error = None  # its frames hold what has been entered
        assert room._held == 0, caught.where
    assert at > 5


# --- random moments, real signals

WORK = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
import tegula
from tegula.stores import LocalStore, ZipStore

root, count = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(0)
armed = False

def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
store = LocalStore(root / "store")
store.set("a/b", b"value")
chunked = tegula.create_array(root / "chunked", shape=400, chunks=40, dtype="i4")
large = tegula.create_array(root / "large", shape=10**6, chunks=10**5, dtype="i4")
columns = tegula.create_array(root / "rows", shape=0, chunks=1000, dtype="i4", format="bcolz")
ones = np.ones(7, "i4")

def get(): store.get("a/b", with_generation=True)
def put(): store.set("a/b", b"value")
def change(): store.set("a/b", b"value", if_generation=store.get("a/b", with_generation=True)[1])
def come_and_go(): store.set("c/d", b"x"); store.delete("c/d")
def lock():
    with store.lock("a/b"): pass
def elements(): chunked[17:301] = 1
def many(): large[5:-5] = 1
def append(): columns.append(ones)
def attributes(): chunked.attrs["x"] = 1
def archive():
    s = ZipStore(root / "a.zip", "w")
    try:
        s.set("a", b"1"); s.flush(); s.set("b", b"2")
    finally:
        s.close()

acts = [get, put, change, come_and_go, lock, elements, many, append, attributes, archive]
for act in acts:  # imports that are interrupted are not ours
    act()
done = 0
while done < count:
    act = chance.choice(acts)
    until = time.monotonic() + 1
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.004))
        while armed and time.monotonic() < until:
            act()
    except KeyboardInterrupt:
        done += 1
    armed = False
files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
print("open", [path for path in files if path.startswith(str(root))])
mine = [line for line in open("/proc/locks") if line.split()[4] == str(os.getpid())]
print("locked", mine)
print("left", [str(path) for path in root.rglob(".tegula-*")])
print("rows", len(columns), flush=True)
sys.stdin.readline()
"""

AFTER = """
import sys
import numpy as np
import tegula
tegula.open_array(sys.argv[1] + "/rows", mode="r+").append(np.ones(7, "i4"))
tegula.open_array(sys.argv[1] + "/chunked", mode="r+")[17:301] = 2
tegula.LocalStore(sys.argv[1] + "/store").set("a/b", b"new")
"""


def environment() -> dict[str, str]:
    return {**os.environ, "TEGULA_EXECUTOR": config.current().executor, "TEGULA_THREADS": "3"}


@pytest.mark.slow
def test_interrupts_at_random_moments(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WORK, str(tmp_path), str(RANDOM)]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment())
    assert process.stdout is not None
    said = dict(line.rstrip("\n").split(" ", 1) for line in [process.stdout.readline() for _ in range(4)])
    assert said["open"] == said["locked"] == said["left"] == "[]"
    assert int(said["rows"]) % 7 == 0
    # while it is still alive, others need not wait for it
    after = [sys.executable, "-c", AFTER, str(tmp_path)]
    subprocess.run(after, check=True, timeout=60, env=environment())
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
