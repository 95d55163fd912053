"""What followers give, wait for and refuse."""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import CodecError, MetadataError, NotFoundError, SelectionError, UnsupportedError
from tegula.tables.following import Follower
from tegula.tables.following.patience import Patience

pytestmark = pytest.mark.once(executors="both")


def an_array(store: Any = None, **options: Any) -> tegula.Array:
    options = {"shape": 0, "chunks": 4, "dtype": "i4", **options}
    return tegula.create_array({} if store is None else store, **options)


def rows_of(follower: Follower) -> list[Any]:
    return [row for block in follower for row in block.values.tolist()]


def test_only_new_rows_are_given_unless_a_row_is_named() -> None:
    a = an_array()
    a.append([1, 2, 3])
    new, last = tegula.follow(a, timeout=0), tegula.follow(a, from_row=-2, timeout=0)
    assert rows_of(new) == []
    assert rows_of(last) == [2, 3]
    a.append([4])
    assert rows_of(new) == rows_of(last) == [4]
    assert rows_of(tegula.follow(a, from_row=-99, timeout=0)) == [1, 2, 3, 4]
    with pytest.raises(SelectionError, match="no row 5 yet"):
        tegula.follow(a, from_row=5)


def test_blocks_say_where_they_are() -> None:
    a = an_array(chunks=(2, 3), shape=(0, 3))
    a.append(np.arange(1, 13).reshape(4, 3))
    (block,) = tegula.follow(a, from_row=1, timeout=0)
    assert (block.start, block.stop, len(block), block.assumed) == (1, 4, 3, 0)
    assert np.asarray(block, "f4").tolist() == [row.tolist() for row in block] == [[4, 5, 6], [7, 8, 9], [10, 11, 12]]
    assert repr(block) == "<tegula.tables.following.Rows 1:4>"
    assert rows_of(tegula.follow(a, token=block.token, timeout=0)) == []


def test_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.tables.following.follower._BLOCK_BYTES", 40)
    a = an_array()
    a.append(np.arange(1, 30))
    blocks = [(block.start, len(block)) for block in tegula.follow(a, from_row=1, timeout=0)]
    assert blocks == [(1, 7), (8, 8), (16, 8), (24, 5)]


@pytest.mark.parametrize("arguments", [{"settle": -1}, {"timeout": "1"}, {"poll": math.nan}, {"settle": True}])
def test_seconds_are_numbers(arguments: dict[str, Any]) -> None:
    with pytest.raises(MetadataError, match="must be a number of seconds"):
        tegula.follow(an_array(), **arguments)


def test_what_has_no_rows_is_not_followed() -> None:
    with pytest.raises(UnsupportedError, match="has no rows"):
        tegula.follow(an_array(shape=(), chunks=()))
    with pytest.raises(UnsupportedError, match="not a Group"):
        tegula.follow(tegula.create_group({}))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="not a View"):
        tegula.follow(an_array().lazy[:])  # type: ignore[arg-type]
    with pytest.raises(SelectionError, match="number of a row"):
        tegula.follow(an_array(), from_row=1.5)  # type: ignore[arg-type]
    with pytest.raises(MetadataError, match="from_row or the token"):
        tegula.follow(an_array(), from_row=0, token="")


def test_fill_values_are_given_when_they_have_been_waited_for() -> None:
    a = an_array()
    a.append([1, 0, 3])
    assert rows_of(tegula.follow(a, from_row=0, timeout=0)) == [1]
    waiting = tegula.follow(a, from_row=0, timeout=5, settle=0.2)
    assert next(waiting).values.tolist() == [1]
    began = time.monotonic()
    block = next(waiting)
    assert (block.values.tolist(), block.assumed) == ([0, 3], 1)
    assert time.monotonic() - began > 0.1
    assert rows_of(tegula.follow(a, from_row=0, timeout=0, settle=0)) == [1, 0, 3]


def test_a_row_of_many_chunks_is_waited_for_until_all_are_written() -> None:
    a = an_array(shape=(0, 40), chunks=(2, 1))
    a.resize(1, 40)
    follower = tegula.follow(a, from_row=0, timeout=0, settle=math.inf)
    for column in range(40):
        assert rows_of(follower) == []
        assert rows_of(follower) == []
        a[0, column] = column + 1
    assert rows_of(follower) == [[*range(1, 41)]]


def test_a_chunk_of_one_row_that_is_stored_was_written() -> None:
    a = an_array(chunks=(1, 2), shape=(0, 4), write_empty_chunks=True)
    a.append([[0, 0, 0, 0], [1, 2, 0, 0]])
    assert len(rows_of(tegula.follow(a, from_row=0, timeout=0, settle=math.inf))) == 2


def test_missing_chunks_that_are_an_error_are_one_after_a_wait() -> None:
    a = an_array()
    a.append([1, 2, 3, 4])
    a.resize(6)
    a.missing_chunks = "error"
    follower = tegula.follow(a, from_row=0, timeout=5, settle=0.05)
    assert next(follower).values.tolist() == [1, 2, 3, 4]
    with pytest.raises(NotFoundError, match="not stored"):
        next(follower)
    a[4:] = [5, 6]
    assert next(follower).values.tolist() == [5, 6]


@pytest.mark.slow
def test_patience_begins_again_while_earlier_rows_are_written() -> None:
    """One append of many chunks, whose writer takes longer for all of them than a row is waited for."""
    a = an_array(chunks=1)
    a.resize(8)
    follower = tegula.follow(a, from_row=0, timeout=60, settle=3)

    def write() -> None:
        for row in range(8):
            time.sleep(0.5)
            a[row] = row + 1

    writer = threading.Thread(target=write)
    writer.start()
    found: list[int] = []
    while len(found) < 8:
        block = next(follower)
        assert not block.assumed
        found += block.values.tolist()
    writer.join()
    assert found == [*range(1, 9)]


def test_only_the_time_of_waiting_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that in which other rows were used, nor that in which the process was stopped."""
    now = 1000.0
    monkeypatch.setattr("tegula.tables.following.patience.time", SimpleNamespace(monotonic=lambda: now))
    patience = Patience(8.0)
    patience.see(3)
    for passed, planned, elapsed in ((1, 1, 1), (3600, 1, 4), (-50, 1, 4), (2, 1, 6), (1, 1, 7)):
        now += passed
        patience.tick(planned)
        assert (patience.elapsed, patience.settled()) == (elapsed, 0)
    now += 3600
    patience.resume()
    patience.tick(0)
    assert patience.settled() == 0
    patience.see(5)
    now += 1
    patience.tick(1)
    assert (patience.settled(), patience.left(3)) == (3, 7.0)
    patience.progress()
    assert (patience.settled(), patience.left(0)) == (0, 8.0)
    patience.see(2)
    patience.see(4)
    assert patience.left(3) == 8.0
    for length in range(5, 5000):
        patience.see(length)
    assert patience.length_at(4998) == 4999
    assert patience.complete == 4998


def test_a_shortened_array_is_an_error_that_says_so() -> None:
    a = an_array()
    a.append([1, 2, 3, 4, 5])
    follower, ahead = tegula.follow(a, from_row=0, timeout=0), tegula.follow(a, timeout=0)
    assert len(next(follower)) == 5
    token = follower.token
    a.resize(3)
    for one in (follower, ahead):
        with pytest.raises(SelectionError, match="shortened to 3 rows, and 5 have been read"):
            next(one)
    with pytest.raises(SelectionError, match="shortened to 3 rows"):
        tegula.follow(a, token=token)
    a.append([7, 8])  # other rows, of which an open follower learns nothing
    assert rows_of(follower) == []
    with pytest.raises(NotFoundError, match="row 4 is not the row that the token was made after"):
        tegula.follow(a, token=token)


def test_rows_that_an_append_takes_back_are_not_given(tmp_path: Path) -> None:
    """The length returns to what it was, and other rows come."""
    a = an_array(tmp_path / "x")
    a.append([1])
    follower = tegula.follow(a, from_row=0, timeout=0)
    assert rows_of(follower) == [1]
    a.resize(4)
    assert rows_of(follower) == []
    a.resize(1)
    assert rows_of(follower) == []
    a.append([2, 3])
    assert rows_of(follower) == [2, 3]


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_a_replaced_array_is_an_error_and_its_tokens_are_refused(kind: str, tmp_path: Path) -> None:
    store: Any = tegula.MemoryStore() if kind == "memory" else tmp_path / "x"
    a = an_array(store)
    a.append([1, 2, 3])
    follower = tegula.follow(a, from_row=0, timeout=0)
    assert rows_of(follower) == [1, 2, 3]
    token = follower.token
    an_array(store, overwrite=True).append([7, 8, 9, 10])
    with pytest.raises(NotFoundError, match="replaced"):
        next(follower)
    with pytest.raises(NotFoundError, match="from_row=3 instead of the token") as raised:
        tegula.follow(tegula.open(store), token=token)
    assert raised.value.is_stale
    assert raised.value.field == "token"


def test_a_directory_in_the_place_of_another_is_another_array(tmp_path: Path) -> None:
    """Its documents and rows are the same, and another process has put it there."""
    a = an_array(tmp_path / "x")
    a.append([1, 2, 3])
    follower = tegula.follow(a, from_row=0, timeout=0)
    assert rows_of(follower) == [1, 2, 3]
    shutil.copytree(tmp_path / "x", tmp_path / "y")
    os.rename(tmp_path / "x", tmp_path / "old")
    os.rename(tmp_path / "y", tmp_path / "x")
    with pytest.raises(NotFoundError, match="replaced"):
        next(follower)
    with pytest.raises(NotFoundError, match="replaced since the token was made"):
        tegula.follow(tegula.open(tmp_path / "x"), token=follower.token)
    assert rows_of(tegula.follow(tegula.open(tmp_path / "old"), token=follower.token, timeout=0)) == []


def test_a_deleted_array_is_an_error(tmp_path: Path) -> None:
    a = an_array(tmp_path / "x")
    follower = tegula.follow(a, timeout=0)
    shutil.rmtree(tmp_path / "x")
    with pytest.raises(NotFoundError, match="deleted or moved"):
        next(follower)


def test_tokens_do_not_depend_on_rows_that_may_still_be_written() -> None:
    a = an_array()
    a.append([1, 2, 3])
    a.resize(5)
    token = tegula.follow(a).token
    assumed = tegula.follow(a, from_row=0, timeout=0, settle=0)
    assert rows_of(assumed) == [1, 2, 3, 0, 0]
    a[3:] = [4, 5]
    for one in (token, assumed.token):
        assert tegula.follow(a, token=one).position == 5
    sure = tegula.follow(a).token
    a[4] = 6
    with pytest.raises(NotFoundError, match="row 4 is not the row"):
        tegula.follow(a, token=sure)


def test_rows_of_another_shape_are_an_error() -> None:
    a = an_array(shape=(0, 2), chunks=(2, 2))
    a.append([[1, 2]])
    follower = tegula.follow(a, from_row=0, timeout=0)
    a.resize(1, 3)
    with pytest.raises(SelectionError, match="another shape"):
        next(follower)


def test_rows_of_another_kind_are_refused() -> None:
    a, b = an_array(), an_array(dtype="i8")
    with pytest.raises(NotFoundError, match="rows of another kind"):
        tegula.follow(b, token=tegula.follow(a).token)


def test_values_that_are_being_written_in_place_are_waited_for(tmp_path: Path) -> None:
    """As a program does that does not rename: a document, or a chunk, is cut short for a moment."""
    a = an_array(tmp_path / "x", codecs="zstd")
    a.append([1, 2, 3])
    follower = tegula.follow(a, from_row=0, timeout=0, settle=0.3)
    document, chunk = tmp_path / "x/zarr.json", tmp_path / "x/c/0"
    for path in (document, chunk):
        whole = path.read_bytes()
        path.write_bytes(whole[:-4])
        assert rows_of(follower) == []
        path.write_bytes(whole)
    assert rows_of(follower) == [1, 2, 3]
    a.append([4, 5])
    (tmp_path / "x/c/1").write_bytes(b"damaged")
    follower = tegula.follow(a, from_row=0, timeout=20, settle=0.3)
    assert next(follower).values.tolist() == [1, 2, 3, 4]
    with pytest.raises(CodecError, match="c/1"):
        next(follower)


def test_values_that_a_store_caches_are_not_used(tmp_path: Path) -> None:
    remote = tegula.MemoryStore()
    a = an_array(remote)
    a.append([1])
    cached = tegula.open(tegula.CachedStore(remote, tmp_path / "cache", 10**6, recheck="never"))
    follower = tegula.follow(cached, from_row=0, timeout=0)
    assert rows_of(follower) == [1]
    a.append([2])
    assert rows_of(follower) == [2]
    with tegula.config.configure(cache_bytes=10**6):
        a.append([3])
        assert rows_of(follower) == [3]
        a.append([4])
        assert rows_of(follower) == [4]


@pytest.mark.parametrize(
    ("dtype", "fill", "codecs"),
    [
        ("f4", 0.05, [{"name": "numcodecs.fixedscaleoffset", "configuration": {
            "offset": 0, "scale": 1, "dtype": "<f4", "astype": "<i2"}}, "bytes"]),
        ("f4", 1.23, [{"name": "bitround", "configuration": {"keepbits": 2}}, "bytes"]),
        ("f4", 7.7, [{"name": "numcodecs.quantize", "configuration": {"digits": 0, "dtype": "<f4"}}, "bytes", "zstd"]),
    ],
)  # fmt: skip
def test_what_codecs_make_of_the_fill_value_was_not_written(dtype: str, fill: float, codecs: Any) -> None:
    """Beside a row that was written, others read as the rounded fill value, which differs from the fill value."""
    a = an_array(dtype=dtype, fill_value=fill, codecs=codecs)
    a.append([32, 64])
    a.resize(4)
    assert a[2] != np.float32(fill)
    assert rows_of(tegula.follow(a, from_row=0, timeout=0, settle=math.inf)) == [32, 64]


def test_rows_that_a_codec_mixes_are_waited_for() -> None:
    codecs = [{"name": "numcodecs.delta", "configuration": {"dtype": "<f4"}}, "bytes"]
    a = an_array(dtype="f4", codecs=codecs)
    a.append([1.1, 2])
    assert rows_of(tegula.follow(a, from_row=0, timeout=0, settle=math.inf)) == []
    assert len(rows_of(tegula.follow(a, from_row=0, timeout=0, settle=0))) == 2


def test_text_is_followed() -> None:
    a = an_array(dtype=str)
    a.append(["a", "bc", "", "d"])
    follower = tegula.follow(a, from_row=0, timeout=0)
    assert rows_of(follower) == ["a", "bc"]
    assert rows_of(tegula.follow(a, token=follower.token, timeout=0, settle=0)) == ["", "d"]


def test_closing_ends_the_wait_of_another_thread(tmp_path: Path) -> None:
    for store in (tegula.MemoryStore(), tmp_path / "x"):
        follower = tegula.follow(an_array(store), poll=60)
        timer = threading.Timer(0.1, follower.close)
        timer.start()
        began = time.monotonic()
        assert [*follower] == []
        assert time.monotonic() - began < 20
        assert follower.closed
        timer.join()
        follower.close()
    with tegula.follow(an_array()) as follower:
        pass
    assert follower.closed


def test_threads_get_different_rows() -> None:
    a = an_array(chunks=2)
    follower = tegula.follow(a, from_row=0, poll=0.01)
    found: list[int] = []

    def read() -> None:
        for block in follower:
            found.extend(block.values.tolist())

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(1, 60, 3):
        a.append(np.arange(start, start + 3))
    for _ in range(1000):
        if len(found) == 60:
            break
        time.sleep(0.01)
    follower.close()
    for thread in threads:
        thread.join()
    assert sorted(found) == [*range(1, 61)]


def test_a_change_on_a_local_disk_ends_the_wait(tmp_path: Path) -> None:
    """With inotify; without it the test only takes longer than the longest pause."""
    a = an_array(tmp_path / "x", chunks=1)
    follower = tegula.follow(a, poll=2)
    timer = threading.Timer(0.3, a.append, ([7],))
    timer.start()
    assert next(follower).values.tolist() == [7]
    timer.join()


def test_waiting_does_not_block_an_event_loop(tmp_path: Path) -> None:
    async def run(store: Any) -> list[int]:
        a = an_array(store)
        found: list[int] = []
        turns = 0

        async def write() -> None:
            nonlocal turns
            for number in range(1, 6):
                await asyncio.sleep(0.02)
                a.append([number])
            while len(found) < 5:
                turns += 1
                await asyncio.sleep(0.01)

        async with tegula.follow(a, timeout=30) as follower:
            task = asyncio.create_task(write())
            async for block in follower:
                found.extend(block.values.tolist())
                if len(found) == 5:
                    break
            await task
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(follower), 0.05)
            a.append([6])
            assert (await anext(follower)).values.tolist() == [6]
            waiting = asyncio.create_task(anext(follower))  # type: ignore[arg-type]
            await asyncio.sleep(0.02)
            with pytest.raises(RuntimeError, match="another task"):
                await anext(follower)
            await follower.aclose()
            with pytest.raises(StopAsyncIteration):
                await waiting
        return found

    for store in (tegula.MemoryStore(), tmp_path / "x"):
        assert asyncio.run(run(store)) == [1, 2, 3, 4, 5]


def test_a_follower_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="pass its token"):
        pickle.dumps(tegula.follow(an_array()))
