"""Damaged and hostile archives: what they hold is found, left out or an error, and costs no more than allowed."""

import os
import struct
import warnings
import zipfile
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stores.zip.archives import METHODS, readers, write

import tegula
from tegula import config
from tegula.errors import StoreError
from tegula.stores import ZipStore

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
