"""Links below and above the root of a local store, and file systems that ignore case."""

import os
import pickle
from pathlib import Path

import pytest
from tests.folders import files

from tegula.errors import StoreError
from tegula.runtime import system
from tegula.stores import LocalStore
from tegula.stores.local import root
from tegula.stores.local.kernel import located


@pytest.fixture
def linked(tmp_path):
    """A store with links that lead everywhere."""
    (tmp_path / "out" / "dir").mkdir(parents=True)
    (tmp_path / "out" / "secret").write_bytes(b"secret")
    (tmp_path / "out" / "dir" / "x").write_bytes(b"secret")
    folder = tmp_path / "root"
    (folder / "real").mkdir(parents=True)
    (folder / "real" / "x").write_bytes(b"inside")
    (folder / "in-file").symlink_to("real/x")
    (folder / "in-dir").symlink_to("real")
    (folder / "out-file").symlink_to(tmp_path / "out" / "secret")
    (folder / "out-dir").symlink_to("../out")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "real" / "up").symlink_to("..")
    return folder


def test_links_are_followed_inside_the_root(linked):
    store = LocalStore(linked)
    assert store.get("in-file") == store.get("in-dir/x") == b"inside"
    assert store.get("in-file", (0, 2)) == b"in"
    assert store.size("in-file") == store.size("in-dir/x") == 6
    assert store.get("in-file", with_generation=True)[1] == store.get("real/x", with_generation=True)[1]
    assert store.get("in-dir") is None
    assert "in-dir/x" in [*store.list()]


def test_a_directory_that_becomes_a_link_is_checked_again(linked):
    store = LocalStore(linked)
    store.set("a/b/c", b"1")
    assert located(store, "a/b") == f"{linked}/a/b/"
    (linked.parent / "out" / "b").mkdir()
    (linked / "a").rename(linked / "gone")
    (linked / "a").symlink_to("../out")
    with pytest.raises(StoreError, match="leads out"):
        located(store, "a/b")


@pytest.mark.parametrize("key", ["out-file", "out-dir/secret", "out-dir/dir/x", "out-dir/new", "real/up/out-dir/x"])
def test_no_link_leads_out_of_the_root(linked, key):
    store = LocalStore(linked)
    for operation in (store.get, store.size):
        with pytest.raises(StoreError, match="leads out") as caught:
            operation(key)
        assert caught.value.key == key
    if key != "out-file":
        with pytest.raises(StoreError, match="leads out"):
            store.set(key, b"1")
        with pytest.raises(StoreError, match="leads out"):
            store.delete(key)
        with pytest.raises(StoreError, match="leads out"):
            store.delete_prefix("out-dir/dir/")
    assert files(linked.parent / "out") == ["dir", "dir/x", "secret"]


def test_links_may_lead_out_when_asked(linked):
    store = LocalStore(linked, follow_symlinks=True)
    assert store.get("out-file") == store.get("out-dir/dir/x") == b"secret"
    store.set("out-dir/new", b"1")
    assert (linked.parent / "out" / "new").read_bytes() == b"1"
    assert "out-dir/dir/x" in [*store.list()]
    assert pickle.loads(pickle.dumps(store)).get("out-file") == b"secret"


@pytest.mark.parametrize("follow_symlinks", [False, True])
def test_links_to_nowhere_are_errors_not_missing_values(linked, follow_symlinks):
    store = LocalStore(linked, follow_symlinks=follow_symlinks)
    for key in ["dangling", "loop", "dangling/x", "loop/x"]:
        for operation in (store.get, store.size):
            with pytest.raises(StoreError, match="leads nowhere") as caught:
                operation(key)
            assert caught.value.key == key
        assert "leads nowhere" in store.blocked_by(key)


@pytest.mark.parametrize("follow_symlinks", [False, True])
@pytest.mark.parametrize("length", [1, 3, 6, 7, 2**20, 2**21])
def test_many_values_are_the_answers_of_single_requests(linked, follow_symlinks, length):
    (linked / "empty").write_bytes(b"")
    (linked / "large").write_bytes(bytes(2**20 + 1))
    os.mkfifo(linked / "pipe")
    Path(linked, ".tegula-x").write_bytes(b"hidden")
    store = LocalStore(linked, follow_symlinks=follow_symlinks)
    store.exists("real/x")  # from here on the store knows whether case matters
    odd = ["in-file", "in-dir/x", "out-file", "out-dir/secret", "out-dir/no", "dangling", "loop/x", "real", "real/x/y"]
    odd += ["no", "no/x", "empty", "large", "pipe", "real/up/real/x", ".tegula-x", "../out/secret", "a\0", ""]
    odd += ["\udc80", 7]

    def outcome(act):
        try:
            return act()
        except StoreError as error:
            return str(error)

    part = 0, length
    for key in odd:
        alone = outcome(lambda key=key: store.get(key, part))
        many = outcome(lambda key=key: store.get_many([("real/x", part), (key, part), ("real/x", part)]))
        assert many == (alone if isinstance(alone, str) else [b"inside"[:length], alone, b"inside"[:length]]), key
    sound = ["real/x", "no", "empty", "large"] * 20
    assert store.get_many([(key, part) for key in sound]) == [store.get(key, part) for key in sound]


def test_listing_goes_round_no_circle_and_shows_links_that_lead_nowhere(linked):
    keys = sorted(LocalStore(linked).list())
    assert keys == ["dangling", "in-dir/x", "in-file", "loop", "out-dir", "out-file", "real/x"]
    found, prefixes = LocalStore(linked).list_dir("")
    assert found == ["dangling", "in-file", "loop", "out-dir", "out-file"]
    assert prefixes == ["in-dir/", "real/"]
    assert len([*LocalStore(linked, follow_symlinks=True).list()]) < 20


@pytest.mark.posix("links")
def test_prefixes_go_round_no_circle(tmp_path):
    for name in ("a", "b/c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "value").write_bytes(b"")
    for link, target in {"one": ".", "two": ".", "a/b": "../b", "b/c/a": "../../a", "b/top": "../"}.items():
        (tmp_path / link).symlink_to(target)
    store, found = LocalStore(tmp_path), []
    pending = [""]
    while pending:
        prefix = pending.pop()
        assert store.list_dir(prefix)[1] == [*store.prefixes_with(prefix, ["value", "c/value", "b/c/value", "a/value"])]
        found += store.list_dir(prefix)[1]
        pending += store.list_dir(prefix)[1]
    assert sorted(found) == ["a/", "a/b/", "a/b/c/", "b/", "b/c/", "b/c/a/"]
    assert sorted(store.list()) == ["a/b/c/value", "a/value", "b/c/a/value", "b/c/value"]


def test_writing_and_deleting_concern_the_link_itself(linked):
    store = LocalStore(linked)
    for key in ["in-file", "out-file", "dangling", "loop"]:
        store.set(key, b"new")
        assert store.get(key) == b"new"
        assert not (linked / key).is_symlink()
    assert store.get("real/x") == b"inside"
    assert (linked.parent / "out" / "secret").read_bytes() == b"secret"
    store.delete_prefix("in-dir/")
    assert not (linked / "in-dir").is_symlink()
    assert store.get("real/x") == b"inside"
    store.delete_prefix("")
    assert files(linked) == []
    assert files(linked.parent / "out") == ["dir", "dir/x", "secret"]


# --- file systems that ignore case, simulated by hard links that no directory shows


@pytest.mark.posix("a file system that heeds case")
def test_keys_that_differ_in_case_only_are_found_out(store, monkeypatch):
    store.set("foo/bar", b"1")
    Path(store.root, "FOO").mkdir()
    for name in ["FOO/bar", "FOO/BAR", "foo/BAR", "foo/Bar"]:
        os.link(Path(store.root, "foo/bar"), Path(store.root, name))
    real = os.stat(Path(store.root, "foo"))
    monkeypatch.setattr(root, "spells", lambda directory, name: name in ("foo", "bar"))
    same = system.same_file
    both = {real.st_ino, os.stat(Path(store.root, "FOO")).st_ino}
    monkeypatch.setattr(root, "same_file", lambda a, b: {a.st_ino, b.st_ino} == both or same(a, b))
    folding = LocalStore(store.root)
    assert folding.get("foo/bar") == b"1"
    for key in ["foo/BAR", "FOO/bar", "foo/Bar", "FOO/BAR"]:
        assert folding.get(key) is None
        assert folding.size(key) is None
        assert "spelling" in folding.blocked_by(key)
        with pytest.raises(StoreError, match="spelling") as caught:
            folding.set(key, b"2")
        assert caught.value.key == key
        folding.delete(key)
    assert folding.get("foo/BAR/x") is None  # below a value under another spelling
    assert folding.get("foo/bar") == b"1"
    folding.set("foo/bar", b"3")
    assert folding.get("foo/bar") == b"3"


@pytest.mark.posix("a file system that heeds case")
def test_case_sensitivity_of_an_unchanged_directory_is_tested_once(store, monkeypatch):
    store.set("foo/bar", b"1")
    assert LocalStore(store.root).ignores_case is None
    assert LocalStore(store.root).get("foo/bar") == b"1"
    again = LocalStore(store.root)
    assert again.ignores_case is False
    os.utime(store.root)  # as any change of the directory does, it changes the time of the last change
    assert LocalStore(store.root).ignores_case is None
    monkeypatch.setattr(root, "_MOST_STATES", 0)
    assert LocalStore(store.root).get("foo/bar") == b"1"
    assert LocalStore(store.root).ignores_case is False
    assert len(root._heeds_case) == 1
