"""Indexing: conversion of a selection and a chunk grid to a plan, without any I/O.

A basic or orthogonal selection becomes one small table of integers for each axis; the chunks that it touches are the
product of the tables, which is iterated over and never stored. Coordinate and mask selections become lists of points
grouped by chunk. The cost depends on the selection, not on the size of the array.

>>> from tegula.metadata.chunk_grids import regular_grid
>>> plan = basic((slice(1, 5), 2), (10, 4), regular_grid((4, 4)))
>>> plan.shape, plan.nchunks
((4,), 2)
>>> for coords, chunk_selection, work_selection, covers in plan:
...     print(coords, chunk_selection, work_selection, covers)
(0, 0) (slice(1, 4, 1), 2) (slice(0, 3, 1),) False
(1, 0) (slice(0, 1, 1), 2) (slice(3, 4, 1),) False
"""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.indexing.arrays import Lookup, Points
    from tegula.indexing.normalise import split_fields
    from tegula.indexing.plan import Plan, Projection, Runs
    from tegula.indexing.selections import basic, blocks, numpy_like, orthogonal, refine, vectorized
    from tegula.indexing.transform import Affine, Transform, whole

__all__ = [
    "Affine",
    "Lookup",
    "Plan",
    "Points",
    "Projection",
    "Runs",
    "Transform",
    "basic",
    "blocks",
    "numpy_like",
    "orthogonal",
    "refine",
    "split_fields",
    "vectorized",
    "whole",
]

_HOMES = {
    "arrays": "Lookup Points",
    "normalise": "split_fields",
    "plan": "Plan Projection Runs",
    "selections": "basic blocks numpy_like orthogonal refine vectorized",
    "transform": "Affine Transform whole",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES, in_threads=True)
