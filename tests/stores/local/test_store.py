"""The local store: what the text about file system stores requires, and what it leaves open."""

import errno
import os
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.folders import files
from tests.waiting import run_threads

import tegula
import tegula.tensorstore
from tegula import config, create_array
from tegula.errors import ConflictError, ReadOnlyError, StoreError
from tegula.runtime import executors, system
from tegula.stores import ABSENT, LocalStore, MappingStore
from tegula.stores.local import beside, directories, open_files, root
from tegula.stores.local.directories import make_directories
from tegula.stores.names import name_flaw
from tegula.testing import check_store

# --- keys and paths


def test_a_key_is_the_relative_path_of_a_file(store):
    store.set("a/b/c.d", b"1")
    assert Path(store.root, "a", "b", "c.d").read_bytes() == b"1"
    Path(store.root, "a", "x").write_bytes(b"2")
    assert store.get("a/x") == b"2"
    assert sorted(store.list()) == ["a/b/c.d", "a/x"]


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "../x", "a\0", "/etc/x", "\udc80", 7])
def test_no_key_leaves_the_root_or_names_two_files(store, key):
    Path(store.root).parent.joinpath("x").write_bytes(b"secret")
    for operation in (store.get, store.size, store.delete, lambda key: store.set(key, b"")):
        with pytest.raises(StoreError):
            operation(key)
    assert not os.path.exists(store.root)


@pytest.mark.skipif(sys.platform == "win32", reason="there they are refused")
@pytest.mark.parametrize("key", ["C:\\a", "C:/a", "\\\\host\\share", "a\\b", "a\\..\\..\\b", "CON", "a:b", "a.", "a "])
def test_on_posix_names_that_windows_refuses_are_names_like_any_other(store, key):
    store.set(key, b"1")
    assert store.get(key) == b"1"
    assert [*store.list()] == [key]
    assert Path(store.root, key).is_file()


@pytest.mark.parametrize(
    "key",
    [
        *["C:\\a", "C:/a", "\\\\host\\share", "a\\b", "a/..\\b", "CON", "x/nul", "aux.txt", "com1", "LPT9.x", "com²"],
        *["a.", "a ", "a /b", "...", "a:b", "a?", "a*", 'a"', "a<b", "a|b", "\x01"],
    ],
)
def test_windows_names_are_refused(key):
    assert name_flaw(key, "win32") is not None
    assert name_flaw(key, "linux") is None


def test_windows_limits_names_and_most_often_paths(store, monkeypatch):
    assert name_flaw("d/" + "é" * 255, "win32") is None
    assert name_flaw("d/" + "n" * 254 + "𝄞", "win32") == (
        "the name 'nnnnnnnnnnnnnnnnnnnn…' is too long: it has 256 characters, and Windows allows 255"
    )
    monkeypatch.setattr(root, "_WINDOWS", True)
    monkeypatch.setattr(root, "is_plain", lambda key: None)
    monkeypatch.setattr(system, "LONGEST_PATH", len(store.root) + 60)
    room = 60 - len("//.tegula-4294967295-0123456789abcdef.tmp")
    store.set("d" * room + "/x", b"1")
    for key in ["d" * (room + 1) + "/x", "x" * 61]:
        for operation in (store.get, store.size, store.delete, lambda key: store.set(key, b"")):
            with pytest.raises(StoreError, match=r"the path is too long: it has [0-9]+ characters.* LongPathsEnabled"):
                operation(key)


@pytest.mark.parametrize("key", ["a", "c/0/1", ".zarray", "zarr.json", "console", "comma1", "nul_", "a b", "com10"])
def test_ordinary_names_are_good_on_windows_too(key):
    assert name_flaw(key, "win32") is None


def test_windows_checks_are_in_force_there(store, monkeypatch):
    monkeypatch.setattr(root, "_WINDOWS", True)
    monkeypatch.setattr(root, "is_plain", lambda key: None)  # no key is
    monkeypatch.setattr(root, "name_flaw", lambda key: name_flaw(key, "win32"))
    store.set("a", b"1")
    assert store.get("a") == b"1"
    for key in ["a\\b", "C:/a", "nul"]:
        with pytest.raises(StoreError, match="Windows"):
            store.set(key, b"1")
        with pytest.raises(StoreError, match="Windows"):
            store.get(key)
    with pytest.raises(StoreError, match="Windows"):
        store.list_dir("nul/")


@pytest.mark.posix("limits in bytes")
def test_too_long_names_and_paths_are_errors_that_name_the_key(store):
    longest = "n" * 255
    store.set(longest, b"1")
    assert store.get(longest) == b"1"
    for key in ["n" * 256, "d" * 300 + "/x", "/".join(["d" * 200] * 25), "a/" * 5000 + "a"]:
        with pytest.raises(StoreError, match="too long") as caught:
            store.set(key, b"")
        assert caught.value.key == key
    for operation in (store.get, store.size, store.delete):
        with pytest.raises(StoreError, match="too long") as caught:
            operation("n" * 256)
        assert caught.value.key == "n" * 256
    assert files(store.root) == [longest]


def test_the_path_of_a_root_is_found_in_urls_references_and_kvstores(store):
    store.set("a/b", b"1")  # on Windows the path begins with a drive
    again = LocalStore.from_url(store.url)
    assert (again.root, again.get("a/b")) == (store.root, b"1")
    assert LocalStore.path_of_url(store.values_url.rstrip("/")) == store.root
    spec = {"driver": "file", "path": store.root.replace(os.sep, "/") + "/a/"}
    assert tegula.tensorstore.KvStore.open(spec).result().read("b").result().value == b"1"


@pytest.mark.posix("names with any character")
def test_urls_round_trip(tmp_path):
    for name in ["my data", "ä%20#?&", "plain"]:
        store = LocalStore(tmp_path / name)
        assert " " not in store.url
        assert LocalStore.from_url(store.url).root == store.root
    assert LocalStore.from_url("file:///my%20data").root == "/my data"
    assert LocalStore.from_url("file://localhost/a", read_only=True).read_only
    for url in ["http://x/y", "file://host/a", "/plain/path", "file:relative", "file:///a?b", "file:///a%00b"]:
        with pytest.raises(StoreError):
            LocalStore.from_url(url)


# --- the root


def test_opening_and_reading_create_nothing(tmp_path):
    store = LocalStore(tmp_path / "no" / "such")
    assert store.get("a/b") is None
    assert store.size("a") is None
    assert store.list_dir("") == ([], [])
    assert [*store.list()] == []
    store.delete("a")
    store.delete_prefix("")
    with pytest.raises(ConflictError):
        store.delete("a", if_generation=(1, 2, 3))
    assert files(tmp_path) == []
    store.set("a", b"1")
    assert files(tmp_path) == ["no", "no/such", "no/such/a"]


def test_a_root_that_vanishes_is_made_again(store):
    store.set("a/b", b"1")
    for path in [Path(store.root, "a", "b"), Path(store.root, "a"), Path(store.root)]:
        path.unlink() if path.is_file() else path.rmdir()
    assert store.get("a/b") is None
    store.set("a/b", b"2")
    assert store.get("a/b") == b"2"


@pytest.mark.posix("links")
def test_a_root_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    for name in ["file", "dangling", "loop", "file/below", "nul\0"]:
        with pytest.raises(StoreError):
            LocalStore(f"{tmp_path}/{name}")
    for odd in ["", 7, None]:
        with pytest.raises(StoreError, match="not a path"):
            LocalStore(odd)
    with pytest.raises(StoreError, match="durability"):
        LocalStore(tmp_path, durability="perhaps")


@pytest.mark.posix("links")
def test_a_root_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = LocalStore(tmp_path / "link")
    store.set("a/b", b"1")
    assert (tmp_path / "real" / "a" / "b").read_bytes() == b"1"
    assert store.get("a/b") == b"1"
    store.delete_prefix("")
    assert (tmp_path / "link").is_symlink()
    assert files(tmp_path / "real") == []


def test_a_relative_root_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = LocalStore("here")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.set("a", b"1")
    assert (tmp_path / "here" / "a").exists()


# --- keys and directories


def test_a_key_below_a_value_is_refused_whole(store):
    store.set("a", b"1")
    with pytest.raises(StoreError) as caught:
        store.set("a/b/c", b"2")
    assert caught.value.key == "a/b/c"
    assert files(store.root) == ["a"]
    assert store.get("a") == b"1"
    for operation in (store.get, store.size, store.delete):
        with pytest.raises(StoreError, match="ot a directory"):
            operation("a/b")
    assert store.list_dir("a/") == ([], [])
    assert [*store.list_prefix("a/")] == []
    store.delete_prefix("a/")
    assert store.get("a") == b"1"


def test_a_value_never_replaces_a_directory(store):
    store.set("a/b/c", b"1")
    for options in [{}, {"if_generation": ABSENT}]:
        with pytest.raises(StoreError) as caught:
            store.set("a/b", b"2", **options)
        assert caught.value.key == "a/b"
    assert files(store.root) == ["a", "a/b", "a/b/c"]
    assert store.get("a/b/c") == b"1"


def test_a_directory_is_no_value_and_says_so(store):
    store.set("a/b", b"1")
    assert store.get("a") is None
    assert store.get("a", with_generation=True) == (None, ABSENT)
    assert store.size("a") is None
    assert "is a directory" in store.blocked_by("a")
    assert store.blocked_by("a/b") is None
    assert store.blocked_by("c") is None
    assert store.blocked_by("c/d") is None
    store.delete("a")
    assert store.get("a/b") == b"1"


@pytest.mark.parametrize("options", [{}, {"if_generation": ABSENT}])
def test_a_value_replaces_directories_without_files(store, options):
    # a deletion that was killed leaves them
    os.makedirs(os.path.join(store.root, "a/b/c/d"))
    os.makedirs(os.path.join(store.root, "a/b/e"))
    assert store.get("a/b") is None
    store.set("a/b", b"1", **options)
    assert store.get("a/b") == b"1"
    assert files(store.root) == ["a", "a/b"]


@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "n5"])
def test_chunks_replace_directories_without_files(format, executor, tmp_path):
    with config.configure(executor=executor):
        array = tegula.create_array(tmp_path, shape=4, chunks=2, dtype="i4", format=format)
        key = array.stored.key((1,))
        (tmp_path / key / "0/1").mkdir(parents=True)
        with pytest.raises(StoreError, match="is a directory"):
            array[...]
        array[...] = [1, 2, 3, 0]
        assert array[...].tolist() == [1, 2, 3, 0]
        assert (tmp_path / key).is_file()


def test_a_change_of_a_value_that_is_gone_makes_no_directory(store):
    generation = store.set("a/b/c", b"1")
    shutil.rmtree(store.root)
    with pytest.raises(ConflictError, match="deleted"):
        store.set("a/b/c", b"2", if_generation=generation)
    assert not os.path.exists(store.root)


def test_empty_directories_are_removed_and_never_shown(store):
    store.set("a/b/c/d", b"1")
    store.set("a/x", b"1")
    store.delete("a/b/c/d")
    assert files(store.root) == ["a", "a/x"]
    store.delete("a/x")
    assert os.path.isdir(store.root)
    assert files(store.root) == []
    Path(store.root, "e", "f").mkdir(parents=True)
    assert store.list_dir("") == ([], [])
    assert [*store.list()] == []
    store.set("e/g", b"1")
    assert store.list_dir("") == ([], ["e/"])
    assert store.list_dir("e/") == (["e/g"], [])


def test_a_refused_write_leaves_no_directories(store):
    with pytest.raises(ConflictError) as caught:
        store.set("a/b/c", b"1", if_generation=(1, 2, 3))
    assert caught.value.key == "a/b/c"
    assert files(store.root) == []


def test_deleting_everything_keeps_to_the_root(tmp_path):
    (tmp_path / "sibling").write_bytes(b"1")
    store = LocalStore(tmp_path / "root")
    for key in ["a", "b/c", "b/d/e"]:
        store.set(key, b"1")
    store.delete_prefix("b/d/")
    assert files(store.root) == ["a", "b", "b/c"]
    store.delete_prefix("")
    assert files(tmp_path) == ["root", "sibling"]


# --- other files


def test_foreign_files_are_keys_like_any_other(store):
    store.set("a/b", b"1")
    for name in [".DS_Store", "a/.nfs0000000001", "a/b.partial", "Thumbs.db"]:
        Path(store.root, name).write_bytes(b"?")
    assert sorted(store.list()) == [".DS_Store", "Thumbs.db", "a/.nfs0000000001", "a/b", "a/b.partial"]
    assert store.list_dir("a/") == (["a/.nfs0000000001", "a/b", "a/b.partial"], [])
    store.delete_prefix("")
    assert files(store.root) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such names")
def test_names_that_are_no_text_are_left_out(store):
    store.set("a", b"1")
    with open(os.fsencode(store.root) + b"/\xff\xfe", "wb"):
        pass
    assert [*store.list()] == ["a"]
    assert store.list_dir("") == (["a"], [])


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such names")
@pytest.mark.parametrize("executor", ["auto", "reference"])
def test_the_path_of_the_root_may_be_no_text(executor, tmp_path):
    with config.configure(executor=executor):
        array = create_array(LocalStore(os.fsdecode(bytes(tmp_path / "ä") + b"\xff")), shape=4, chunks=2, dtype="u1")
        array[1:] = 1
        array.append([2])
        assert array[...].tolist() == [0, 1, 1, 1, 2]


def test_the_stores_own_names_are_hidden_and_refused(store):
    store.set("a/b", b"1")
    for name in [".tegula-1-ab.tmp", "a/.tegula-lock"]:
        Path(store.root, name).write_bytes(b"?")
        for operation in (store.get, store.size, store.delete, store.blocked_by, lambda key: store.set(key, b"")):
            with pytest.raises(StoreError, match="own"):
                operation(name)
    assert [*store.list()] == ["a/b"]
    assert store.list_dir("") == ([], ["a/"])
    assert store.list_dir("a/") == (["a/b"], [])


def test_temporary_files_of_dead_writers_are_reclaimed(store):
    Path(store.root, "a").mkdir(parents=True)
    Path(store.root, ".tegula-1-ab.tmp").write_bytes(b"?")
    Path(store.root, "a", ".tegula-2-cd.tmp").write_bytes(b"?")
    alive = Path(store.root, "a", ".tegula-3-ef.tmp")
    with alive.open("wb") as file:
        directories.acquire(file.fileno(), str(alive))
        assert [*store.list()] == []
        store.set("a/b", b"1")
        assert files(store.root) == [".tegula-1-ab.tmp", "a", "a/.tegula-3-ef.tmp", "a/b"]
        store.set("b", b"1")
        assert files(store.root) == ["a", "a/.tegula-3-ef.tmp", "a/b", "b"]


@pytest.mark.posix("named pipes")
def test_what_is_no_file_is_an_error(store):
    Path(store.root).mkdir()
    os.mkfifo(os.path.join(store.root, "pipe"))
    for operation in (store.get, store.size):
        with pytest.raises(StoreError, match="not a regular file"):
            operation("pipe")
    assert [*store.list()] == []


@pytest.mark.posix("sparse files")
def test_a_huge_sparse_file_is_an_error_or_read_in_part(store):
    Path(store.root).mkdir()
    with open(os.path.join(store.root, "huge"), "wb") as file:
        file.truncate(1 << 43)
    assert store.get("huge", (-5, 3)) == b"\0\0\0"
    with pytest.raises(StoreError, match="huge"):
        store.get("huge")


# --- odd systems: the whole suite once more


@pytest.mark.slow
@pytest.mark.usefixtures("by_reference")
def test_without_locks_on_directories_a_hidden_lock_file_serves(tmp_path, monkeypatch):
    lock = system.try_lock

    def refuse_directories(fd):
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EBADF, "as NFS does")
        return lock(fd)

    monkeypatch.setattr(system, "try_lock", refuse_directories)
    count = iter(range(1000))
    check_store(lambda: LocalStore(tmp_path / str(next(count))))
    store = LocalStore(tmp_path / "last")
    store.set("a/b/c", b"1")
    assert files(store.root) == ["a", "a/b", "a/b/c"]
    store.delete("a/b/c")
    assert files(store.root) == []


@pytest.mark.slow
@pytest.mark.usefixtures("by_reference")
def test_without_paths_relative_to_directories(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "HAS_DIRECTORY_FDS", False)
    monkeypatch.setattr(system, "TIMES_BY_FD", False)
    count = iter(range(1000))
    check_store(lambda: LocalStore(tmp_path / str(next(count))))


@pytest.mark.usefixtures("by_reference")
def test_without_any_locks_only_conditional_writes_are_refused(store, monkeypatch):
    def refuse(fd):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(system, "try_lock", refuse)
    store.set("a/b", b"1")
    assert store.get("a/b") == b"1"
    with pytest.raises(StoreError, match="no locks"):
        store.set("a/b", b"2", if_generation=ABSENT)
    with pytest.raises(StoreError, match="no locks"):
        store.delete("a/b", if_generation=ABSENT)
    store.delete("a/b")
    assert [*store.list()] == []


# --- size


@pytest.mark.slow
def test_listing_many_keys_takes_little_memory(store):
    Path(store.root, "c").mkdir(parents=True)
    for number in range(20_000):
        os.close(os.open(f"{store.root}/c/{number}", os.O_CREAT))
    tracemalloc.start()
    count = sum(1 for _ in store.list())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 200_000
    store.delete_prefix("c/")
    assert files(store.root) == []


@pytest.mark.slow
def test_a_deep_tree_needs_no_deep_stack(store):
    key = "/".join("d" * 1100)
    store.set(key, b"1")
    assert store.get(key) == b"1"
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limit[0] < 1200 or [*store.list()] == [key]
    store.delete_prefix("d/d/")
    assert files(store.root) == []


def test_a_listing_that_is_given_up_leaves_no_open_directories(store):
    for key in ["a/b/c", "a/b/d", "a/e"]:
        store.set(key, b"1")
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    listing = store.list()
    next(listing)
    listing.close()
    assert not before or len(os.listdir("/proc/self/fd")) == before


def test_the_lock_of_a_key_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("a/b", b"0")
    inside = 0
    most = 0

    def count() -> None:
        nonlocal inside, most
        for _ in range(25):
            with LocalStore(tmp_path).lock("a/b") as held:
                assert held
                inside += 1
                most = max(most, inside)
                value = int(store.get("a/b") or b"")
                time.sleep(0.0002)
                inside -= 1
                store.set("a/b", b"%d" % (value + 1))  # a writer that waits locks the new file

    threads = [threading.Thread(target=count) for _ in range(4)]
    run_threads(threads)
    assert store.get("a/b") == b"100"
    assert most == 1


def test_a_missing_file_can_not_be_locked(tmp_path: Path) -> None:
    with LocalStore(tmp_path).lock("a") as first, LocalStore(tmp_path).lock("a") as second:
        assert not first
        assert not second
    for store in (LocalStore(tmp_path), MappingStore({})):
        with pytest.raises(StoreError), store.lock("../a"):
            pass


def test_an_empty_directory_can_be_made_and_is_no_key(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "x")
    assert not store.has_prefix("a/data/")
    store.make_prefix("a/data/")
    assert store.has_prefix("a/data/")
    assert store.has_prefix("a/")
    assert store.has_prefix("")
    assert (tmp_path / "x" / "a" / "data").is_dir()
    assert [*store.list()] == []
    assert store.list_dir("a/") == ([], [])
    store.make_prefix("a/data/")
    store.make_prefix("")
    for prefix in ("a", "../", "/"):
        with pytest.raises(StoreError):
            store.make_prefix(prefix)
    with pytest.raises(ReadOnlyError):
        LocalStore(tmp_path, read_only=True).make_prefix("b/")


LOADED = """
import sys, threading
from tegula.stores import LocalStore
store = LocalStore(sys.argv[1])
thread = threading.Thread(target=store.set, args=("a", b"1"))
thread.start()
thread.join()
print("tegula._kernel" in sys.modules)
store.set("a", b"2")
print("tegula._kernel" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.skipif(executors.kernel() is None, reason="the kernel was not built")
def test_first_write_of_main_thread_loads_the_kernel_and_others_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TEGULA_EXECUTOR": "auto"}
    command = [sys.executable, "-c", LOADED, str(tmp_path)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.posix("limits in bytes")
@pytest.mark.parametrize("name", ["n" * 256, "é" * 128])
def test_a_name_that_is_too_long_is_named_with_its_length(tmp_path, name):
    store = LocalStore(tmp_path)
    group = tegula.create_group(tmp_path / "g")
    actions = [
        lambda: store.get(name),
        lambda: store.set(f"a/{name}/b", b""),
        lambda: store.size(name),
        lambda: store.exists(name),
        lambda: store.delete(name),
        lambda: [*store.list_prefix(f"{name}/")],
        lambda: store.delete_prefix(f"{name}/"),
        lambda: LocalStore(tmp_path / name),
        lambda: tegula.ZipStore(tmp_path / f"{name}.zip", mode="w"),
        lambda: tegula.open(tmp_path / name),
        lambda: tegula.open(tmp_path / f"{name}.zip"),
        lambda: tegula.create_array(tmp_path / "a" / name, shape=3, dtype="u1"),
        lambda: tegula.create_table(tmp_path / "t", {name: [1]}),
        lambda: group.create_array(f"b/{name}", shape=3, dtype="u1"),
        lambda: group.create_group(name),
        lambda: group.__setitem__(name, [1]),
        lambda: group[name],
    ]
    for action in actions:
        with pytest.raises(StoreError, match=rf"the name '{name[:20]}…' is too long: it has 2(56|60) bytes"):
            action()
    assert name not in group
    with pytest.raises(StoreError, match=r"the path is too long: it has [0-9]{4} bytes, its longest name 200"):
        store.set("/".join(["x" * 200] * 30), b"")


@pytest.mark.posix("reading by position")
def test_large_values_are_read_in_parts_that_every_system_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def pread(fd: int, length: int, position: int) -> bytes:
        asked.append(length)
        return os.pread(fd, length, position)

    monkeypatch.setattr(system, "pread", pread)
    monkeypatch.setattr(system, "MOST_AT_ONCE", 3)
    (tmp_path / "x").write_bytes(b"abcdefgh")
    with open(tmp_path / "x", "rb") as file:
        assert open_files.read_at(file.fileno(), 1, 8) == b"bcdefgh"
    assert asked == [3, 3, 1]


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EINVAL])
def test_a_file_is_synced_where_macos_can_not_flush_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    synced: list[int] = []

    def refuse(*_: object) -> None:
        raise OSError(number, "not here")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "fcntl", SimpleNamespace(fcntl=refuse, F_FULLFSYNC=51))
    monkeypatch.setattr(os, "fsync", synced.append)
    system.sync_file(7)
    assert synced == [7]


def test_an_anchor_is_found_below_a_path_with_other_separators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "altsep", "|")
    anchor = f"{tmp_path}|a|zarr.json"
    with pytest.raises(FileNotFoundError):
        directories.make_directories(str(tmp_path / "a" / "c"), sync=False, anchor=anchor)
    (tmp_path / "a").mkdir()
    assert directories.make_directories(str(tmp_path / "a" / "c"), sync=False, anchor=anchor)


def test_a_store_beside_what_another_process_deletes_takes_its_place(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "x")
    store.set("a/old", b"1")
    store.set("b", b"2")
    store.delete_prefix("a/")
    with store.beside("a/") as made:
        assert made.in_one_step
        made.store.set("new", b"3")
        assert made.exchange()
    assert sorted(store.list_prefix("")) == ["a/new", "b"]


def test_an_empty_directory_that_others_remove_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def make(path: str, **options: Any) -> None:
        make_directories(path, **options)
        calls.append(path)
        if len(calls) < 4:
            os.rmdir(path)

    monkeypatch.setattr(beside, "_is_movable", lambda *_, **__: False)
    monkeypatch.setattr(beside, "make_directories", make)
    with LocalStore(tmp_path).beside("a/") as made:
        made.store.set("new", b"1")
        assert os.listdir(tmp_path / "a")
    assert calls == [str(tmp_path / "a")] * 4
    assert os.listdir(tmp_path / "a") == []
