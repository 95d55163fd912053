"""Transactions on key-value stores: what reads return inside and outside, and what a commit stores."""

import asyncio
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

from tegula.tensorstore.context import Context
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.transaction import Transaction

pytestmark = pytest.mark.once(executors="none")

KEYS = st.sampled_from(["a", "b", "c/d"])
GIVEN = st.sampled_from([b"1", b"22", b""])
VALUES = st.one_of(st.none(), GIVEN)
MODES = st.sampled_from([{}, {"atomic": True}, {"repeatable_read": True}])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), KEYS, VALUES),
        st.tuples(st.just("missing"), KEYS, GIVEN),
        st.tuples(st.just("bogus"), KEYS, GIVEN),
        st.tuples(st.just("read"), KEYS),
        st.tuples(st.just("list")),
        st.tuples(st.just("outside"), KEYS, VALUES),
        st.tuples(st.just("look"), KEYS),
    ),
    max_size=8,
)


class Own:
    Context, KvStore, Transaction = Context, KvStore, Transaction


def step_of(store: Any, inside: Any, step: tuple[Any, ...]) -> Any:
    name, *remaining = step
    if name == "outside":
        store.write(*remaining).result()
        return None
    if name == "look":
        return store.read(remaining[0]).result().value
    if name == "read":
        result = inside.read(remaining[0]).result()
        return result.state, result.value
    if name == "list":
        return sorted(inside.list().result())
    condition = {"write": None, "missing": b"\2", "bogus": b"\0" + b"\xee" * 8}[name]
    inside.write(*remaining, if_equal=condition).result()
    return None


def told(package: Any, url: str, mode: dict[str, Any], steps: list[tuple[Any, ...]], at_end: str) -> list[Any]:
    context = package.Context({"file_io_sync": False})
    store = package.KvStore.open(url, context=context).result()
    store.write("a", b"old").result()
    transaction = package.Transaction(**mode)
    inside = store.with_transaction(transaction)
    answers: list[Any] = []

    def tell(action: Any) -> None:
        try:
            answers.append(action())
        except (ValueError, NotImplementedError) as error:
            answers.append(kind_and_code(error))

    for step in steps:
        if step[0] in ("list", "missing") and "repeatable_read" in mode:
            continue
        tell(lambda step=step: step_of(store, inside, step))
    tell(getattr(transaction, at_end))
    answers.append((transaction.open, transaction.aborted, transaction.commit_started))
    tell(transaction.future.result)
    # TensorStore 0.1.86 stores nothing for what is written and then read with repeatable_read
    if not any(isinstance(answer, str) for answer in answers) and "repeatable_read" not in mode:
        tell(lambda: {key: store[key] for key in store.list().result()})
    tell(lambda: inside.write("a", b"").result())
    return answers


@settings(deadline=None, max_examples=250)
@given(MODES, STEPS, st.sampled_from(["commit_sync", "commit_sync", "abort"]))
def test_transactions_in_memory_behave_the_same(
    mode: dict[str, Any], steps: list[tuple[Any, ...]], at_end: str
) -> None:
    check("memory://p/", "memory://p/", mode, steps, at_end)


@settings(deadline=None, max_examples=120)
@given(MODES, STEPS, st.sampled_from(["commit_sync", "commit_sync", "abort"]))
def test_transactions_on_files_behave_the_same(mode: dict[str, Any], steps: list[tuple[Any, ...]], at_end: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        check(f"file://{root}/own/", f"file://{root}/other/", mode, steps, at_end)


def check(url: str, other: str, mode: dict[str, Any], steps: list[tuple[Any, ...]], at_end: str) -> None:
    assert told(Own, url, mode, steps, at_end) == told(tensorstore, other, mode, steps, at_end)


@pytest.fixture(params=["memory://p/", "file://{root}/p/", "file://{root}/p.zip|zip:"])
def store(request: Any, tmp_path: Path) -> KvStore:
    return KvStore.open(request.param.format(root=tmp_path), context=Context({"file_io_sync": False})).result()


def test_a_with_block_commits_or_aborts(store: KvStore) -> None:
    with Transaction() as transaction:
        inside = store.with_transaction(transaction)
        inside["a"], inside["b/c"] = b"1", b"2"
        assert inside.list().result() == [b"a", b"b/c"]
        assert (inside / "b/").list().result() == [b"c"]
        assert store.list().result() == []
    assert store.list().result() == [b"a", b"b/c"]
    assert transaction.commit_started
    transaction = Transaction()
    with pytest.raises(KeyError, match="absent"), transaction:
        store.with_transaction(transaction)["absent"]
    assert transaction.aborted
    assert store["a"] == b"1"
    with pytest.raises(ValueError, match="CANCELLED: Transaction aborted"), Transaction() as transaction:
        transaction.abort()

    async def change() -> None:
        async with Transaction() as transaction:
            store.with_transaction(transaction)["a"] = b"4"
        with pytest.raises(KeyError, match="stop"):
            async with Transaction() as transaction:
                raise KeyError("stop")

    asyncio.run(change())
    assert store["a"] == b"4"


def test_keys_are_places(store: KvStore) -> None:
    """Stores that reach the same key by different paths see the same value."""
    transaction = Transaction()
    inside = store.with_transaction(transaction)
    below = (store / "b/").with_transaction(transaction)
    inside["b/c"] = b"1"
    assert below["c"] == b"1"
    del below["c"]
    below["d"] = b"2"
    assert inside.list().result() == [b"b/d"]
    inside.delete_range(KvStore.KeyRange("b/", "b0")).result()
    assert below.list().result() == []
    below["e"] = b"3"
    transaction.commit_sync()
    assert store.list().result() == [b"b/e"]


def test_changes_are_done_again(store: KvStore) -> None:
    """Changes made by `_perform` are based on the stored values at the time of the commit."""
    store["n"], store["m"] = b"1", b"5"
    transaction = Transaction()
    staged = transaction._staged(store._store)

    def add(key: str, number: int) -> None:
        path = store._path + key
        value, generation = staged.get(path, with_generation=True)
        staged.set(path, str(int(value or b"0") + number).encode(), if_generation=generation)

    transaction._perform(add, "n", 1)
    transaction._perform(add, "n", 1)
    transaction._perform(add, "m", 1)
    store.with_transaction(transaction)["other"] = b"x"
    assert store.with_transaction(transaction)["n"] == b"3"
    store["n"] = b"100"
    transaction.commit_sync()
    assert {key: store[key] for key in store.list().result()} == {b"n": b"102", b"m": b"6", b"other": b"x"}


def test_repeatable_read_refuses(store: KvStore) -> None:
    store["n"], store["m"] = b"1", b"1"
    transaction = Transaction(repeatable_read=True)
    inside = store.with_transaction(transaction)
    assert inside["n"] == b"1"
    inside["m"] = b"2"
    store["n"] = b"2"
    with pytest.raises(ValueError, match=r'ABORTED: .*n" has changed'):
        transaction.commit_sync()
    assert store["m"] == b"1"


def test_several_stores(tmp_path: Path) -> None:
    urls = ["memory://", "memory://", f"file://{tmp_path}/a/", f"file://{tmp_path}/b/"]
    stores = [KvStore.open(url).result() for url in urls]
    with Transaction() as transaction:
        for store in stores:
            store.with_transaction(transaction)["k"] = b"1"
    assert [store["k"] for store in stores] == [b"1"] * 4
    transaction = Transaction(atomic=True)
    for store in stores[:3]:
        store.with_transaction(transaction)["k"] = b"2"
    with pytest.raises(ValueError, match=r"local file .* change in one step") as caught:
        stores[3].with_transaction(transaction)["k"] = b"2"
    assert transaction.aborted
    assert transaction.atomic
    with pytest.raises(ValueError, match="Transaction not open"):
        stores[0].with_transaction(transaction).read("k").result()
    assert transaction.future.exception() is caught.value
    assert [store["k"] for store in stores] == [b"1"] * 4


def test_failure_to_store(tmp_path: Path) -> None:
    store = KvStore.open(f"file://{tmp_path}/").result()
    store["f"] = b"1"
    transaction = Transaction()
    store.with_transaction(transaction)["f/x"] = b"2"
    with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
        transaction.commit_sync()
    assert transaction.commit_started


def test_wrong_uses_are_refused(store: KvStore) -> None:
    transaction = Transaction()
    inside = store.with_transaction(transaction)
    assert inside.transaction is transaction
    assert (inside / "a").transaction is transaction
    assert inside.copy().transaction is transaction
    for thing in (transaction, inside):
        with pytest.raises((TypeError, ValueError), match=r"cannot pickle|Cannot serialize"):
            pickle.dumps(thing)
    five: Any = 5
    with pytest.raises(TypeError):
        store.with_transaction(five)
    for options in ({"transaction": five}, {"context": five}):
        with pytest.raises(TypeError):
            KvStore.open("memory://", **options)
    with pytest.raises(TypeError):
        KvStore()
    inside.transaction = None
    inside["a"] = b"1"
    assert store["a"] == b"1"
    assert not transaction.repeatable_read
