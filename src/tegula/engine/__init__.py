"""The engine: carries out plans with a store and codecs. No other floor does I/O or decodes."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.engine.concurrency.retries import back_off
    from tegula.engine.copying.chunk_copies import part_of
    from tegula.engine.copying.chunks import can_copy_chunks
    from tegula.engine.copying.verifying import check_complete, verify_chunk
    from tegula.engine.documents.finding import has_node, implicit_group, read_node
    from tegula.engine.documents.forgetting import forget
    from tegula.engine.documents.reading import fetch_documents, read_metadata
    from tegula.engine.documents.unpickled import fingerprint, read_unpickled
    from tegula.engine.lengths.appending import append
    from tegula.engine.lengths.atomic_append import append_rows, level_rows, resize_rows
    from tegula.engine.lengths.resizing import resize
    from tegula.engine.nodes.changing import create_documents, update_documents
    from tegula.engine.nodes.creating import complete_array, create_array, create_node, discard_array, is_draft
    from tegula.engine.nodes.opening import stored_array
    from tegula.engine.reading.executors import empty, read, read_part, write
    from tegula.engine.reading.futures import Future, load, start, start_alone, wait_for
    from tegula.engine.reading.kernel import reads_in_kernel
    from tegula.engine.stored.array import StoredArray, fills_missing, missing_rule, physical_memory
    from tegula.engine.stored.reach import Reach

__all__ = [
    "Future",
    "Reach",
    "StoredArray",
    "append",
    "append_rows",
    "back_off",
    "can_copy_chunks",
    "check_complete",
    "complete_array",
    "create_array",
    "create_documents",
    "create_node",
    "discard_array",
    "empty",
    "fetch_documents",
    "fills_missing",
    "fingerprint",
    "forget",
    "has_node",
    "implicit_group",
    "is_draft",
    "level_rows",
    "load",
    "missing_rule",
    "part_of",
    "physical_memory",
    "read",
    "read_metadata",
    "read_node",
    "read_part",
    "read_unpickled",
    "reads_in_kernel",
    "resize",
    "resize_rows",
    "start",
    "start_alone",
    "stored_array",
    "update_documents",
    "verify_chunk",
    "wait_for",
    "write",
]

_HOMES = {
    "lengths.appending": "append",
    "lengths.atomic_append": "append_rows level_rows resize_rows",
    "documents.forgetting": "forget",
    "nodes.changing": "create_documents update_documents",
    "copying.chunk_copies": "part_of",
    "documents.unpickled": "fingerprint read_unpickled",
    "copying.chunks": "can_copy_chunks",
    "nodes.creating": "complete_array create_array create_node discard_array is_draft",
    "documents.reading": "fetch_documents read_metadata",
    "reading.executors": "empty read read_part write",
    "reading.kernel": "reads_in_kernel",
    "documents.finding": "has_node implicit_group read_node",
    "reading.futures": "Future load start start_alone wait_for",
    "nodes.opening": "stored_array",
    "stored.reach": "Reach",
    "lengths.resizing": "resize",
    "concurrency.retries": "back_off",
    "stored.array": "StoredArray fills_missing missing_rule physical_memory",
    "copying.verifying": "check_complete verify_chunk",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES, in_threads=True)
