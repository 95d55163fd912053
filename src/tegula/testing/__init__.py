"""Tools for authors of stores: tests that every store must pass, and a store that fails on demand.

Derive a class from `StoreConformance` in a test module, and pytest collects its tests; to run them without pytest, see
`check_store`. `FaultyStore` puts faults between tegula and any store.
"""

from tegula.testing.conformance import StoreConformance, check_store
from tegula.testing.faults import Crash, Fault, FaultyStore

__all__ = ["Crash", "Fault", "FaultyStore", "StoreConformance", "check_store"]
