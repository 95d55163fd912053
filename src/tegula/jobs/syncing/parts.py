"""Parts of a sync: the units of all arrays are divided among processes, which share a ledger in the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

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

    `found` has the units of each array, and whether it is to be synced; those that are complete by now stay in the
    plan if their source is the same. A plan of another state of the source is given up if no part of it runs.

    Raises
    ------
    AlreadyExistsError
        If another job works on the target, or a part of one that was planned for another state of the source.
    """
    while True:
        ledger = Ledger(store, path, share)
        if ledger.is_done:
            ledger.remove()
        stored = ledger.plan() or {}
        begun = {piece["name"]: piece for piece in stored.get("arrays", ())}
        plan = Plan("sync", {}, node.location, location_of(store, path))
        for name, (is_due, piece) in sorted(found.items()):
            if is_due:
                plan.add(piece)
            elif name in begun and begun[name]["source"] == piece.source:  # its units are those of then
                with suppress(MetadataError, TypeError):
                    plan.add(replace(piece, grid=regular_grid(begun[name]["box"])))
        try:
            has_begun = ledger.begin(plan, resume=True)
        except MetadataError:
            if not ledger.has_plan or stored.get("operation") != "sync":
                raise
            discard(store, path)  # unless a part of it runs
            continue
        if has_begun:
            break
    try:
        yield ledger, plan
    finally:
        ledger.release()


def finish_parts(ledger: Ledger) -> None:
    """Remove the ledger of a sync that is complete, unless another part has done so."""
    if ledger.is_kept:
        ledger.finish()
    else:
        ledger.sweep()


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
