"""Virtual references: chunks that stay where they are, read by other libraries without a copy.

`write` writes references to the chunks of any format of tegula, for kerchunk (JSON and Parquet) and icechunk, and
`Parser` passes them to VirtualiZarr. `tegula.open` opens kerchunk references, whichever program
wrote them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tegula.references.icechunk import container
from tegula.references.report import ReferenceReport
from tegula.references.writing import write

if TYPE_CHECKING:
    from tegula.references.virtualizarr import Parser

__all__ = ["Parser", "ReferenceReport", "container", "write"]

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import the parser when it is first used."""
        if name != "Parser":
            raise AttributeError(f"module 'tegula.references' has no attribute {name!r}")
        return import_module("tegula.references.virtualizarr").Parser
