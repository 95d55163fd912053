"""The base of the conformance suite: new stores for tests, and which tests a store skips."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest import SkipTest

from tegula.errors import TegulaError
from tegula.stores import Store

__all__ = ["BAD_KEYS", "BAD_PREFIXES", "Suite", "raises", "run_together"]

BAD_KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/..", "a/../b", "../a", "a/.", "a\0b", "a/\ud800"]
BAD_PREFIXES: list[Any] = ["a", "/", "/a/", "a//", "../", "a/../", "./", None, b"a/"]


class Suite:
    """Base class of the tests, each of which makes a new store.

    Attributes
    ----------
    picklable : bool
        Whether a copy made by pickling holds the same values.
    """

    picklable: bool = True

    def make(self) -> Store:
        """Return a new, empty, writable store; override this one."""
        raise NotImplementedError

    def reopen(self, store: Store) -> Store | None:
        """Return another writable store over the storage of `store`, as another process would open it.

        Return ``None``, as here, if that is impossible; then the tests that need such a store are skipped.
        """
        return None

    def reopen_read_only(self, store: Store) -> Store | None:
        """Return a read-only store with the values of `store`, or ``None`` if that is impossible."""
        return None

    @contextmanager
    def store(self, *needs: type | str) -> Iterator[Any]:
        """Make a store, or skip the test if the store does not declare one of the capabilities that the test needs.

        Parameters
        ----------
        *needs : type or str
            Classes of `tegula.stores.capabilities`, and names of attributes of `Writable` that must be true.
        """
        with self.make() as store:
            for need in needs:
                declared = isinstance(store, need) if isinstance(need, type) else getattr(store, need)
                if not declared:
                    name = need.__name__ if isinstance(need, type) else need
                    raise SkipTest(f"{type(store).__name__} does not declare {name}")
            yield store


@contextmanager
def raises(kind: type[TegulaError], key: str | None = None) -> Iterator[None]:
    """Fail unless an error of this kind is raised, which names `key` if one is given."""
    found = None
    try:
        yield
    except kind as error:
        found = error
    assert found is not None, f"no {kind.__name__} was raised"
    assert key is None or found.key == key, f"the error names the key {found.key!r}, not {key!r}"


def run_together(actions: Sequence[Callable[[], object]]) -> None:
    """Run each action in a thread of its own, all at the same time, and raise the first error of any."""
    barrier = threading.Barrier(len(actions))

    def run(action: Callable[[], object]) -> None:
        barrier.wait(60)
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        for future in [pool.submit(run, action) for action in actions]:
            future.result()
