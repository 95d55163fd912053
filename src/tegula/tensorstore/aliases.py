"""Type aliases of arguments, for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

__all__ = ["DimSelectionLike", "NumpyIndexTerm", "NumpyIndexingSpec", "RecheckCacheOption"]

RecheckCacheOption: TypeAlias = bool | float | Literal["open"]
"""The time from which cached values count as fresh: always, never, since opening, or a time in seconds."""

NumpyIndexTerm: TypeAlias = int | slice | Sequence[Any] | Any | None
"""One term of an index: an integer, a slice, ``None``, an ellipsis, or an array of integers or booleans."""

NumpyIndexingSpec: TypeAlias = NumpyIndexTerm | tuple[NumpyIndexTerm, ...]
"""An index: a term, or a tuple of them."""

DimSelectionLike: TypeAlias = int | str | slice | Sequence[Any]
"""Dimensions: a number, a label, a slice of numbers, or several of these."""
