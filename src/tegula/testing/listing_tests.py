"""Conformance tests of listings and prefixes: keys come and go, and everything below a prefix is deleted at once."""

from __future__ import annotations

from functools import partial

from tegula.errors import StoreError
from tegula.testing.suite import BAD_PREFIXES, Suite, raises, run_together

__all__ = ["ListingTests"]


class ListingTests(Suite):
    """Tests of listings and prefixes."""

    def test_bad_prefixes_are_refused(self) -> None:
        with self.store() as store:
            store.set("a/b", b"1")
            for prefix in BAD_PREFIXES:
                with raises(StoreError):
                    [*store.list_prefix(prefix)]
                with raises(StoreError):
                    store.list_dir(prefix)
                with raises(StoreError):
                    store.delete_prefix(prefix)
            assert store.get("a/b") == b"1"

    def test_listings(self) -> None:
        keys = ["a", "ab/x", "b/c", "b/d/e", "b/d/f", "b.c", "zarr.json", "b/c.d/e"]
        with self.store() as store:
            assert [*store.list()] == []
            assert store.list_dir("") == ([], [])
            for key in keys:
                store.set(key, b"1")
            assert sorted(store.list()) == sorted(keys)
            assert sorted(store.list_prefix("")) == sorted(keys)
            assert sorted(store.list_prefix("b/")) == ["b/c", "b/c.d/e", "b/d/e", "b/d/f"]
            assert sorted(store.list_prefix("b/d/")) == ["b/d/e", "b/d/f"]
            assert [*store.list_prefix("a/")] == []
            assert [*store.list_prefix("no/such/")] == []
            assert store.list_dir("") == (["a", "b.c", "zarr.json"], ["ab/", "b/"])
            assert store.list_dir("b/") == (["b/c"], ["b/c.d/", "b/d/"])
            assert store.list_dir("b/d/") == (["b/d/e", "b/d/f"], [])
            assert store.list_dir("no/") == ([], [])
            assert store.list_dir("a/") == ([], [])

    def test_a_listing_may_be_interleaved_with_changes(self) -> None:
        with self.store() as store:
            keys = {f"c/{i}/{j}" for i in range(5) for j in range(5)}
            for key in keys:
                store.set(key, b"1")
            for key in store.list_prefix("c/"):
                assert key in keys
                store.delete(key)
                store.set("d/" + key, b"2")
            assert [*store.list_prefix("c/")] == []
            assert len([*store.list_prefix("d/")]) == 25

    def test_deleting_a_key(self) -> None:
        with self.store() as store:
            for key in ["a/b/c", "a/b/d", "ab"]:
                store.set(key, b"1")
            store.delete("a/b/c")
            store.delete("a/b/c")
            assert store.get("a/b/c") is None
            assert sorted(store.list()) == ["a/b/d", "ab"]
            store.delete("a/b/d")
            assert store.list_dir("") == (["ab"], [])
            store.set("a/b/c", b"2")
            assert store.get("a/b/c") == b"2"

    def test_deleting_a_prefix_is_no_way_to_delete_a_key(self) -> None:
        with self.store() as store:
            store.set("a/b/c", b"1")
            store.delete("a/b")
            store.delete("a")
            assert store.get("a/b/c") == b"1"

    def test_deleting_below_a_prefix(self) -> None:
        with self.store() as store:
            for key in ["a/b/c", "a/b/d/e", "a/bb", "ab/x", "abc"]:
                store.set(key, b"1")
            store.delete_prefix("a/b/")
            assert sorted(store.list()) == ["a/bb", "ab/x", "abc"]
            store.delete_prefix("a/bb/")
            store.delete_prefix("no/such/")
            assert sorted(store.list()) == ["a/bb", "ab/x", "abc"]
            store.delete_prefix("")
            assert [*store.list()] == []
            store.set("a/b/c", b"2")
            assert [*store.list()] == ["a/b/c"]

    def test_keys_come_and_go_beside_each_other(self) -> None:
        """A directory that becomes empty, for example, must not vanish while a writer uses it."""
        with self.store() as store:

            def come_and_go(name: str) -> None:
                for turn in range(30):
                    store.set(f"a/b/{name}", b"%d" % turn)
                    assert store.get(f"a/b/{name}") == b"%d" % turn
                    store.delete(f"a/b/{name}")

            run_together([partial(come_and_go, name) for name in "xyz"])
            assert [*store.list()] == []
