"""Type aliases for annotating arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

__all__ = ["DimSelectionLike", "NumpyIndexTerm", "NumpyIndexingSpec", "RecheckCacheOption"]

RecheckCacheOption: TypeAlias = bool | float | Literal["open"]
"""When to revalidate cached values: always (``True``), never (``False``), or if they are older than the opening
(``"open"``) or a time in seconds since the epoch."""

NumpyIndexTerm: TypeAlias = int | slice | Sequence[Any] | Any | None
"""A term of an index expression: an integer, a slice, ``None``, an ellipsis, or an array of integers or booleans."""

NumpyIndexingSpec: TypeAlias = NumpyIndexTerm | tuple[NumpyIndexTerm, ...]
"""An index expression: a term, or a tuple of terms."""

DimSelectionLike: TypeAlias = int | str | slice | Sequence[Any]
"""Dimensions: a number, a label, a slice of numbers, or several of these."""
