"""`tegula.follow`: the rows of an array or a table, as any process appends them.

A follower looks at the document that holds the length, reads the rows that are new, and looks at the document once
more. Which rows it gives, depends on who writes:

- Where the length is written after the rows, as in bcolz and by `Table.append`, every row below the length is there.
- Anywhere else the length comes first and the chunks follow. There a row is given as soon as it can be told from one
  that has not been written, or once it has been waited for long enough (`tegula.tables.following.patience`).

Nothing is kept anywhere: a token says where to go on. The follower itself goes on only when a block has been handed
over, so a look that is interrupted, or whose task is cancelled, is simply made again.
"""

from __future__ import annotations

import _thread
import math
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.chunking import whole_chunks
from tegula.engine.concurrency.pool import gather
from tegula.engine.reading.futures import load, start_alone
from tegula.errors import (
    CodecError,
    MetadataError,
    NotFoundError,
    SelectionError,
    TegulaError,
    UnsupportedError,
    brief,
)
from tegula.runtime.watching import Watch
from tegula.stores import Generation
from tegula.tables.columns import column_names
from tegula.tables.following.columns import RACY, Column, directory_of
from tegula.tables.following.patience import Patience
from tegula.tables.following.tokens import Token, digest, digest_of_row
from tegula.tables.queries import is_number, row_dtype
from tegula.tables.table import Table

__all__ = ["Follower", "Rows", "follow"]

_SETTLE: Final = 10.0
_BLOCK_BYTES: Final = 2**23
_MOST_BYTES: Final = 2**28  # rows of a chunk that take more are read in several blocks
_FIRST_PAUSE: Final = {False: 0.01, True: 0.2}  # by whether the store is remote
_LONGEST_PAUSE: Final = {False: 1.0, True: 10.0}
_SHORTEST: Final = 0.001
_HOUR: Final = 3600.0
_GROWTH: Final = 1.5
_MOST_KEYS: Final = 16  # chunks of a doubtful row whose generations are asked for; each of them has to change
_LOOKS: Final = 16  # at rows that are waited for, before they are given up


class Rows:
    """Rows that follow each other; made by `Follower`.

    Attributes
    ----------
    start : int
        The number of the first row.
    values : ndarray
        The rows: elements of an array, or records of a table.
    assumed : int
        How many of them were given only because `settle` had passed: each reads as the fill value, at least in part,
        and nothing says whether it has been written.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, data=[5, 6, 7])
    >>> rows = next(tegula.follow(a, from_row=1))
    >>> rows.start, rows.stop, rows.values, rows.assumed
    (1, 3, array([6, 7]), 0)
    """

    def __init__(self, start: int, values: npt.NDArray[Any], assumed: int, token: Token, *, is_sure: bool) -> None:
        self.start, self.values, self.assumed = start, values, assumed
        self._token, self._is_sure = token, is_sure

    @property
    def stop(self) -> int:
        """The number of the row after the last one."""
        return self.start + len(self.values)

    @property
    def token(self) -> str:
        """Text with which `tegula.follow` goes on after these rows."""
        return str(_after(self._token, self.stop, self._last))

    @property
    def _last(self) -> npt.NDArray[Any] | None:
        """An array of the last row, ``None`` if that may still be written."""
        return self.values[-1:].copy() if self._is_sure else None

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype, copy=True) if copy else np.asarray(self.values, dtype)

    def __repr__(self) -> str:
        return f"<tegula.tables.following.Rows {self.start}:{self.stop}>"


class Follower(Iterator[Rows], AsyncIterator[Rows]):
    """An iterator, and an asynchronous one, over the new rows of an array or a table; made by `tegula.follow`.

    Iterating waits for rows, without an end unless there is a `timeout`; after that, and after an error, it can be
    iterated further. A follower may be used in several threads, each of which gets other rows. It can be used in a
    ``with`` statement.

    Attributes
    ----------
    node : Array or Table
        What is followed.

    Examples
    --------
    >>> import tegula
    >>> table = tegula.create_table({}, {"n": [1, 2]})
    >>> with tegula.follow(table, from_row=0, timeout=0) as follower:
    ...     first = [rows.values["n"].tolist() for rows in follower]
    ...     length = table.append({"n": [3]})
    ...     first, [rows.values["n"].tolist() for rows in follower], follower.position
    ([[1, 2]], [[3]], 3)
    """

    def __init__(
        self,
        node: Array | Table,
        columns: Sequence[Column],
        *,
        from_row: int | None,
        token: str | None,
        settle: float,
        timeout: float | None,
        poll: float | None,
        single_writer: bool,
    ) -> None:
        self.node, self._columns = node, columns
        # the number of the next row, and the row before once it has been read: both change in one step
        self._reached: tuple[int, npt.NDArray[Any] | None] = 0, None
        self._dtype = row_dtype({name: node[name] for name in node.names}) if isinstance(node, Table) else None
        self._patience, self._grace = Patience(settle), settle if 0 < settle < math.inf else _SETTLE
        self._timeout, self._single_writer = timeout, single_writer
        self._remote = any(column.store.is_remote for column in columns)
        self._requests = max(column.store.concurrency for column in columns)
        longest = _LONGEST_PAUSE[self._remote] if poll is None else poll
        self._longest_pause = max(_SHORTEST, min(longest, _HOUR))
        self._pause = self._first_pause = min(_FIRST_PAUSE[self._remote], self._longest_pause)
        self._planned = 0.0  # the last pause
        self._length = 0
        self._awaited: _Awaited | None = None
        self._trouble: float | None = None  # since when documents or chunks can't be read
        self._watch = Watch()
        self._closed = False
        self._looking, self._turn = _thread.allocate_lock(), _thread.allocate_lock()
        names = [f"{column.name}:{column.dtype!r}:{column.metadata.shape[1:]}" for column in columns]
        identities = [column.identity for column in columns]
        self._kind = Token(0, digest(node.format, *names))
        if all(identities):
            self._kind = self._kind._replace(node=digest(*identities))
        directories = [directory_of(column.store, column.path) for column in columns]
        self._directories = [directory for directory in directories if directory is not None]
        for column in columns:
            load(column.stored)
        self._begin(from_row, token)

    # --- the beginning

    def _begin(self, from_row: int | None, token: str | None) -> None:
        """Go to the first row that is wanted; see `follow`."""
        length = self._look_at_length()
        if token is None:
            row = length if from_row is None else from_row
            if row < 0:
                row = max(0, row + length)
            if row > length:
                raise SelectionError(f"there is no row {row} yet to follow from: there are {length}", field="from_row")
            self._reached = row, None
            return
        parsed = Token.parse(token)
        advice = f"pass from_row={parsed.row} instead of the token to go on nevertheless"
        if parsed.kind != self._kind.kind:
            raise self._replaced(f"the token is one of rows of another kind; {advice}")
        known = parsed.is_known("node") and self._kind.is_known("node")
        if known and parsed.node != self._kind.node:
            raise self._replaced(f"the {self.node.kind} has been replaced since the token was made; {advice}")
        if parsed.row > length:
            raise self._columns[0].shortened(length, parsed.row)
        self._reached = parsed.row, None
        if parsed.row and parsed.is_known("last") and parsed.last != self._token().last:
            raise self._replaced(f"row {parsed.row - 1} is not the row that the token was made after; {advice}")

    @property
    def position(self) -> int:
        """The number of the next row."""
        return self._reached[0]

    def _replaced(self, message: str) -> NotFoundError:
        error = NotFoundError(message, path=self.node.location, field="token")
        error.is_stale = True
        return error

    @property
    def token(self) -> str:
        """Text with which `follow` goes on at `position`, in this process or another one.

        It names the row, and holds digests of what rows are, of the row before and, on local disks, of the node's
        directory: a token is refused if any of these is another one. A row that may still be written is left out.
        """
        return str(self._token())

    def _token(self) -> Token:
        with self._looking:
            position, last = self._reached
            if position and last is None:
                values = self._read(position - 1, position)
                if not any(
                    column.doubtful(part, position - 1, -1).any() for column, part in zip(self._columns, values)
                ):
                    last = self._record(values)
        return _after(self._kind, position, last)

    # --- iterating

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """End the iteration, also that of other threads, at the next moment; closing again does nothing."""
        self._closed = True
        self._watch.wake()
        if not self._turn.locked():  # else whoever waits closes it
            with self._turn:
                self._watch.close()

    async def aclose(self) -> None:
        """Do what `close` does."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    def __next__(self) -> Rows:
        with self._turn:
            began = time.monotonic()
            self._patience.resume()
            while not self._closed:
                # what changes after a directory is first watched ends the wait, so it is watched before the look
                is_new = self._watch.watch(self._wanted())
                rows = self._look()
                if rows is not None and self._hand_over(rows):
                    return rows
                pause = self._next_pause(began)
                if pause is None:
                    break
                if not is_new and not self._watch.watch(self._wanted()) and self._watch.wait(pause):
                    self._pause = self._first_pause
            if self._closed:
                self._watch.close()
            raise StopIteration

    async def __anext__(self) -> Rows:
        if self._turn.locked():  # waiting for it would block the loop
            raise RuntimeError("another task or thread is waiting for the next rows of this follower")
        with self._turn:
            began = time.monotonic()
            self._patience.resume()
            while not self._closed:
                is_new = self._watch.watch(self._wanted())
                rows = await start_alone(self._look, requests=self._requests)
                if rows is not None and self._hand_over(rows):
                    return rows
                pause = self._next_pause(began)
                if pause is None:
                    break
                if not is_new and not self._watch.watch(self._wanted()) and await self._watch.wait_async(pause):
                    self._pause = self._first_pause
            if self._closed:
                self._watch.close()
            raise StopAsyncIteration

    def _hand_over(self, rows: Rows) -> bool:
        """Go on after these rows, unless they have been handed over already."""
        with self._looking:
            if rows.start != self.position or not len(rows):
                return False
            self._reached = rows.stop, rows._last
            self._awaited, self._pause = None, self._first_pause
            return True

    def _next_pause(self, began: float) -> float | None:
        """Return for how long to wait now; ``None`` if the time is over."""
        pause = self._pause
        self._pause = min(self._pause * _GROWTH, self._longest_pause)
        if self._length > self.position or self._trouble is not None:  # there are rows to wait for
            pause = min(pause, max(self._first_pause, self._grace / _LOOKS))
            pause = min(pause, max(_SHORTEST, self._patience.left(self.position)))
        if self._timeout is not None:
            left = self._timeout - (time.monotonic() - began)
            if left <= 0:
                return None
            pause = min(pause, left)
        self._planned = pause
        return pause

    def _wanted(self) -> dict[str, set[str]]:
        """Return the names in local directories whose changes may be those that are waited for."""
        wanted: dict[str, set[str]] = {}
        if not self._directories:
            return wanted
        keys = [column.document for column in self._columns]
        if (awaited := self._awaited) is not None:
            keys += [*awaited.generations]
        for column, key in ((column, key) for column in self._columns for key in keys):
            root, prefix = directory_of(column.store, column.path), f"{column.path}/" if column.path else ""
            if root is None or not key.startswith(prefix):
                continue
            *folders, name = key[len(prefix) :].split("/")
            for folder in folders:
                wanted.setdefault(root, set()).add(folder)
                root = f"{root}/{folder}"
            wanted.setdefault(root, set()).add(name)
        return wanted

    # --- one look

    def _look(self) -> Rows | None:
        """Return the rows from `position` on that are known to be written, or ``None``; wait for nothing."""
        with self._looking:
            self._patience.tick(self._planned)
            self._planned = 0.0
            try:
                rows = self._new_rows()
            except (CodecError, MetadataError, NotFoundError) as error:
                # perhaps something is being written by a program that does not replace it in one step
                error.within(path=self.node.location)
                if self._trouble is None:
                    self._trouble = self._patience.elapsed
                is_over = self._patience.elapsed - self._trouble >= self._grace
                if getattr(error, "is_stale", False) or is_over:
                    self._trouble = None
                    raise
                return None
            self._trouble = None
            if isinstance(rows, TegulaError):
                raise rows
            return rows

    def _look_at_length(self) -> int:
        """Return the number of rows that the documents have now, which are no fewer than have been given."""
        first, *others = self._columns
        length = first.look()  # the one that `Table.append` writes last
        if length > self.position and others:
            length = min(length, *gather(Column.look, others, first.store.concurrency))
        if length < self.position:
            raise min(self._columns, key=lambda column: column.metadata.shape[0]).shortened(length, self.position)
        return length

    def _new_rows(self) -> Rows | TegulaError | None:
        patience, position = self._patience, self.position
        length = self._length = self._look_at_length()
        patience.see(length)
        if length == position:
            self._awaited = None
            return None
        if self._awaited is not None and not self._has_changed(self._awaited, length):
            return None
        stop = self._end_of_block(position, length)
        try:
            values = self._read(position, stop)
        except (CodecError, NotFoundError):
            if stop == (stop := self._end_of_block(position, length, fewest=True)):
                raise
            values = self._read(position, stop)  # up to the chunk that can't be read
        values, count, doubts = self._written(values, position)
        settled = max(0, min(patience.settled(), stop) - position)
        if count == 0 and settled == 0:
            self._wait_for(position, length, doubts)
            return None
        if self._awaited is not None and count:  # somebody is writing
            patience.progress()
        count, assumed = _until_doubt(doubts, settled)
        if assumed and (error := self._missing(position, count)) is not None:
            return error
        if self._look_at_length() < position + count:  # it has been shortened or replaced while it was read
            return None
        is_sure = not any(part[count - 1].any() for part in doubts)
        return Rows(position, self._record([part[:count] for part in values]), assumed, self._kind, is_sure=is_sure)

    def _end_of_block(self, start: int, length: int, *, fewest: bool = False) -> int:
        """Return the end of the rows to read at once: whole chunks of the longest ones, unless these are very large."""
        longest = max(column.longest for column in self._columns)
        row = sum(column.dtype.itemsize * math.prod(column.metadata.shape[1:]) for column in self._columns)
        step = min(longest if fewest else whole_chunks(longest, row, _BLOCK_BYTES), max(1, _MOST_BYTES // max(1, row)))
        return min(length, (start // step + 1) * step)

    def _read(self, start: int, stop: int) -> list[npt.NDArray[Any]]:
        def read(column: Column) -> npt.NDArray[Any]:
            try:
                return column.read(start, stop)
            except TegulaError as error:
                column.locate(error)
                raise

        return gather(read, self._columns, self._requests)

    def _record(self, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        if self._dtype is None:
            return parts[0]
        rows = np.empty(len(parts[0]), self._dtype)
        for column, part in zip(self._columns, parts):
            rows[column.name] = part
        return rows

    def _written(
        self, values: list[npt.NDArray[Any]], start: int
    ) -> tuple[list[npt.NDArray[Any]], int, list[npt.NDArray[np.bool_]]]:
        """Return rows, how many of the first have been written for certain, and which chunks of each are doubtful."""
        complete = self._patience.complete if self._single_writer else -1
        doubts = [column.doubtful(part, start, complete) for column, part in zip(self._columns, values)]
        count, is_proved = len(values[0]), False
        for number in map(int, np.flatnonzero(_doubtful(doubts))):
            doubted = [(column, part[number]) for column, part in zip(self._columns, doubts) if part[number].any()]
            if not all(column.all_stored(start + number, row) for column, row in doubted):
                count = number
                break
            is_proved = True
            for _, row in doubted:
                row[:] = False
        if is_proved:  # but the chunk may have been stored after the row was read
            values = self._read(start, start + len(values[0]))
        return values, count, doubts

    def _missing(self, start: int, count: int) -> TegulaError | None:
        """Return the error for a chunk that is still missing, where that is one."""
        for column in self._columns:
            if column.is_strict and not column.is_exact:
                try:
                    column.read_strictly(start, start + count)
                except NotFoundError as error:
                    column.locate(error)
                    return error
        return None

    # --- rows that are waited for

    def _wait_for(self, row: int, length: int, doubts: Sequence[npt.NDArray[np.bool_]]) -> None:
        """Note the generations of the chunks that a row is doubtful in; without another one it need not be read."""
        keys = [
            (column, key)
            for column, part in zip(self._columns, doubts)
            if part[0].any()
            for key in column.keys_of(row, part[0])
        ][:_MOST_KEYS]
        if self._awaited is not None and self._awaited.row == row:
            if self._awaited.generations.keys() == {key for _, key in keys}:
                return
            self._patience.progress()  # a part of the row has been written
        ahead = next(column for column, part in zip(self._columns, doubts) if part[0].any())
        later = [(ahead, key) for key in ahead.keys_after(row, self._patience.length_at(row))]
        self._awaited = _Awaited(row, length, dict.fromkeys(key for _, key in keys), keys, later)
        self._awaited.look(self._requests)
        self._awaited.since = self._patience.elapsed
        self._pause = _SHORTEST  # the generations may be newer than what was read: read once more

    def _has_changed(self, awaited: _Awaited, length: int) -> bool:
        """Return whether rows that are waited for have to be read again."""
        changed, appeared = awaited.look(self._requests)
        if appeared:
            self._patience.progress()
        is_longer, awaited.length = length != awaited.length, length
        is_first, awaited.is_fresh = awaited.is_fresh, False
        if is_first:
            self._pause = self._first_pause
        is_over = self._patience.settled() > self.position
        is_old = not self._remote and self._patience.elapsed - awaited.since >= RACY
        if is_old:
            awaited.since = self._patience.elapsed
        return changed or is_first or is_longer or is_over or is_old

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a follower can't be pickled: pass its token to tegula.follow in the other process")

    def __repr__(self) -> str:
        return f"<tegula.tables.following.Follower of {self.node.location} at row {self.position}>"


class _Awaited:
    """A row that is waited for: the generations of the chunks it is doubtful in, and of those after it."""

    def __init__(
        self,
        row: int,
        length: int,
        generations: dict[str, Any],
        keys: list[tuple[Column, str]],
        later: list[tuple[Column, str]],
    ) -> None:
        self.row, self.length, self.generations = row, length, generations
        self._keys, self._later = keys, later
        self._stored: set[str] = set()
        self.is_fresh = True
        self.since = 0.0

    def look(self, requests: int) -> tuple[bool, bool]:
        """Return whether a chunk of the row has changed since the last look, and whether a later one has appeared."""

        def ask(asked: tuple[Column, str]) -> tuple[str, Generation, bool]:
            column, key = asked
            value, generation = column.store.get(key, (0, 0), with_generation=True)
            return key, generation, value is not None

        changed = appeared = False
        wanted = {key: column for column, key in (*self._keys, *self._later)}
        for key, generation, is_stored in gather(ask, [(column, key) for key, column in wanted.items()], requests):
            if key in self.generations:
                changed = changed or self.generations[key] != generation
                self.generations[key] = generation
            if is_stored and key not in self._stored:
                appeared = appeared or not self.is_fresh
                self._stored.add(key)
        return changed, appeared


def _until_doubt(doubts: Sequence[npt.NDArray[np.bool_]], settled: int) -> tuple[int, int]:
    """Return how many of the first rows are not doubtful, or settled, and how many of these are doubtful."""
    doubtful = _doubtful(doubts)
    waiting = np.flatnonzero(doubtful[settled:])
    count = settled + int(waiting[0]) if len(waiting) else len(doubtful)
    return count, int(doubtful[:count].sum())


def _doubtful(doubts: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    """Return for each row whether it is doubtful in any chunk."""
    return np.array(np.logical_or.reduce([part.any(axis=1) for part in doubts]), bool)


def _after(kind: Token, row: int, values: npt.NDArray[Any] | None) -> Token:
    """Return the token after some rows."""
    if values is None or not len(values):
        return kind._replace(row=row)
    return kind._replace(row=row, last=digest_of_row([values]))


def follow(
    node: Array | Table,
    *,
    from_row: int | None = None,
    token: str | None = None,
    settle: float | None = None,
    timeout: float | None = None,
    poll: float | None = None,
    single_writer: bool = False,
) -> Follower:
    """Follow an array or a table: iterate over its new rows, each once and in order, as any process appends them.

    Rows are the elements along the first axis. They come in blocks (`Rows`), of as many as there are and fit into some
    megabytes. The document that holds the length is looked at again and again, with growing pauses between; on local
    disks of Linux a change ends the pause.

    A row that has not been written yet is not given. Where the length is written last, in bcolz and in tables that
    tegula appends to, that is simple. Elsewhere (`Array.append`, zarr-python) the length is written first, and a row
    counts as written if, in each chunk that it goes through, an element of it differs from the fill value. Any other
    row is waited for, up to `settle`.

    Parameters
    ----------
    node : Array or Table
        What to follow.
    from_row : int, optional
        The first row; negative ones count from the end. By default rows are given that are appended from now on.
    token : str, optional
        Go on where a follower ended: the `token` of it or of the last block that was used. It is refused if the node
        has been replaced.
    settle : float, optional
        The seconds for which a row is waited for that reads as the fill value, after it was first seen and after the
        last sign that the chunks before it are being written; then it is taken as it reads, and counted in
        `Rows.assumed`. Where `missing_chunks` makes missing chunks an error, they are one then. With 0 all rows below
        the length count as written, with ``math.inf`` nothing is ever assumed. By default 10, and 0 for tables that
        tegula appends to.
    timeout : float, optional
        The seconds to wait for rows before the iteration ends; it can be continued. With 0 it gives what is there. By
        default it does not end.
    poll : float, optional
        The most seconds between two looks: by default 1, and 10 for remote stores.
    single_writer : bool
        Whether appends are made one after another, never two at once. Then rows of the fill value need not be waited
        for if a later row of the same chunk has been written, or another append has begun.

    Returns
    -------
    Follower
        An iterator, for ``for`` and ``async for``.

    Raises
    ------
    NotFoundError
        If the node has been replaced since the token was made; or, while it is followed, if it is deleted or replaced.
    SelectionError
        If there are fewer rows than `from_row` or the token says; or, while it is followed, than have been given.
    MetadataError
        If an argument is not valid.
    UnsupportedError
        If the node has no rows.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=0, chunks=4, dtype="i4")
    >>> rows = tegula.follow(a, from_row=0, timeout=0)
    >>> a.append([1, 2, 3])
    (3,)
    >>> [(block.start, block.values.tolist()) for block in rows]
    [(0, [1, 2, 3])]
    >>> token = rows.token
    >>> a.append([4, 5])
    (5,)
    >>> [(block.start, block.values.tolist()) for block in tegula.follow(a, token=token, timeout=0)]
    [(3, [4, 5])]
    """
    if not isinstance(node, (Array, Table)):
        raise UnsupportedError(f"an array or a table of tegula.open_table can be followed, not a {type(node).__name__}")
    if from_row is not None and not is_number(from_row):
        raise SelectionError(f"from_row must be the number of a row, not {brief(from_row)}", field="from_row")
    if from_row is not None and token is not None:
        raise MetadataError("a token says where to begin; pass from_row or the token", field="from_row")
    for name, value in (("settle", settle), ("timeout", timeout), ("poll", poll)):
        is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (is_real and value >= 0):
            raise MetadataError(f"{name} must be a number of seconds, not {brief(value)}", field=name)
    own = isinstance(node, Table) and column_names(node.metadata) is not None and settle is None
    if isinstance(node, Table):
        columns = [Column(node[name], name, own) for name in node.names]
    elif node.ndim:
        columns = [Column(node, "", is_exact=False)]
    else:
        columns = []
    if not columns:
        raise UnsupportedError(f"the {node.kind} has no rows to follow", path=node.location)
    try:
        return Follower(
            node,
            columns,
            from_row=None if from_row is None else int(from_row),
            token=token,
            settle=_SETTLE if settle is None else settle,
            timeout=timeout,
            poll=poll,
            single_writer=single_writer,
        )
    except TegulaError as error:
        error.within(path=node.location)
        raise
