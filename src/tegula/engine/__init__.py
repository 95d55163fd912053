"""The engine: carries out plans with a store and codecs. No other floor does I/O or decodes."""

from typing import TYPE_CHECKING

from tegula.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.engine.appending import append
    from tegula.engine.atomic_append import append_rows, level_rows, resize_rows
    from tegula.engine.caches import forget
    from tegula.engine.changing import create_documents, update_documents
    from tegula.engine.chunk_copies import part_of
    from tegula.engine.copies import fingerprint, read_copied
    from tegula.engine.copying import Moved, can_copy_chunks, copy_chunks
    from tegula.engine.creating import complete_array, create_array, create_node, discard_array, is_draft
    from tegula.engine.documents import back_off, fetch_documents, read_metadata
    from tegula.engine.executors import empty, read, write
    from tegula.engine.finding import has_node, implicit_group
    from tegula.engine.futures import Future, load, start, wait_for
    from tegula.engine.opening import stored_array
    from tegula.engine.reach import Reach
    from tegula.engine.resizing import Change, cut_off, grown, make_room, resize
    from tegula.engine.stored import StoredArray, physical_memory
    from tegula.engine.verifying import verify_chunk

__all__ = [
    "Change",
    "Future",
    "Moved",
    "Reach",
    "StoredArray",
    "append",
    "append_rows",
    "back_off",
    "can_copy_chunks",
    "complete_array",
    "copy_chunks",
    "create_array",
    "create_documents",
    "create_node",
    "cut_off",
    "discard_array",
    "empty",
    "fetch_documents",
    "fingerprint",
    "forget",
    "grown",
    "has_node",
    "implicit_group",
    "is_draft",
    "level_rows",
    "load",
    "make_room",
    "part_of",
    "physical_memory",
    "read",
    "read_copied",
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

_HOMES = {
    "appending": "append",
    "atomic_append": "append_rows level_rows resize_rows",
    "caches": "forget",
    "changing": "create_documents update_documents",
    "chunk_copies": "part_of",
    "copies": "fingerprint read_copied",
    "copying": "Moved can_copy_chunks copy_chunks",
    "creating": "complete_array create_array create_node discard_array is_draft",
    "documents": "back_off fetch_documents read_metadata",
    "executors": "empty read write",
    "finding": "has_node implicit_group",
    "futures": "Future load start wait_for",
    "opening": "stored_array",
    "reach": "Reach",
    "resizing": "Change cut_off grown make_room resize",
    "stored": "StoredArray physical_memory",
    "verifying": "verify_chunk",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES, in_threads=True)
