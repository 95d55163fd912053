"""The document that describes an open array, the state in which it does so, and which nodes have been replaced.

An array is described by its document in one state. So an operation belongs to one node at one moment if the document
still describes the array after the chunks were read, or at the moment when a chunk is stored. If the document has
another generation, it is read again: either it still describes the array, as after a change of attributes, and a read
is repeated; or the array has been replaced, and the operation ends in an error.

For local files the kernel makes the comparison by itself and calls `Document.confirm_file` only if the generation is
another one (``rust/kernel/src/stores/local/node.rs``); for all others `tegula.engine.reading.settling` does.
"""

from __future__ import annotations

import time
from _thread import RLock  # reading needs no more of `threading`
from collections.abc import Callable
from functools import partial
from operator import gt
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tegula import config
from tegula.errors import MetadataError, NotFoundError, SelectionError, TegulaError, UnsupportedError
from tegula.formats import find_format
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.runtime.deferred import Later, after_fork
from tegula.stores import Generation, Store
from tegula.stores.capabilities import Revalidating, unchanged

if TYPE_CHECKING:
    from tegula.engine.concurrency import pool
    from tegula.stores import identity
else:
    pool, identity = Later("tegula.engine.concurrency.pool"), Later("tegula.stores.identity")

__all__ = ["REPLACEMENTS", "Document", "Replacements"]

_RECENT: Final = 1.0  # seconds for which a document of a remote store is taken to be unchanged before a write


class Replacements:
    """The locations below which this process has deleted nodes, and when; the oldest are forgotten."""

    _MOST: Final = 1024

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[str, int] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Forget who holds the lock: in a forked child that thread does not exist."""
        self._lock = RLock()  # reentrant: the collector may run a finaliser here that replaces nodes

    def add(self, store: Store, prefix: str) -> None:
        """Note that what is below a prefix, which ends in ``/`` or is empty, is being deleted or replaced."""
        where = identity.location(store.identity, prefix)
        with self._lock:
            self.count += 1
            self._last.pop(where, None)
            self._last[where] = self.count
            while len(self._last) > self._MOST:
                self._last.pop(next(iter(self._last)))

    def since(self, count: int, store: Store, prefix: str) -> bool:
        """Return whether a prefix, or one above it, was deleted after `count` deletions."""
        if count == self.count:
            return False
        where = identity.location(store.identity, prefix)
        ends = [end + 1 for end, sign in enumerate(where) if sign == "/"]
        return any(self._last.get(where[:end], 0) > count for end in ends)

    def now(self) -> tuple[int, float]:
        """Return the number of deletions and the time, for a node that is being opened or was just created."""
        return self.count, time.monotonic()


REPLACEMENTS: Final = Replacements()
after_fork(REPLACEMENTS.renew_lock)


class Document:
    """The document that describes an open array, and what is known about its state.

    All copies of an array share it, also those with another shape or other attributes.

    Parameters
    ----------
    prefix, metadata
        The array: the prefix of its keys, and its description.
    key : str
        The key of the document without which the array does not exist.
    opened : (int, float)
        How many `Replacements` there had been when the array was opened or created, and the time on a monotonic clock.

    Attributes
    ----------
    key : str
        The key of the document that describes the chunks; of a bcolz array another one than that of the shape.
    generation : Generation or None
        The generation in which the document was last found to describe the array.
    changes : int or None
        The `changes` of the store at that time.
    shape : tuple of int
        The shape in the document as it was last seen; empty if it holds none.
    """

    def __init__(self, prefix: str, metadata: ArrayMetadata, key: str, opened: tuple[int, float]) -> None:
        fmt = find_format(metadata.format)
        self.prefix, self._metadata = prefix, metadata
        self._name = next((name for name in fmt.node_keys if name in metadata.documents), "")
        self._raw = metadata.documents.get(self._name)
        self._has_shape = bool(self._name) and self._name == fmt.shape_key
        self.shape = metadata.shape if self._has_shape else ()
        self.key = prefix + self._name if self._name else key
        self._other = key if key != prefix + fmt.shape_key else None  # of consolidated metadata
        self.generation: Generation | None = None
        self.changes: int | None = None
        self._count, self._confirmed = opened
        read_as = metadata.read_as
        self._seen = read_as[1] if read_as is not None and read_as[0] is self._raw else None

    def confirm(self, store: Store, answer: tuple[bytes | None, Generation] | None = None) -> Generation:
        """Check that the document describes the array, and return its generation.

        Parameters
        ----------
        store : Store
            The store of the array, or a view of it (`pinned`).
        answer : tuple, optional
            The document and its generation, if they have been read.

        Raises
        ------
        NotFoundError
            If the array has been deleted, moved or replaced.
        """
        raw, generation = answer or store.get(self.key, (0, config.current().max_input_bytes + 1), with_generation=True)
        if raw is None:
            if self._other is None or not store.exists(self._other):
                self._fail(store, "the array has been deleted or moved since it was opened")
            self.key, self._name, self._other = self._other, "", None  # there is only consolidated metadata
            self._has_shape, self.shape = False, ()
            return self.confirm(store)
        self.check_count(store)
        shape = self._shape_in(raw)
        if shape is None:
            self.replaced(store)
        self._raw, self.shape, self.generation, self._confirmed = raw, shape, generation, time.monotonic()
        return generation

    @property
    def is_copied(self) -> bool:
        """Whether the array was opened from consolidated metadata and its own document has not been seen yet."""
        return self._other is not None and self.generation is None

    def confirm_file(self, store: Store, replaced: bool) -> tuple[str, tuple[int, int, int], tuple[int, ...]]:
        """Do what `confirm` does for the kernel, which asks again if the file has another generation.

        So the first answer is the document as it was when the array was opened; it is not read again.

        Returns
        -------
        tuple
            The key of the document, inode number, time and size of its file, and the shape in it.
        """
        if replaced:
            self.replaced(store)
        generation: Any = self._seen
        self._seen = None
        if generation is None:
            generation = self.confirm(store)
        else:
            self.check_count(store)
            self.generation = generation
        inode, changed, size = generation[:3]
        return self.key, (inode, changed, size), self.shape

    def _shape_in(self, raw: bytes) -> tuple[int, ...] | None:
        """Return the `shape` in these bytes of the document; ``None`` if they describe other chunks than before."""
        if raw == self._raw or self._raw is None or not self._name:
            return self.shape
        old = self._metadata
        try:
            metadata = find_format(old.format).parse({**old.documents, self._name: raw})
        except (MetadataError, UnsupportedError):
            return None
        if not isinstance(metadata, ArrayMetadata) or not metadata.continues(old):
            return None
        return metadata.shape if self._has_shape else ()

    def changed(self, metadata: NodeMetadata) -> None:
        """Note metadata of the array that have just been stored or read, perhaps with another shape."""
        if self._has_shape and isinstance(metadata, ArrayMetadata) and self._name in metadata.documents:
            self._raw, self.shape = metadata.documents[self._name], metadata.shape
            self.generation = self.changes = None  # which has these bytes, is not known

    def check_shape(self, store: Store, ends: tuple[int, ...]) -> None:
        """Check that a selection lies within the array as it is now.

        Parameters
        ----------
        store : Store
            The store of the array, or a view of it.
        ends : tuple of int
            For each axis the index after the highest selected one.

        Raises
        ------
        SelectionError
            If the array is known to end before that.
        """
        if self.cuts(ends):
            self.confirm(store)  # it may have grown again, unseen
        if self.cuts(ends):
            error = SelectionError(
                f"the array has been resized to {self.shape} since it was opened; call refresh() or open it again"
            )
            error.is_stale = True
            raise error

    def cuts(self, shape: tuple[int, ...]) -> bool:
        """Return whether the array is known to be shorter than a shape along some axis."""
        return shape is not self.shape and any(map(gt, shape, self.shape))

    def check(self, store: Store, metadata: NodeMetadata | None) -> None:
        """Check that metadata which have been read now are those of the array, with any shape and attributes.

        Raises
        ------
        NotFoundError
            If they are of another node.
        """
        self.check_count(store)
        if not isinstance(metadata, ArrayMetadata) or not metadata.continues(self._metadata):
            self.replaced(store)
        self._confirmed = time.monotonic()

    def check_count(self, store: Store) -> None:
        """Raise if this process has deleted or replaced the node since it was opened."""
        if REPLACEMENTS.since(self._count, store, self.prefix):
            self.replaced(store)
        self._count = REPLACEMENTS.count

    def replaced(self, store: Store) -> NoReturn:
        """Raise the error for an array that has been replaced."""
        self._fail(store, "the array has been replaced since it was opened; open it again")

    def _fail(self, store: Store, message: str) -> NoReturn:
        error = NotFoundError(message, path=f"{store.url}/{self.prefix}".rstrip("/"), key=self.key)
        error.is_stale = True
        raise error

    def is_current(self, store: Store) -> bool:
        """Return whether the document is known to be unchanged without asking for it."""
        return self.changes is not None and store.changes == self.changes

    def look(self, store: Store) -> bool:
        """Return whether the document has the known generation; if not, `confirm` it.

        Raises
        ------
        NotFoundError
            As `confirm` does.
        """
        changes = store.changes
        same = self.generation is not None and unchanged(store, self.key, self.generation)
        if same:
            self.check_count(store)
        else:
            self.confirm(store)
        self.changes = changes
        return same

    def ask(self, store: Store) -> Callable[[], bool]:
        """Request the document of a remote store, and return a function that does what `look` does with the answer."""
        known = self.generation
        request = partial(self._answer, store, known)
        asking = pool.begin(request)

        def look() -> bool:
            answer = asking() or request()
            if isinstance(answer, TegulaError):
                raise answer
            if answer[1] == known:
                self.check_count(store)
                self._confirmed = time.monotonic()
                return True
            self.confirm(store, answer)
            return known is None

        return look

    def _answer(self, store: Store, known: Generation | None) -> Any:
        """Return the document and its generation, which are those known if it has not changed, or an error."""
        try:
            if known is not None and isinstance(store, Revalidating):
                return store.get_if_changed(self.key, known) or (self._raw, known)
            return store.get(self.key, (0, config.current().max_input_bytes + 1), with_generation=True)
        except TegulaError as error:
            return error

    def look_before_write(self, store: Store) -> None:
        """Check that the document describes the array; one of a remote store must have done so within a second."""
        if self.is_current(store):
            return
        if store.is_remote and time.monotonic() - self._confirmed < _RECENT:
            self.check_count(store)
        else:
            self.look(store)
