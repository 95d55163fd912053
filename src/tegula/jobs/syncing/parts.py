"""Parts of a sync: the units of all arrays are divided among processes, which share a ledger in the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tegula.errors import MetadataError
from tegula.hierarchy.walking import Node
from tegula.jobs.ledger import Ledger, survives
from tegula.jobs.managing import discard
from tegula.jobs.plans import Piece, Plan
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores import Store
from tegula.stores.targets.paths import location_of

__all__ = ["divided", "end_parts", "finish_parts"]


@contextmanager
def divided(
    store: Store, path: str, share: tuple[int, int], node: Node, found: Mapping[str, tuple[bool, Piece]]
) -> Iterator[tuple[Ledger, Plan]]:
    """Begin or join a sync of several parts in a ``with`` block; yield its ledger and plan.

    `found` has the units of each array, and whether it is to be synced. Of an array whose source is the same, what the
    first part has planned counts: the target may be changing by now, or be complete. A plan of another state of the
    source is given up if no part of it runs.

    Raises
    ------
    AlreadyExistsError
        If another job works on the target, or a part of one that was planned for another state of the source.
    """
    has_begun = False
    while not has_begun:
        ledger = Ledger(store, path, share)
        if ledger.is_done:
            ledger.remove()
        stored = ledger.plan() or {}
        plan = _with_begun(Plan("sync", {}, node.location, location_of(store, path)), found, stored)
        try:
            has_begun = ledger.begin(plan, resume=True)
            if has_begun:
                yield ledger, plan
        except MetadataError:
            if has_begun or not ledger.has_plan or stored.get("operation") != "sync":
                raise
            discard(store, path)  # unless a part of it runs
        finally:
            ledger.release()


def _with_begun(plan: Plan, found: Mapping[str, tuple[bool, Piece]], stored: Mapping[str, Any]) -> Plan:
    """Return the plan with the units of all arrays: as they were planned before, if their source is the same."""
    begun = {piece["name"]: piece for piece in stored.get("arrays", ())}
    for name, (is_due, piece) in sorted(found.items()):
        before = begun.get(name, {"source": {}})
        if before["source"].get("state") == piece.source["state"]:
            with suppress(MetadataError, TypeError):
                plan.add(replace(piece, grid=regular_grid(before["box"]), source=before["source"]))
                continue
        if is_due:
            plan.add(piece)
    return plan


def finish_parts(ledger: Ledger, plan: Plan, *, is_complete: bool) -> None:
    """Let go of the sync as one of its parts; the last one that does so removes the ledger, if nothing is left.

    As long as one of them has not ended no other sync can begin, of which it might delete something.
    """
    ledger.release()
    if any(owner.is_alive for owner in ledger.owners().values()):
        return
    if not ledger.is_kept:
        ledger.sweep()
        return
    if not is_complete:  # for this part; the others may have done the rest since
        ledger.read()
    if is_complete or not ledger.left_in(plan):
        ledger.finish()


def end_parts(store: Store, path: str) -> None:
    """Give up parts that were interrupted: a sync that is not divided does what is left.

    Raises
    ------
    AlreadyExistsError
        If one of them runs.
    """
    if survives(store):
        stored = Ledger(store, path).plan()
        if stored is not None and stored["operation"] == "sync":
            discard(store, path)
