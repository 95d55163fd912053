"""Tools for authors of stores: the tests that a store has to pass, and a store that fails on demand.

Make a class of your test module from `StoreConformance` and pytest collects its tests; pytest itself is not needed, see
`check_store`. `FaultyStore` puts faults between tegula and any store.
"""

from tegula.testing.conformance import StoreConformance, check_store
from tegula.testing.faults import Crash, Fault, FaultyStore

__all__ = ["Crash", "Fault", "FaultyStore", "StoreConformance", "check_store"]
