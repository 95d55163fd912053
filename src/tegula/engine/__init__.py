"""The engine: a plan, a store and codecs become bytes moved. The only floor that does I/O and decodes."""

from tegula.engine.copying import Moved, can_copy_chunks, copy_chunks, part_of
from tegula.engine.documents import (
    back_off,
    create_documents,
    fetch_documents,
    has_node,
    implicit_group,
    read_metadata,
    update_documents,
)
from tegula.engine.executors import empty, read, write
from tegula.engine.futures import Future, load, start, wait_for
from tegula.engine.opening import stored_array
from tegula.engine.resizing import cut_off, grown, make_room, resize
from tegula.engine.rows import append_rows, complete_rows, level_rows, resize_rows
from tegula.engine.stored import StoredArray, physical_memory
from tegula.engine.verifying import verify_chunk

__all__ = [
    "Future",
    "Moved",
    "StoredArray",
    "append_rows",
    "back_off",
    "can_copy_chunks",
    "complete_rows",
    "copy_chunks",
    "create_documents",
    "cut_off",
    "empty",
    "fetch_documents",
    "grown",
    "has_node",
    "implicit_group",
    "level_rows",
    "load",
    "make_room",
    "part_of",
    "physical_memory",
    "read",
    "read_metadata",
    "resize",
    "resize_rows",
    "start",
    "stored_array",
    "update_documents",
    "verify_chunk",
    "wait_for",
    "write",
]
