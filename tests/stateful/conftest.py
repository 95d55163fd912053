"""Stores for the state machines: of any kind, with faults, several handles and sudden deaths."""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tegula.errors import TegulaError
from tegula.stores import LocalStore, MappingStore, MemoryStore, Store, ZipStore
from tegula.testing import Crash, Fault, FaultyStore

ERRNOS = [errno.ENOSPC, errno.EACCES, errno.EIO, errno.EMFILE, errno.ETIMEDOUT]
_numbers = itertools.count()

_ERRORS = st.builds(
    Fault,
    st.sampled_from(ERRNOS),
    on=st.sampled_from(["set", (), "set", "get", "delete", ("set", "delete"), "list_prefix", "size", "lock"]),
    skip=st.integers(0, 8),
    times=st.sampled_from([1, 1, 2, None]),
    done=st.booleans(),
)
_CRASHES = st.builds(Fault, st.just("crash"), on=st.sampled_from([(), "set", "delete"]), skip=st.integers(0, 8))
_SHORTS = st.builds(Fault, st.just("short"), skip=st.integers(0, 5), times=st.sampled_from([1, None]))
_CONFLICTS = st.builds(Fault, st.just("conflict"), skip=st.integers(0, 3), times=st.integers(1, 3))


class Place:
    """A place that stores are opened on, one after the other or several at a time.

    ``store`` is the one to work through; it has faults if the kind says so. ``other()`` is another one on the same
    place, as another process would have it.
    """

    kinds = st.sampled_from(["memory", "local", "zip", "faulty memory", "faulty local", "faulty zip"])
    faults = st.one_of(_ERRORS, _ERRORS, _CRASHES, _SHORTS, _CONFLICTS)
    short = _SHORTS

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind.rpartition(" ")[2]
        self.faulty = kind.startswith("faulty")
        self.folder = folder / f"{next(_numbers)}"
        self.folder.mkdir()
        self.path = self.folder / ("a.zip" if self.kind == "zip" else "root")
        self.below = self._open()
        self._wrap()

    def _open(self) -> Store:
        if self.kind == "local":
            return LocalStore(self.path)
        if self.kind == "zip":
            return ZipStore(self.path, "a")
        return MappingStore({}) if self.kind == "mapping" else MemoryStore()

    def _wrap(self) -> None:
        self.store: Store = FaultyStore(self.below) if self.faulty else self.below

    def other(self) -> Store:
        """Return a store on the same place that shares nothing with the first one, where there can be one."""
        if self.kind == "local":
            return LocalStore(self.path)
        return MappingStore(self.below.mapping) if isinstance(self.below, MappingStore) else self.below

    def reopen(self) -> None:
        """Act as a new process after the last one has ended normally."""
        if self.kind in ("local", "zip"):
            self.below.close()
            self.below = self._open()
        elif self.kind == "mapping":
            self.below = self.other()
        self._wrap()

    def die(self) -> None:
        """Act as a new process after the last one has died: what an archive has not committed is lost."""
        if self.kind == "zip":
            kept = shutil.copy(self.path, self.folder / f"{next(_numbers)}.zip")
            self.below.close()  # commits to the archive, which is not read any more
            self.path = Path(kept)
        self.below = self._open() if self.kind in ("local", "zip") else self.below
        self._wrap()

    def commit(self) -> None:
        """Commit an archive."""
        if isinstance(self.below, ZipStore):
            self.below.flush()

    def meet(self, act: Callable[[], object], *faults: Fault) -> BaseException | None:
        """Act while there are faults, and return the outcome; after a crash a new process continues."""
        assert isinstance(self.store, FaultyStore)
        self.commit()
        store, outcome = self.store, None
        store.arm(*faults)
        try:
            act()
        except (TegulaError, Crash) as error:
            outcome = error
        assert outcome is None or store.struck, f"{outcome!r} came without a fault"
        if isinstance(outcome, TegulaError) and all(fault.on == "set" for fault in faults):
            assert outcome.key is not None, f"{outcome!r} names no key"
        store.arm()
        if isinstance(outcome, Crash):
            self.die()
        return outcome

    def check_files(self) -> None:
        """Check that a directory holds the files of its keys, and nothing else."""
        if self.kind == "local" and self.path.exists():
            found = {path.relative_to(self.path).as_posix() for path in self.path.rglob("*") if not path.is_dir()}
            assert found == {*self.below.list()}

    def leave(self) -> None:
        with suppress(TegulaError):
            self.below.close()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def new_place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Place]:
    folder = tmp_path_factory.mktemp("places")
    return lambda kind: Place(kind, folder)
