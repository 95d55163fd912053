"""The state machines of arrays, groups and tables again, on object storage: in memory, with faults, and on a server.

In memory they show that nodes need nothing of a store that object storage lacks; the generations of the server are
hashes, as in S3.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant
from obstore.store import MemoryStore as MemoryBucket
from tests.servers.buckets import Server
from tests.stateful.conftest import Place
from tests.stateful.test_array import DOCUMENTS, ArrayMachine, same
from tests.stateful.test_group import GroupMachine
from tests.stateful.test_table import TableMachine

from tegula.stores import ObjectStore, Store
from tegula.stores.objects.requests import Retries

_prefixes = itertools.count()
_QUICK = Retries(first=0.001)


class ObjectArrayMachine(ArrayMachine):
    """An array in a bucket, where nothing is deleted on condition."""

    @invariant()
    def nothing_else_is_stored(self) -> None:
        """Check that chunks outside the array hold its fill value, since they are not deleted here."""
        if self.place is None or self.strays:
            return
        fresh = self.open(self.place.other())
        prefix = f"{self.path}/" if self.path else ""
        grid = fresh.metadata.grid
        expected = DOCUMENTS | {prefix + name for name in DOCUMENTS}
        expected |= {fresh.stored.key(coords) for coords in np.ndindex(*grid.counts(fresh.shape))}
        for key in {*self.place.below.list()} - expected:
            chunk = fresh.stored.chain.decode(self.place.below.get(key), grid.chunk_shape((0,) * fresh.ndim))
            assert same(chunk, np.full(chunk.shape, fresh.stored.fill, chunk.dtype))


MACHINES = {"array": ObjectArrayMachine, "group": GroupMachine, "table": TableMachine}


class ObjectPlace(Place):
    """A place in a bucket."""

    def __init__(self, kind: str, folder: Path, make_bucket: Callable[[], Any]) -> None:
        self.bucket = make_bucket()
        self.prefix = f"place-{next(_prefixes)}"
        super().__init__(kind, folder)

    def _open(self) -> Store:
        return ObjectStore(self.bucket, self.prefix, retries=_QUICK)

    def other(self) -> Store:
        """Return another store on the same place."""
        return self._open()

    def reopen(self) -> None:
        """Act as a new process after the last one has ended normally."""
        self.below.close()
        self.below = self._open()
        self._wrap()

    def die(self) -> None:
        """Act as a new process after the last one has died."""
        self.reopen()


def run(run_machine: Any, machine: str, kinds: list[str], make: Callable[[str], Place], **amount: int) -> None:
    """Run a state machine in places of these kinds."""
    chosen = st.sampled_from(kinds)
    kind = type(f"Object{machine}", (MACHINES[machine],), {"place_kinds": chosen, "kinds": chosen})
    run_machine(lambda: kind(make), **amount)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait after which a writer is presumed dead."""
    monkeypatch.setattr("tegula.engine.concurrency.reservations.PATIENCE", 0.02)


@pytest.mark.slow
@pytest.mark.sampled(one_in=16)
@pytest.mark.parametrize("machine", MACHINES)
def test_in_memory(machine: str, run_machine: Any, tmp_path: Path) -> None:
    def make(kind: str) -> Place:
        return ObjectPlace(kind, tmp_path, MemoryBucket)

    run(run_machine, machine, ["object", "faulty object"], make, examples=20)


@pytest.mark.slow
@pytest.mark.sampled(one_in=34)
@pytest.mark.parametrize("machine", MACHINES)
def test_on_a_server(machine: str, run_machine: Any, tmp_path: Path, s3_server: Server) -> None:
    bucket = s3_server.bucket().store()

    def make(kind: str) -> Place:
        return ObjectPlace(kind, tmp_path, lambda: bucket)

    run(run_machine, machine, ["object"], make, examples=3, steps=6)
