"""A zip archive that is open in this process: its members, its uncommitted changes, and the stores that use it.

Several stores of one process may write the same archive through one session. When the last store releases a session,
the archive is committed and unlocked; at the exit of the interpreter the same happens to all sessions still open.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from operator import attrgetter, is_not
from typing import Any

from tegula.errors import StoreError
from tegula.runtime.deferred import after_fork, at_exit
from tegula.runtime.system import files
from tegula.stores.arguments import ABSENT, Generation, check_generation
from tegula.stores.key_tree import KeyTree
from tegula.stores.names import absolute
from tegula.stores.zip.archive import Archive, open_archive, open_for_writing
from tegula.stores.zip.ome import DOCUMENT, arranged, comment_of, is_single_file
from tegula.stores.zip.records import Member

__all__ = ["Session", "complete", "join", "leave"]

_PENDING = 4 << 20

_opening = threading.Lock()
_sessions: set[Session] = set()  # sessions of this process that are open for writing
_exiting = False  # at exit everything has been committed, so each further change is committed at once
_ends_with_process = False


class Session:
    """One open archive, used by one or several stores; each store is represented by a holder object.

    The path is absolute and without links, the mode as for `ZipStore`. With `sync` a completed commit is on the disk;
    if the session is `shared`, other stores may `join`.

    Attributes
    ----------
    lock : threading.Lock
        Held during every change of the session. A finaliser never waits for it, since it may run in a thread that holds
        it.
    contents : tuple of Archive and dict, or None
        Archive and members in one attribute, so that a reader never sees the members of one archive and the bytes of
        another; ``None`` once the session is closed.
    """

    def __init__(self, path: str, mode: str, holder: object, *, sync: bool, shared: bool) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.process = os.getpid()
        self._sync = sync
        self._shared = shared
        self._writable = mode != "r"
        self._changed = mode == "w"
        self._unarranged = False  # whether a single-file OME-Zarr has members that are not in its order
        self._pending = 0
        self._tree: KeyTree | None = None  # made by the first listing
        self._holders = {holder}
        archive = open_for_writing(path, exclusive=mode == "x", sync=sync) if self._writable else open_archive(path)
        try:
            self.contents: tuple[Archive, dict[str, Member]] | None = (archive, {} if mode == "w" else archive.load())
        except BaseException:
            archive.discard()
            raise
        if self._writable:
            _sessions.add(self)
            _complete_at_exit()

    def put(self, member: Member, expected: Generation | None) -> None:
        """Add or replace a member; a commit follows if enough is pending.

        Raises
        ------
        ConflictError
            If the member has another generation than `expected`.
        StoreError
            If the commit fails; the old member stays.
        """
        with self.lock:
            archive, members = self._open()
            old = members.get(member.name)
            check_generation(member.name, ABSENT if old is None else old.generation, expected)
            members[member.name] = member
            if old is None and self._tree is not None:
                self._tree.add(member.name)
            self._changed = True
            self._pending += member.packed
            try:
                # Wait until as many bytes are pending as a directory takes, or directories would fill the archive.
                if _exiting or self._pending > max(_PENDING, archive.directory_size):
                    self._commit()
            except StoreError as error:
                self._pending -= member.packed
                if old is None:
                    del members[member.name]
                    if self._tree is not None:
                        self._tree.discard(member.name)
                else:
                    members[member.name] = old
                error.within(key=member.name)
                raise

    def remove(self, name: str, expected: Generation | None) -> None:
        """Remove a member if there is one; raises as `put` does."""
        with self.lock:
            _, members = self._open()
            old = members.get(name)
            check_generation(name, ABSENT if old is None else old.generation, expected)
            if members.pop(name, None) is not None:
                self._changed = True
                if self._tree is not None:
                    self._tree.discard(name)
                if _exiting:
                    self._commit()

    def keys(self, prefix: str) -> list[str]:
        """Return the names of all members below a prefix."""
        with self._steady():
            return self._listed().keys(prefix)

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the names and the prefixes directly below a prefix, each sorted."""
        with self._steady():
            return self._listed().children(prefix)

    def unreachable(self) -> list[str]:
        """Return the names of members that can't be keys."""
        return [member.name for member in self._open()[0].odd]

    def flush(self, *, last: bool = False) -> None:
        """Commit pending changes, as `ZipStore.flush` does, and tidy up if these are the `last`; a child has none."""
        if os.getpid() != self.process:
            return  # a thread of the parent, which does not exist here, may hold the lock
        with self.lock:
            if last:
                self._tidy()
            elif self._changed:
                self._commit()

    def compact(self) -> None:
        """Commit by rewriting the archive without bytes of replaced and deleted values; raises as `flush` does."""
        with self.lock:
            self._rewrite()

    def release(self, holder: object, *, wait: bool = True, remove_empty: bool = False) -> None:
        """Release the session; the last holder commits pending changes, unlocks the archive and closes the session.

        With `remove_empty` the last holder removes the archive if it has no members. A finaliser must not `wait` for
        the lock, and need not: a thread that holds the lock is a holder itself, or is closing the session.

        Raises
        ------
        StoreError
            If the commit fails; the session then stays open.
        """
        if os.getpid() != self.process or not self._writable:
            return
        try:
            self._let_go(holder, wait, remove_empty)
        except StoreError:
            raise
        except BaseException:  # a signal: close again, since the caller has no other way to end the session
            self._let_go(holder, wait, remove_empty)
            raise

    def _let_go(self, holder: object, wait: bool, remove_empty: bool) -> None:
        self._holders.discard(holder)  # one step, so that finalisers can do it without the lock
        if self._holders:
            return
        taken: list[bool] = []
        try:
            taken.extend(map(self.lock.acquire, (wait,)))  # one step, so that no signal comes before it is recorded
            if not taken[0] or self._holders or self.contents is None:
                return
            if remove_empty and not self.contents[1]:
                with suppress(OSError):
                    files.unlink(self.path)
            else:
                self._tidy()
            self._close()
        finally:
            if taken and taken[0]:
                self.lock.release()

    def forget(self, holder: object) -> None:
        """Release the session for a store that is being garbage-collected; warn if changes can't be committed."""
        if _exiting is not False:  # also None, while the module is being torn down
            return  # everything is committed, and the lock ends with the process
        try:
            self.release(holder, wait=False)
        except StoreError as error:
            message = self._loss(error)
            self._close()
            warnings.warn(message, RuntimeWarning, stacklevel=2)  # a ResourceWarning is hidden by default

    def finish(self) -> None:
        """Commit at the exit of the interpreter; warn about changes that can't be committed, and so are lost."""
        try:
            self.flush(last=True)
        except StoreError as error:
            warnings.warn(self._loss(error), RuntimeWarning, stacklevel=2)

    def _steady(self) -> AbstractContextManager[Any]:
        """Keep other threads from changing the members; in a forked child nothing changes them, so it takes no lock."""
        return nullcontext() if not self._writable or os.getpid() != self.process else self.lock

    def _listed(self) -> KeyTree:
        _, members = self._open()
        if self._tree is None:
            self._tree = KeyTree(members)
        return self._tree

    def _open(self) -> tuple[Archive, dict[str, Member]]:
        if self.contents is None:
            raise StoreError(f"the zip archive {self.path} is closed; open it again")
        return self.contents

    def _join(self, holder: object) -> bool:
        with self.lock:
            if self.contents is None:
                return False
            self._holders.add(holder)
            return True

    def _close(self) -> None:
        if self.contents is not None:
            self.contents[0].unlock()  # a forked child may have the file open
        self.contents = None
        self._changed = False
        _sessions.discard(self)

    def _commit(self) -> None:
        archive, members = self._open()
        if archive.in_place and all(member.data is not None for member in members.values()):
            self._rewrite()
            return
        archive.append(self._arranged(), sync=self._sync)
        if is_single_file(self.path):
            stored = sorted(members.values(), key=attrgetter("offset"))
            self._unarranged = any(map(is_not, stored, arranged(stored)))
        self._changed = False
        self._pending = 0

    def _arranged(self) -> list[Member]:
        """Return the members in the order in which a commit writes them, and set the comment of the archive."""
        archive, members = self._open()
        if not is_single_file(self.path):
            return [*members.values()]
        root = members.get(DOCUMENT)
        archive.comment = comment_of(lambda: None if root is None else archive.read(root, None), archive.comment)
        return arranged(members.values())

    def _tidy(self) -> None:
        """Commit the last changes; write a single-file OME-Zarr anew if a document is not where it belongs in it."""
        if self._changed:
            self._commit()
        if self._unarranged and self._open()[0].in_place:
            with suppress(StoreError):  # it is complete in any order
                self._rewrite()

    def _rewrite(self) -> None:
        archive, _ = self._open()
        replaced: list[Any] = []
        try:
            archive.rewrite(self._arranged(), replaced, sync=self._sync)
        finally:
            if replaced:  # even if an error or a signal came right after the replacement
                self.contents = replaced[0][0]
                self._unarranged = False
        self._changed = False
        self._pending = 0

    def _loss(self, error: StoreError) -> str:
        members = {} if self.contents is None else self.contents[1]
        keys = [f"{key!r:.80}" for key, member in members.items() if member.data is not None]
        return (
            f"the zip archive {self.path} was not closed, and what changed since its last commit is lost, with "
            f"{len(keys)} new values ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''}): {error}"
        )


def join(path: str, holder: object) -> Session:
    """Return the session of this process that writes the archive at a path; make one if there is none.

    Raises
    ------
    StoreError
        If the archive can't be opened for writing, or another store has opened it without sharing.
    """
    with _opening:
        for session in _sessions_of(path):
            if session._shared and session._join(holder):
                return session
        return Session(path, "a", holder, sync=False, shared=True)


def leave(holder: object) -> None:
    """Release the session that an interrupted call has opened or joined for a holder, if there is one."""
    for session in [*_sessions]:
        session.release(holder)


def complete(path: str) -> None:
    """Commit the pending changes of this process to an archive, so that a reader that opens it now finds them.

    Raises
    ------
    StoreError
        If the archive can't be written.
    """
    if not _sessions:
        return
    holder = object()
    for session in _sessions_of(absolute(path, os.path.realpath)):
        if session._join(holder):
            try:
                session.flush()
            finally:
                session.release(holder)


def _sessions_of(path: str) -> list[Session]:
    """Return the sessions that write the file which is now at a path."""
    return [
        session
        for session in [*_sessions]
        if session.path == path and session.contents is not None and session.contents[0].in_place
    ]


def _complete_all() -> None:
    """Commit all sessions; from then on commit every change at once, since other exit handlers may follow."""
    global _exiting
    _exiting = True
    with ExitStack() as stack:  # all are committed, even if one fails
        for session in [*_sessions]:
            stack.callback(session.finish)


def _complete_at_exit() -> None:
    """Call `_complete_all` at the end of a multiprocessing process too, which may not run exit handlers."""
    global _ends_with_process
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _ends_with_process:
        _ends_with_process = True
        util.Finalize(None, _complete_all, exitpriority=0)


@after_fork
def _forget_parent() -> None:
    """In a forked child, forget the sessions of the parent."""
    global _opening, _sessions, _ends_with_process
    _opening = threading.Lock()
    _sessions = set()
    _ends_with_process = False


# After the threads of futures have ended, and so after all writes in the background.
at_exit(2, _complete_all)
