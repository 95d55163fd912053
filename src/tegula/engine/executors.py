"""Which executor carries out a plan: the kernel where it is there and can, the reference otherwise."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from tegula.engine import kernel, reference
from tegula.engine.stored import StoredArray
from tegula.indexing import Plan

__all__ = ["read", "write"]

Array = npt.NDArray[Any]


def read(array: StoredArray, plan: Plan, out: Array) -> None:
    """Fill `out`, a buffer of the plan's ``work_shape``, with what the plan selects; see `reference.read`."""
    if not kernel.read(array, plan, out):
        reference.read(array, plan, out)


def write(array: StoredArray, plan: Plan, values: Array) -> None:
    """Store `values`, an array of the plan's ``work_shape``, where the plan says; see `reference.write`."""
    if not kernel.write(array, plan, values):
        reference.write(array, plan, values)
