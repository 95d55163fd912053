"""``zarr.sync``: synchronizers, and arrays and attributes with a synchronizer."""

from tegula.zarr1.arrays import SynchronizedArray
from tegula.zarr1.attributes import SynchronizedAttributes
from tegula.zarr1.synchronizers import ProcessSynchronizer, ThreadSynchronizer

__all__ = ["ProcessSynchronizer", "SynchronizedArray", "SynchronizedAttributes", "ThreadSynchronizer"]
