"""Conformance suite of stores: the contract that `tegula` relies on, as tests for any store.

The suite uses the operations of `tegula.stores.Store`, and of the capabilities that a store declares.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from unittest import SkipTest

from tegula.stores import Store
from tegula.testing.capability_tests import CapabilityTests
from tegula.testing.condition_tests import ConditionTests
from tegula.testing.listing_tests import ListingTests
from tegula.testing.value_tests import ValueTests

__all__ = ["StoreConformance", "check_store"]


class StoreConformance(ValueTests, ListingTests, ConditionTests, CapabilityTests):
    """Tests of one kind of store. Tests of capabilities that the store does not declare are skipped.

    Attributes
    ----------
    picklable : bool
        Whether a copy made by pickling holds the same values.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> class TestMemoryStore(StoreConformance):
    ...     def make(self):
    ...         return MemoryStore()
    """


def check_store(make: Callable[[], Store]) -> None:
    """Run the conformance suite without pytest, except the tests that need a second store over the same storage.

    Parameters
    ----------
    make : callable
        Returns a new, empty, writable store at each call.

    Raises
    ------
    AssertionError
        If the store breaks the contract of `Store` or of a capability that it declares.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> check_store(MemoryStore)
    """
    suite = type("Suite", (StoreConformance,), {"make": staticmethod(make)})()
    for name in dir(suite):
        if name.startswith("test_"):
            with suppress(SkipTest):
                getattr(suite, name)()
