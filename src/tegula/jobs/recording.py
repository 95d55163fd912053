"""Recorded jobs: how they begin, resume and end, and are found complete when the same command runs again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from types import MappingProxyType
from typing import Any, Final, Literal

from tegula.engine.nodes.deleting import occupant
from tegula.engine.nodes.replacing import put_in_place
from tegula.errors import AlreadyExistsError, CodecError, MetadataError, NotFoundError, UnsupportedError
from tegula.formats.documents import load
from tegula.jobs.ledger import COMPLETE, DIRECTORY, Ledger, is_ledger_key, survives
from tegula.jobs.managing import discard
from tegula.jobs.plans import Plan, are_facts
from tegula.stores import Store
from tegula.stores.capabilities import Renaming
from tegula.stores.targets.paths import location_of

__all__ = ["Recording", "claimed"]

_LASTING: Final = (CodecError, MetadataError, UnsupportedError)
"""Errors that come again when the job is repeated."""


@contextmanager
def claimed(store: Store, path: str, *, overwrite: bool = False) -> Iterator[None]:
    """Keep other processes from a target in a ``with`` block; archives are written in one go, by one process.

    With `overwrite` a job that was interrupted there is removed first.
    """
    directory, lasts = store.local_directory, survives(store)
    made = None if directory is None or os.path.exists(directory) else directory
    if overwrite and lasts:
        discard(store, path)
    try:
        with Ledger(store, path).claimed() if lasts else nullcontext():
            yield
    finally:
        if made is not None:  # an empty directory, if nothing has been written
            with suppress(OSError):
                os.rmdir(made)


class Recording:
    """A job with a ledger, from its plan to its end.

    Parameters
    ----------
    ledger : Ledger
        The ledger, in the store of the target and at its path.
    resumes : bool
        Whether to resume a job that is under way or was interrupted.
    overwrite : bool
        Whether to replace what exists at the target: it stays until the job is complete, which works at
        ``ledger.made``. A part of several can't replace anything, since it can't know what the others have written.
    is_taken : callable
        Returns whether something exists at the target.
    looks_complete : callable, optional
        Returns whether the target is complete by what is stored there, where no note says so; called with whether
        there is a note, which can't be read.

    Attributes
    ----------
    is_complete : bool
        Whether the same job has completed the target before.
    left_out : mapping of str to str
        The path of each array that it had to leave out, and the reason.
    """

    left_out: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        ledger: Ledger,
        plan: Plan,
        *,
        resumes: bool,
        overwrite: bool,
        is_taken: Callable[[], bool],
        looks_complete: Callable[[bool], bool] = lambda is_noted: False,
    ) -> None:
        self.ledger, self.plan, self.resumes = ledger, plan, resumes
        ledger.expected = plan
        self._overwrite, self._may_delete = overwrite, overwrite and ledger.part == (1, 1)
        self._is_taken, self._looks_complete = is_taken, looks_complete
        self._is_noted = self._is_found = self.is_complete = False

    @property
    def _location(self) -> str:
        return location_of(self.ledger.store, self.ledger.path)

    @contextmanager
    def under_way(
        self,
        *,
        check: Callable[[], object],
        clear: Callable[[], object],
        is_replaced: Callable[[], bool] | None = None,
    ) -> Iterator[Ledger | None]:
        """Begin or resume the job in a ``with`` block, which receives ``None`` if the same job is complete.

        An error that would recur deletes what a new job has written, unless the job can be resumed.

        Parameters
        ----------
        check : callable
            Refuses a target that is not free, unless ``ledger.replaces``.
        clear : callable
            Deletes what is left at the target of nodes that are not complete.
        is_replaced : callable, optional
            Returns whether something exists that has to stay until the job is complete; by default whether there are
            nodes at the target.

        Raises
        ------
        AlreadyExistsError
            If a job with another source or other options has completed the target; says what differs.
        """
        ledger = self.ledger
        begun = False
        try:
            while not begun:  # again, if another process begins, completes or removes the job at the same moment
                begun = self._prepare(check, clear, is_replaced or self._has_nodes) and (
                    self.is_complete or ledger.begin(self.plan, self.resumes, is_found=self._is_found)
                )
            yield None if self.is_complete else ledger
        except _LASTING:
            if ledger.is_taken and not (self.resumes or self._is_found):
                ledger.release()
                with suppress(AlreadyExistsError):  # another process works on it now
                    discard(ledger.store, ledger.path)
            raise
        finally:
            ledger.release()
        ledger.sweep()

    def _prepare(
        self, check: Callable[[], object], clear: Callable[[], object], is_replaced: Callable[[], bool]
    ) -> bool:
        """Make room for a new job; return false if another process begins the job in the meantime."""
        # a job to join, or one that is complete
        ledger = self.ledger
        if ledger.is_done:
            ledger.remove()
        ledger.replaces = False
        self._is_found = self._is_under_way()
        if self._is_found and self._overwrite and self._is_same(ledger.plan()) and ledger.is_cut(self.plan):
            # killed when it was about to put the new node in place
            discard(ledger.store, ledger.path)
            self._is_found = ledger.replaces = False
        if self._is_found:
            return True
        if self.resumes and (left_out := self._completed()) is not None:
            self.is_complete, self.left_out = True, left_out
            self._sweep_beside()
            return True

        # what is in the way
        if self._may_delete:
            discard(ledger.store, ledger.path, plan=self.plan.as_dict())
            ledger.replaces = is_replaced()
            if not ledger.replaces:
                clear()
        try:
            check()
        except AlreadyExistsError as error:
            if self.resumes and (ledger.plan() is not None or self._completed() is not None):
                return False  # begun or completed meanwhile
            alone = ledger.part == (1, 1)
            if alone and not self.resumes:
                raise
            if alone:
                shown = "" if self.plan.operation == "downsample" else ": tegula compare shows whether it has"
                raise AlreadyExistsError(
                    f"there is no interrupted job to resume (an earlier run may have completed the target{shown}), and "
                    f"{error.message}",
                    path=error.path,
                    key=error.key,
                ) from error
            raise AlreadyExistsError(
                "something already exists at this path; delete it first, since a part of a job can't know what others "
                "have written",
                path=error.path,
            ) from error
        if self._may_delete and not ledger.replaces and ledger.has_plan:
            # begun meanwhile: its chunks may be deleted now
            discard(ledger.store, ledger.path, force=True)
            return False
        return True

    def _sweep_beside(self) -> None:
        """Remove a node that was replaced by a process which was killed at that moment."""
        store, path = self.ledger.store, self.ledger.path
        if self._may_delete and isinstance(store, Renaming):
            with store.beside(f"{path}/" if path else ""):
                pass  # making a directory there does it

    def _has_nodes(self) -> bool:
        """Return whether there is a node at the target, or nodes directly below it."""
        return occupant(self.ledger.store, self.ledger.path) in ("node", "members")

    def outlook(self) -> Literal["begins", "resumes", "is complete"]:
        """Return how the job would start, for a dry run; if it resumes, the ledger then knows what is done.

        Raises
        ------
        AlreadyExistsError, MetadataError
            If another job has completed the target, or was interrupted there; says what differs.
        """
        if self._is_under_way():
            if (stored := self.ledger.plan()) is None:
                raise self.ledger.lost()
            self.plan.check_same(stored, self._location)
            self.ledger.read()
            return "resumes"
        return "begins" if self._completed() is None else "is complete"

    def _is_under_way(self) -> bool:
        """Return whether there is a job that is not complete; one that may be deleted counts if this one resumes it."""
        is_there, stored = (False, None) if self.ledger.is_done else self.ledger.stored_plan()
        if not self._may_delete:
            return is_there
        return self.resumes and self._is_same(stored)

    def _is_same(self, stored: Mapping[str, Any] | None) -> bool:
        """Return whether a stored plan, or the facts of one, is that of this job."""
        return stored is not None and self.plan.difference(stored) is None

    def _completed(self) -> Mapping[str, str] | None:
        """Return `left_out` if the same job has completed the target, else ``None``; see `under_way`."""
        stored = self._mark()
        if stored is None:
            return {} if not self._may_delete and self._looks_complete(self._is_noted) else None
        difference = self.plan.difference(stored)
        if difference is not None:
            if self._may_delete:
                return None
            what = f"the source has changed since: {difference.what}" if difference.in_source else difference.what
            alone = self.ledger.part == (1, 1)
            advice = "pass overwrite=True to replace it" if alone else "delete it to begin anew"
            raise AlreadyExistsError(f"the target is complete, but {what}; {advice}", path=self._location)
        failed = stored.get("failed")
        return failed if isinstance(failed, dict) else {}

    def is_over(self) -> bool:
        """Return whether another process has completed the target in the meantime.

        Raises
        ------
        NotFoundError
            If the job was removed while this process worked on it.
        """
        if self.ledger.is_kept:
            return False
        if self.resumes and self._is_same(self._mark(is_taken=True)):
            return True
        self.ledger.sweep()
        raise NotFoundError(
            "the job was removed while it was under way, by `tegula jobs clean` or overwrite=True, so the target may "
            "be incomplete; begin anew with overwrite=True",
            path=self._location,
        )

    def finish(
        self,
        failed: Mapping[str, str] = MappingProxyType({}),
        *,
        is_noted: bool = True,
        put: Callable[[], object] | None = None,
    ) -> None:
        """Complete the job: note that in the target, put it in place if it replaces a node, and remove the ledger.

        Nothing is left to do if another process has completed the target in the meantime. `failed` has path and reason
        of each array that had to be left out. `put` puts the arrays that were made in place, one by one; by default
        what is at ``ledger.made`` is put in place as a whole.

        Raises
        ------
        NotFoundError
            If the job was removed while this process worked on it.
        """
        if self.is_over():
            return
        ledger = self.ledger
        if (stored := ledger.plan()) is not None:  # another part may have found that the source has changed
            self.plan.check_same(stored, self._location)
        if put is not None:
            put()
        if is_noted:  # the same command may come again
            key = self._keys(ledger.made if put is None else ledger.path, failed)[0]
            raw = json.dumps({**self.plan.facts(), "failed": {**failed}}, separators=(",", ":")).encode()
            ledger.store.set(key, raw)
        if ledger.replaces and put is None:
            keep = f"{ledger.path}/{DIRECTORY}".lstrip("/")  # the ledger, and what is beside it
            put_in_place(ledger.store, ledger.path, ledger.made, keep=keep)
        if not ledger.replaces or ledger.is_kept:  # otherwise it went with the old node
            ledger.finish()

    def _mark(self, *, is_taken: bool = False) -> dict[str, Any] | None:
        """Return the note that the target is complete; it is in the first array that was not left out."""
        for number, key in enumerate(self._keys(self.ledger.path)):
            if number == 1 and not (is_taken or self._is_taken()):
                return None
            if (raw := self.ledger.store.get(key)) is not None:
                with suppress(MetadataError):
                    facts = load(raw, key)
                    if are_facts(facts):
                        return facts
                self._is_noted = True
                return None
        return None

    def _keys(self, path: str, left_out: Container[str] = ()) -> list[str]:
        """Return the keys of the note in the arrays of the plan, or at the path itself; no reader lists keys there."""
        names = [name for name in sorted(self.plan.pieces) if name not in left_out and not is_ledger_key(f"{name}/")]
        return ["/".join(filter(None, [path, name, COMPLETE])) for name in names or [""]]
