"""The zip store: modes, commits and what a killed writer leaves; archives by and for other programs."""

import io
import os
import pickle
import random
import struct
import subprocess
import sys
import time
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stores.zip.archives import METHODS, contents, readers, write

from tegula.errors import AlreadyExistsError, NotFoundError, ReadOnlyError, StoreError, TegulaError
from tegula.stores import ABSENT, ZipStore
from tegula.stores.zip import archive as zip_archive
from tegula.stores.zip import records as zip_records

# --- modes


def test_modes(path):
    with pytest.raises(NotFoundError):
        ZipStore(path)
    assert not os.path.exists(path)
    with ZipStore(path, "x") as store:
        assert contents(path) == {}
        store.set("a", b"1")
    with pytest.raises(AlreadyExistsError):
        ZipStore(path, "x")
    with ZipStore(path, "a") as store:
        store.set("b", b"2")
        assert (store.get("a"), store.get("b")) == (b"1", b"2")
    with ZipStore(path) as store:
        assert sorted(store.list()) == ["a", "b"]
        with pytest.raises(ReadOnlyError):
            store.compact()
    with ZipStore(path, "w") as store:
        assert [*store.list()] == []
        assert contents(path) == {"a": b"1", "b": b"2"}  # until the first commit
    assert contents(path) == {}
    with pytest.raises(StoreError, match="mode"):
        ZipStore(path, "r+")
    with pytest.raises(StoreError, match="compression"):
        ZipStore(path, compression="best")
    with pytest.raises(StoreError, match="durability"):
        ZipStore(path, durability="best")


def test_opening_changes_nothing(path):
    write(path, {"a": b"1"})
    before = os.stat(path)
    for mode in ("r", "a"):
        ZipStore(path, mode).close()
    assert (os.stat(path).st_mtime_ns, os.stat(path).st_ino) == (before.st_mtime_ns, before.st_ino)


def test_what_can_not_be_opened_is_an_error(tmp_path):
    (tmp_path / "text").write_bytes(b"no archive" * 100)
    (tmp_path / "empty").write_bytes(b"")
    for odd in ["", 7, "a\0"]:
        with pytest.raises(StoreError, match="not a path"):
            ZipStore(odd)
    for name in ["text", "empty", ".", "text/below"]:
        with pytest.raises(TegulaError):
            ZipStore(tmp_path / name)
    for name in ["text", ".", "text/below"]:
        with pytest.raises(StoreError):
            ZipStore(tmp_path / name, "a")
    assert (tmp_path / "text").read_bytes() == b"no archive" * 100
    ZipStore(tmp_path / "empty", "a").close()
    assert contents(tmp_path / "empty") == {}


def test_directories_above_a_new_archive_are_made(tmp_path):
    with ZipStore(tmp_path / "new" / "folder" / "a.zip", "a") as store:
        store.set("k", b"v")
    assert contents(tmp_path / "new" / "folder" / "a.zip") == {"k": b"v"}


def test_one_writer_at_a_time(path):
    store = ZipStore(path, "a")
    for mode in ("a", "w"):
        with pytest.raises(StoreError, match="another writer"):
            ZipStore(path, mode)
    store.set("a", b"1")
    store.compact()  # another file now
    with pytest.raises(StoreError, match="another writer"):
        ZipStore(path, "a")
    assert ZipStore(path).get("a") == b"1"
    store.close()
    with ZipStore(path, "a") as store:
        assert store.get("a") == b"1"


def test_a_closed_store_says_so(path):
    store = ZipStore(path, "w")
    store.set("a", b"1")
    store.close()
    store.close()
    for operation in (store.get, store.size, store.delete, lambda key: store.set(key, b"")):
        with pytest.raises(StoreError, match="closed"):
            operation("a")
    with pytest.raises(StoreError, match="closed"):
        store.list()


def test_a_store_that_is_forgotten_commits(path):
    store = ZipStore(path, "w")
    store.set("a", b"1")
    del store
    assert contents(path) == {"a": b"1"}


@pytest.mark.posix("links")
def test_a_link_to_an_archive_stays_a_link(tmp_path):
    (tmp_path / "link.zip").symlink_to("real.zip")
    with ZipStore(tmp_path / "link.zip", "w") as store:
        store.set("a", b"1")
    assert (tmp_path / "link.zip").is_symlink()
    assert contents(tmp_path / "real.zip") == {"a": b"1"}


# --- commits


KEYS = st.sampled_from(["a", "b", "c/0", "c/1", "é/日本", "x" * 300])
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.binary(max_size=60)),
    st.tuples(st.just("delete"), KEYS, st.none()),
    st.tuples(st.sampled_from(["flush", "compact", "reopen", "replace"]), st.none(), st.none()),
)


@given(steps=st.lists(STEPS, max_size=40), compression=st.sampled_from(["stored", "deflated"]))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_each_commit_every_reader_finds_what_was_set(path, steps, compression):
    model, committed = {}, {}
    store = ZipStore(path, "w", compression=compression)
    store.flush()
    for action, key, value in steps:
        if action == "set":
            store.set(key, value)
            model[key] = value
        elif action == "delete":
            store.delete(key)
            model.pop(key, None)
        else:
            if action == "reopen":
                store.close()
                store = ZipStore(path, "a", compression=compression)
            elif action == "replace":
                store.close()
                store = ZipStore(path, "w", compression=compression)
                store.flush()
                model = {}
            else:
                getattr(store, action)()
            committed = dict(model)
        assert {key: store.get(key) for key in store.list()} == model
        assert contents(path) == committed
        assert {key: ZipStore(path).get(key) for key in ZipStore(path).list()} == committed
    store.close()
    assert contents(path) == model


def test_large_amounts_are_committed_as_they_come(path):
    store = ZipStore(path, "w")
    values = {f"c/{number}": random.Random(number).randbytes(700_000) for number in range(16)}
    for key, value in values.items():
        store.set(key, value)
    found = contents(path)
    assert 8 < len(found) < 16
    assert all(found[key] == values[key] for key in found)
    assert all(store.get(key) == value for key, value in values.items())
    assert store.get("c/3", (5, 10)) == values["c/3"][5:15]
    store.close()
    assert contents(path) == values


@pytest.mark.parametrize("size", [2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_values_that_are_written_without_a_buffer_follow_what_is_in_it(path, size):
    values = {"a": b"1", "b": random.Random(size).randbytes(size), "c": b"3", "d": bytes(size), "e": b"5"}
    with ZipStore(path, "w") as store:
        for key, value in values.items():
            store.set(key, value)
    assert contents(path) == values
    with ZipStore(path, "a") as store:
        store.set("c", values["b"])
        store.delete("a")
        store.compact()
    assert contents(path) == {"b": values["b"], "c": values["b"], "d": values["d"], "e": b"5"}


def test_generations_outlast_a_commit(path):
    store = ZipStore(path, "w")
    first = store.set("a", b"1")
    for commit in (store.flush, store.compact, store.flush):
        commit()
        assert store.get("a", with_generation=True) == (b"1", first)
    store.set("a", b"2", if_generation=first)
    store.close()
    with ZipStore(path, "a") as one, ZipStore(path) as other:
        assert one.get("a", with_generation=True) == other.get("a", with_generation=True)


def test_compact_leaves_dead_bytes_behind_and_keeps_the_rest(path):
    store = ZipStore(path, "w")
    for turn in range(10):
        store.set("a", bytes(10_000))
        store.set(f"b{turn}", b"%d" % turn)
        store.flush()
    os.chmod(path, 0o640)
    assert os.path.getsize(path) > 100_000
    store.compact()
    assert os.path.getsize(path) < 12_000
    assert os.name != "posix" or os.stat(path).st_mode & 0o777 == 0o640
    assert store.get("b7") == b"7"
    store.set("c", b"1")
    store.close()
    found = contents(path)
    assert sorted(found) == ["a", *(f"b{turn}" for turn in range(10)), "c"]
    assert os.listdir(os.path.dirname(path)) == ["a.zip"]


def test_a_reader_keeps_what_it_opened(path):
    with ZipStore(path, "w") as store:
        store.set("a", b"1")
        store.flush()
        reader = ZipStore(path)
        store.set("a", b"2")
        store.flush()
        store.compact()
    assert reader.get("a") == b"1"
    assert ZipStore(path).get("a") == b"2"


def test_a_failed_commit_leaves_the_last_one(path, monkeypatch):
    store = ZipStore(path, "w")
    store.set("a", b"1")
    store.flush()

    def fail(fd, data, start):
        real(fd, data[: len(data) // 2], start)
        raise OSError(28, "No space left on device")

    real = zip_archive_write(monkeypatch, fail)
    store.set("b", b"2")
    for commit in (store.flush, store.compact):
        with pytest.raises(StoreError, match="No space left"):
            commit()
        assert contents(path) == {"a": b"1"}
    with pytest.raises(StoreError, match="No space left") as caught:
        store.set("big", bytes(9_000_000))
    assert caught.value.key == "big"
    assert store.get("big") is None
    assert (store.get("a"), store.get("b")) == (b"1", b"2")
    zip_archive_write(monkeypatch, real)
    store.close()
    assert contents(path) == {"a": b"1", "b": b"2"}
    assert os.listdir(os.path.dirname(path)) == ["a.zip"]


def zip_archive_write(monkeypatch, replacement):
    real = zip_archive.write_at
    monkeypatch.setattr(zip_archive, "write_at", replacement)
    return real


def test_a_pickled_store_reads_what_was_set(path):
    with ZipStore(path, "w") as store:
        store.set("a", b"1")
        copy = pickle.loads(pickle.dumps(store))
        assert copy.read_only
        assert copy.get("a") == b"1"


# --- torn tails


@pytest.mark.slow
def test_bytes_after_the_last_commit_are_ignored_and_cut_off_by_the_next(path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("inner", b"?")
    store = ZipStore(path, "w")
    store.set("a", b"1" * 100)
    store.set("b.zip", inner.getvalue())
    store.close()
    with open(path, "rb") as file:
        first = file.read()
    with ZipStore(path, "a") as store:
        store.set("a", b"2" * 100)
        store.set("c.zip", inner.getvalue() * 2)
    with open(path, "rb") as file:
        second = file.read()
    assert second.startswith(first)
    for size in range(len(first), len(second)):
        with open(path, "wb") as file:
            file.write(second[:size])
        reader = ZipStore(path)
        assert sorted(reader.list()) == ["a", "b.zip"]
        assert reader.get("a") == b"1" * 100
        with ZipStore(path, "a") as store:
            store.set("d", b"4")
        assert sorted(contents(path)) == ["a", "b.zip", "d"]


@readers
def test_a_long_torn_tail(path, reader):
    with ZipStore(path, "w") as store:
        store.set("a", b"1")
    with open(path, "ab") as file:
        file.write(b"PK\3\4" + random.Random(0).randbytes(3_000_000) + b"PK\5\6" + bytes(10))
    assert reader(path).get("a") == b"1"
    with ZipStore(path, "a") as store:
        store.set("b", b"2")
    assert contents(path) == {"a": b"1", "b": b"2"}
    assert os.path.getsize(path) < 1000


WRITER = """
import sys
from tegula.stores import ZipStore
store = ZipStore(sys.argv[1], "a")
print("ready", flush=True)
turn = int(store.get("turn") or 0)
while True:
    turn += 1
    for name in "abcd":
        store.set(f"{name}/{turn % 7}", (b"%d " % turn) * 3000)
    store.set("turn", b"%d" % turn)
    store.flush()
    if turn % 20 == 0:
        store.compact()
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_the_last_commit(path):
    for attempt in range(12):
        process = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(random.Random(attempt).random() * 0.08)
        process.kill()
        process.communicate(timeout=60)
        with ZipStore(path) as reader:
            values = {key: reader.get(key) for key in reader.list()}
        turn = int(values.get("turn", b"0"))
        for key, value in values.items():
            assert key in ("turn", "attempt") or value in [(b"%d " % t) * 3000 for t in range(turn + 1)]
        with ZipStore(path, "a") as store:
            assert {key: store.get(key) for key in store.list()} == values
            store.set("attempt", b"%d" % attempt)
        assert contents(path) == values | {"attempt": b"%d" % attempt}
        assert os.listdir(os.path.dirname(path)) == ["a.zip"]


def test_a_key_longer_than_a_name_in_an_archive_can_be(path):
    store = ZipStore(path, "w")
    store.set("a", b"1")
    store.set("k" * 65535, b"2")
    for key in ("k" * 65536, "é" * 32768):
        with pytest.raises(StoreError, match="65535") as caught:
            store.set(key, b"3")
        assert caught.value.key.startswith(key[:20])
        assert len(str(caught.value)) < 300
    store.close()
    assert contents(path) == {"a": b"1", "k" * 65535: b"2"}


def test_a_forgotten_store_that_can_not_commit_says_what_is_lost(path, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    store = ZipStore(path, "w")
    for key in "abcd":
        store.set(key, b"1")
    monkeypatch.setattr(zip_archive, "write_at", fail)
    with pytest.warns(RuntimeWarning, match=r"lost, with 4 new values \('a', 'b', 'c', …\).*No space") as caught:
        del store
    assert path in str(caught[0].message)


# --- archives by other programs


@readers
@pytest.mark.parametrize("method", METHODS)
def test_archives_that_zipfile_wrote(path, method, reader):
    members = {"a": b"x" * 5000, "b/c": b"", "é/日本": b"1", "d": random.Random(0).randbytes(3000)}
    write(path, members, compression=method)
    with reader(path) as store:
        assert {key: store.get(key) for key in store.list()} == members
        assert store.get("d", (100, 50)) == members["d"][100:150]
        assert store.get("d", (-7, None)) == members["d"][-7:]
        assert store.size("a") == 5000
    with ZipStore(path, "a") as store:
        store.set("new", b"2")
        store.delete("b/c")
    members = members | {"new": b"2"}
    del members["b/c"]
    assert contents(path) == members
    with ZipStore(path, "a") as store:
        store.compact()
    assert contents(path) == members
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more", b"3")
    assert reader(path).get("more") == b"3"


@readers
def test_archives_written_as_a_stream(path, reader):
    """Their sizes come after the members."""

    class Unseekable(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data)
            return len(data)

    stream = Unseekable()
    write(stream, {"a": b"1" * 1000, "b": b"2"}, compression=zipfile.ZIP_DEFLATED)
    with open(path, "wb") as file:
        file.write(stream.data)
    assert reader(path).get("a") == b"1" * 1000
    with ZipStore(path, "a") as store:
        assert store.get("a") == b"1" * 1000
        store.set("c", b"3")
        store.flush()
        store.compact()
    assert contents(path) == {"a": b"1" * 1000, "b": b"2", "c": b"3"}


@readers
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_several_members_of_one_name_the_last_counts(path, reader):
    with zipfile.ZipFile(path, "w") as archive:
        for value in (b"1", b"22", b"333"):
            archive.writestr("a", value)
    assert reader(path).get("a") == b"333"
    with ZipStore(path, "a") as store:
        store.set("b", b"2")
    assert contents(path) == {"a": b"333", "b": b"2"}


@readers
def test_comments_and_directories_and_what_stands_before_an_archive(path, reader):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/", b"")
        archive.writestr("folder/a", b"1")
        archive.comment = b"a comment" * 100
    with ZipStore(path, "a") as store:
        assert [*store.list()] == ["folder/a"]
        store.set("b", b"2")
    assert contents(path) == {"folder/a": b"1", "b": b"2"}
    with zipfile.ZipFile(path) as archive:
        assert archive.comment == b"a comment" * 100
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(b"#!/bin/sh\n" + data)
    assert reader(path).get("folder/a") == b"1"
    with ZipStore(path, "a") as store:
        assert store.get("folder/a") == b"1"
        store.set("b", b"3")
        with pytest.raises(StoreError, match="before the archive"):
            store.flush()
        store.compact()
    assert contents(path) == {"folder/a": b"1", "b": b"3"}


@pytest.mark.nightly
@pytest.mark.slow
@readers
def test_more_members_than_the_old_format_counts(path, reader):
    with ZipStore(path, "w") as store:
        for number in range(66_000):
            store.set(f"c/{number}", b"")
        store.flush()
        store.set("last", b"1")
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == 66_001
        assert archive.read("last") == b"1"
    assert reader(path).get("last") == b"1"
    assert len([*reader(path).list()]) == 66_001


@pytest.mark.posix("sparse files")
@readers
def test_offsets_beyond_four_gigabytes(path, reader):
    with ZipStore(path, "w") as store:
        store.set("a", b"1")
        store.flush()
        store._session.contents[0]._stop = 5 << 30  # leaving a hole
        with open(path, "r+b") as file:
            file.truncate(5 << 30)
        store.set("b", b"2")
    assert contents(path) == {"a": b"1", "b": b"2"}
    assert reader(path).get_many([("a", None), ("b", None)]) == [b"1", b"2"]
    with ZipStore(path, "a") as store:
        assert store.get("b") == b"2"
        store.set("c", b"3")
        store.flush()
        assert contents(path) == {"a": b"1", "b": b"2", "c": b"3"}
        store.compact()
    assert os.path.getsize(path) < 1000
    assert contents(path) == {"a": b"1", "b": b"2", "c": b"3"}


def test_records_of_members_beyond_four_gigabytes():
    member = zip_records.Member("a", 0, 0, 7, 5 << 30, 6 << 30, 7 << 30, b"", ABSENT)
    header = zip_records.local_header(member)
    assert header.endswith(struct.pack("<HHQQ", 1, 16, 6 << 30, 5 << 30))
    record = zip_records.central_record(member)
    end = zip_records.end_records(1, 0, len(record), b"")
    with zipfile.ZipFile(io.BytesIO(record + end)) as archive:
        (info,) = archive.infolist()
    assert (info.file_size, info.compress_size, info.header_offset) == (6 << 30, 5 << 30, 7 << 30)
