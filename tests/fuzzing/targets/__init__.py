"""The parts of the library that take input, each a `Target`."""

from __future__ import annotations

from collections.abc import Callable

from ..outcomes import Target
from .archives import Archives
from .chunks import Chunks
from .documents import Documents
from .keys import Keys
from .selections import Selections
from .shards import Shards
from .specs import Specs
from .texts import Expressions, Texts

__all__ = ["SHARES", "TARGETS"]

TARGETS: dict[str, Callable[[], Target]] = {
    kind.name: kind for kind in (Chunks, Shards, Documents, Archives, Selections, Specs, Texts, Expressions, Keys)
}
"""What makes each target, by name."""

SHARES = {
    "chunks": 40, "shards": 8, "documents": 14, "archives": 5, "selections": 12, "specs": 8, "texts": 6,
    "expressions": 2, "keys": 5,
}  # fmt: skip
"""How many of a hundred inputs go to each target."""
