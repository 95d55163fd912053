"""Which executor carries out a plan: the kernel where it is there and can, the reference otherwise."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from tegula import config, executors
from tegula.engine import kernel, reference
from tegula.engine.stored import StoredArray
from tegula.engine.texts import with_kernel
from tegula.indexing import Plan

__all__ = ["helped", "read", "write"]

Array = npt.NDArray[Any]


def read(array: StoredArray, plan: Plan, out: Array) -> None:
    """Fill `out`, a buffer of the plan's ``work_shape``, with what the plan selects; see `reference.read`."""
    if not kernel.read(array, plan, out):
        reference.read(helped(array), plan, out)


def write(array: StoredArray, plan: Plan, values: Array) -> None:
    """Store `values`, an array of the plan's ``work_shape``, where the plan says; see `reference.write`."""
    if not kernel.write(array, plan, values):
        reference.write(helped(array), plan, values)


def helped(array: StoredArray) -> StoredArray:
    """Return the array for the reference executor, with the kernel's help if it holds texts."""
    library = executors.choose(config.current().executor) if array.metadata.data_type.variable else None
    if library is None:
        return array
    if array.kernel is None:
        object.__setattr__(array, "kernel", with_kernel(library, array) or array)
    found: StoredArray = array.kernel
    return found
