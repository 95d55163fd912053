"""The zip store: archives by and for other programs, and damaged or hostile archives."""

import io
import os
import pickle
import random
import struct
import subprocess
import sys
import time
import warnings
import zipfile
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.errors import AlreadyExistsError, NotFoundError, ReadOnlyError, StoreError, TegulaError
from tegula.stores import ABSENT, LocalStore, ZipStore
from tegula.stores.zip import archive as zip_archive
from tegula.stores.zip import records as zip_records
from tegula.stores.zip.remote import RemoteZipStore


def by_ranges(path):
    """Open an archive as one in another store."""
    return RemoteZipStore(LocalStore(os.path.dirname(path)), os.path.basename(path))


readers = pytest.mark.parametrize("reader", [ZipStore, by_ranges])


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.zip")


def contents(path):
    """Return what zipfile finds, after checking that the archive is valid."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(names) == len(set(names))
        return {name: archive.read(name) for name in names}


def write(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, value in members.items():
            archive.writestr(name, value)


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


METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


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


# --- damaged and hostile archives


ODD = ["../a", "/a", "a/../../b", "a//b", "./a", ".."]


def rename(path, old, new):
    """Give a member of an archive another name of the same length, which a writer would refuse."""
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data.replace(old, new))


@readers
@pytest.mark.parametrize("name", ODD)
def test_names_that_are_no_keys_are_left_out_and_kept(path, name, reader):
    place = "x" * len(name.encode())
    write(path, {"sound": b"1", place: b"odd value", "below/sound": b"2"})
    rename(path, place.encode(), name.encode())
    with pytest.warns(UserWarning, match="a member whose name can't be a key, so nothing reads it: ") as caught:
        found = reader(path)
    assert os.path.basename(path) in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = ZipStore(path, "a")
    with store:
        for each in (found, store):
            assert sorted(each.list()) == ["below/sound", "sound"]
            assert each.list_dir("") == (["sound"], ["below/"])
            assert [*each.unreachable()] == [name]
            assert [*each.unreachable("below/")] == []
            with pytest.raises(StoreError):
                each.get(name)
        store.set("new", b"3")
    for changed in (False, True):
        if changed:
            with ZipStore(path, "a") as store:
                store.compact()
        with reader(path) as store:
            assert sorted(store.list()) == ["below/sound", "new", "sound"]
            assert [*store.unreachable()] == [name]
        with open(path, "rb") as file:
            data = file.read()
        assert data.count(name.encode()) >= 2  # in front of the value, and in the directory
        assert b"odd value" in data


@readers
def test_a_name_with_a_nul_could_hide_another_one(path, reader):
    write(path, {"zarr.json": b"1", "zarr.jsonx0": b"2"})
    rename(path, b"zarr.jsonx0", b"zarr.json\0x")  # zipfile reads it as zarr.json
    for mode in ("r", "a"):
        with pytest.raises(StoreError, match="a NUL in its name") as caught:
            ZipStore(path, mode)
        assert path in str(caught.value)
    with pytest.raises(StoreError, match="a NUL in its name"):
        reader(path)


@readers
@pytest.mark.parametrize("name", [b"c//0", b"./00", b"\xff\xfe00"])
def test_a_damaged_directory_is_no_odd_name(path, name, reader):
    """Else a chunk would be missing, and read as the fill value."""
    write(path, {"c/00" if name[:1] != b"\xff" else "ä00": b"1", "sound": b"2"})
    with open(path, "rb") as file:
        data = file.read()
    at = data.rindex("ä00".encode() if name[:1] == b"\xff" else b"c/00")
    with open(path, "wb") as file:
        file.write(data[:at] + name + data[at + 4 :])
    with pytest.raises(StoreError, match="one name in the archive's directory and another in its local header"):
        reader(path)


@readers
def test_a_name_that_is_not_utf8_is_left_out(path, reader):
    write(path, {"sound": b"1", "ä": b"2"})
    rename(path, "ä".encode(), b"\xff\xfe")
    with pytest.warns(UserWarning, match="can't be a key"):
        store = reader(path)
    assert [*store.list()] == ["sound"]
    assert [name.encode("utf-8", "surrogateescape") for name in store.unreachable()] == [b"\xff\xfe"]


@readers
def test_many_odd_names_are_one_warning(path, reader):
    write(path, {"sound": b"1", **{f"x{number:04}": b"2" for number in range(2000)}})
    rename(path, b"x0", b"//")
    rename(path, b"x1", b"//")
    with pytest.warns(UserWarning, match="2000 members whose names can't be keys, so nothing reads them: ") as caught:
        store = reader(path)
    assert len(caught) == 1
    assert len(str(caught[0].message)) < 400
    assert [*store.list()] == ["sound"]


def test_a_new_archive_in_its_place_has_no_odd_names(path):
    write(path, {"x": b"1"})
    rename(path, b"x", b".")
    with ZipStore(path, "w") as store:
        store.set("a", b"2")
    assert [*ZipStore(path).unreachable()] == []


@pytest.mark.filterwarnings("ignore:the archive")
def test_odd_names_are_found_by_a_check(path):
    with tegula.create_group(path) as group:
        group["a"] = [1, 2, 3]
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("../a", "a//b"):
            archive.writestr(name, b"")
    assert tegula.open(path)["a"][:].tolist() == [1, 2, 3]
    report = tegula.check(path)
    assert [(found.kind, found.key, found.severity) for found in report.findings] == [
        ("odd-name", "../a", "warning"), ("odd-name", "a//b", "warning"),
    ]  # fmt: skip
    assert [found.key for found in tegula.check(path, path="a").findings] == ["a//b"]


def lie(path, **fields):
    """Change fields of the only record of the central directory of an archive."""
    places = {"flags": (8, "H"), "method": (10, "H"), "crc": (16, "I"), "packed": (20, "I"), "size": (24, "I")}
    places |= {"offset": (42, "I"), "name_length": (28, "H"), "disk": (34, "H")}
    with open(path, "rb") as file:
        data = bytearray(file.read())
    at = data.rindex(b"PK\1\2")
    for name, value in fields.items():
        place, kind = places[name]
        struct.pack_into("<" + kind, data, at + place, value)
    with open(path, "wb") as file:
        file.write(data)


@pytest.mark.slow
@pytest.mark.sampled(one_in=5)
@readers
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"flags": 1}, "encrypted"),
        ({"method": 97}, "not supported"),
        ({"method": 9}, "not supported"),
        ({"crc": 12345}, "CRC"),
        ({"size": 10}, "two sizes|not 10 bytes"),
        ({"size": 2_000_000}, "two sizes|not 2000000 bytes|damaged"),
        ({"size": 0x7FFFFFF0}, "two sizes|max_input_bytes"),
        ({"packed": 0x7FFFFFF0}, "two sizes|reaches into another one"),
        ({"packed": 0x7FFFFFF0, "size": 0x7FFFFFF0}, "max_input_bytes|reaches into another one"),
        ({"offset": 1}, "no such member"),
        ({"offset": 0x7FFFFFF0}, "or out of the archive"),
        ({"size": 0xFFFFFFFF}, "lacks"),
        ({"name_length": 60_000}, "damaged"),
    ],
)
def test_lies_are_errors(path, method, fields, reason, reader):
    write(path, {"a": b"x" * 5000}, compression=method)
    lie(path, **fields)
    with pytest.raises(StoreError, match=reason) as caught:
        reader(path).get("a")
    assert caught.value.key == "a" or "name_length" in fields


@pytest.mark.slow
@readers
def test_zip_bomb_is_stopped_at_its_declared_size_or_at_the_setting(path, reader):
    write(path, {"a": bytes(50_000_000)}, compression=zipfile.ZIP_DEFLATED)
    with config.configure(max_chunk_bytes=1_000_000), pytest.raises(StoreError, match="max_chunk_bytes"):
        reader(path).get("a")
    lie(path, size=100)
    with pytest.raises(StoreError, match="not 100 bytes"):
        reader(path).get("a")


@readers
def test_budget_counts_the_decompressed_size_of_a_member(path, reader):
    write(path, {"a": bytes(10_000_000), "b": os.urandom(1000) * 3}, compression=zipfile.ZIP_DEFLATED)
    with config.configure(max_input_bytes=2**20):
        with pytest.raises(StoreError, match="max_input_bytes") as caught:
            reader(path).get("a", (0, 5))
        assert len(reader(path).get("b")) == 3000
    assert caught.value.key == "a"
    assert reader(path).get("a", (0, 5)) == bytes(5)


@pytest.mark.posix("sparse files")
@readers
@pytest.mark.parametrize("sparse", [False, True])
def test_a_directory_of_any_length_is_not_read(path, sparse, reader):
    write(path, {f"{number}": b"1" for number in range(1000)})
    if sparse:  # zip64 records of a directory that is mostly a hole of the file
        length = 2**38
        with open(path, "wb") as file:
            file.write(b"PK\1\2")
            file.seek(length)
            file.write(struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1000, 1000, length, 0))
            file.write(struct.pack("<4sIQI", b"PK\6\7", 0, length, 1))
            file.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1000, 1000, 2**32 - 1, 2**32 - 1, 0))
    else:
        assert len([*reader(path).list()]) == 1000
    with config.configure(max_input_bytes=2**15), pytest.raises(StoreError, match="a directory of an archive of"):
        reader(path)


@pytest.mark.parametrize("filling", [b"\0", struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, 46, 0, 0)])
def test_the_end_of_an_archive_is_not_looked_for_forever(path, filling):
    with open(path, "wb") as file:
        file.write(filling * (2**22 // len(filling)))
    with pytest.raises(StoreError, match=r"not a zip archive, or is damaged|max_input_bytes"):
        ZipStore(path)
    with config.configure(max_input_bytes=2**18), pytest.raises(StoreError, match="the end of the archive"):
        ZipStore(path)


def listing(places, names):
    """Return an archive of members that lie at `places`, and the records of its directory for these names."""
    body, ends = b"", {}
    for number in range(4):
        value = bytes([number]) * 40
        head = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, zlib.crc32(value), 40, 40, 1, 0)
        ends[len(body)] = value
        body += head + b"%d" % number + value
    records = b""
    starts = [*ends]
    for name, (place, longer) in zip(names, places):
        crc = zlib.crc32(body[starts[place] + 31 :][: 40 + longer])
        numbers = (crc, 40 + longer, 40 + longer, len(name), 0, 0, 0, 0, 0, starts[place])
        records += struct.pack("<4s6H3I5H2I", b"PK\1\2", 788, 20, 0, 0, 0, 33, *numbers) + name.encode()
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(places), len(places), len(records), len(body), 0)
    return body + records + end, [body[starts[place] + 31 :][: 40 + longer] for place, longer in places]


@readers
@given(places=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1, 71])), min_size=1, max_size=5))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_members_that_overlap_are_damaged(path, places, reader):
    """So that all values together are never longer than the archive, unless they are compressed."""
    names = [f"n{number}" for number in range(len(places))]
    archive, values = listing(places, names)
    with open(path, "wb") as file:
        file.write(archive)
    with reader(path) as store:
        for name, (place, longer), value in zip(names, places, values):
            others = [other for other in places if other[0] == place]
            next_one = min((other for other, _ in places if other > place), default=4)
            if len(others) > 1 or longer > 71 * (next_one - place - 1):
                with pytest.raises(StoreError, match="reaches into another one") as caught:
                    store.get(name)
                assert caught.value.key == name
            else:
                assert store.get(name) == value


@pytest.mark.slow
@readers
def test_a_value_that_has_many_names_is_read_for_none_of_them(path, reader, monkeypatch):
    archive, _ = listing([(1, 0)] * 2000, [f"c{number}" for number in range(2000)])
    with open(path, "wb") as file:
        file.write(archive)
    with reader(path) as store:
        assert len([*store.list()]) == 2000
        monkeypatch.setattr(zlib, "crc32", None)  # which each value that is read goes through
        for key in store.list():
            with pytest.raises(StoreError, match="reaches into another one"):
                store.get(key)


@readers
def test_a_part_of_a_member_larger_than_the_setting_can_be_read(path, reader):
    write(path, {"a": bytes(1000)})
    with config.configure(max_chunk_bytes=100):
        assert reader(path).get("a", (500, 100)) == bytes(100)
        with pytest.raises(StoreError, match="max_chunk_bytes"):
            reader(path).get("a")


@readers
@given(data=st.data())
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_archive_gives_what_was_stored_or_an_error(path, data, reader):
    """Names may be damaged unseen, values never."""
    members = {"a": b"1" * 50, "b/c": bytes(range(200)), "d": b""}
    write(path, members, compression=data.draw(st.sampled_from(METHODS)))
    with open(path, "rb") as file:
        archive = bytearray(file.read())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(archive) - 1))
        if data.draw(st.booleans()):
            archive[at] = data.draw(st.integers(0, 255))
        else:
            del archive[at : at + data.draw(st.integers(0, 20))]
    with open(path, "wb") as file:
        file.write(archive)
    try:
        with reader(path) as store:
            for key in store.list():
                try:
                    value = store.get(key)
                except StoreError:
                    continue
                assert value in members.values()
    except StoreError:
        pass
