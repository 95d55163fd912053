"""Contexts give the same answers as those of TensorStore, and what is shared stays shared."""

import pickle
import re
from typing import Any

import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

from tegula.tensorstore.context import Context
from tegula.tensorstore.kvstore.kvstore import KvStore

pytestmark = pytest.mark.once(executors="none")


def optional(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


DESCRIPTIONS = {
    "cache_pool": st.fixed_dictionaries(
        {}, optional={"total_bytes_limit": st.sampled_from([0, 5, 5.0, -1, "a", 2**63])}
    ),
    "data_copy_concurrency": st.fixed_dictionaries(
        {}, optional={"limit": st.sampled_from([1, "shared", 0, "x", True])}
    ),
    "file_io_sync": st.sampled_from([True, False, 1, {}]),
    "file_io_locking": optional(
        mode=st.sampled_from(["os", "none", "x"]), acquire_timeout=st.sampled_from(["60s", "90s", 5])
    ),
    "file_io_retries": st.fixed_dictionaries(
        {},
        optional={
            "max_retries": st.sampled_from([0, 3, -1]),
            "initial_delay": st.sampled_from(["1s", "0.5s", "1h1m", "100ns", "-3s", "x", "1.25us", "3661.125s"]),
        },
    ),
    "memory_key_value_store": st.fixed_dictionaries({}, optional={"x": st.just(1)}),
}


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for kind in draw(st.lists(st.sampled_from(sorted(DESCRIPTIONS)), max_size=3)):
        ids = [kind, f"{kind}#a", f"{kind}#b"]
        value = st.one_of(DESCRIPTIONS[kind], st.sampled_from([None, *ids, "foo", 5]))
        result[draw(st.sampled_from(ids))] = draw(value)
    return result


def answers(kind: Any, json: dict[str, Any], parent: dict[str, Any]) -> list[Any]:
    told: list[Any] = []
    try:
        above = kind(parent)
        context = kind(json, above)
        told += [repr(context.spec), context.spec.to_json(), context.spec.to_json(include_defaults=True)]
    except ValueError as error:
        return [kind_and_code(error)]
    for name in sorted({*json, *parent, "file_io_mode"}):
        try:
            result = context[name]
            told += [repr(result), result.to_json(), result.to_json(include_defaults=True)]
            told += [[other for other in sorted({*json, *parent}) if same(context, other, result)]]
        except ValueError as error:
            told.append(kind_and_code(error))
    return told


def same(context: Any, name: str, result: Any) -> bool:
    try:
        return context[name] is result
    except ValueError:
        return False


@settings(deadline=None, max_examples=400)
@given(entries(), entries())
def test_resources_are_found_the_same(json: dict[str, Any], parent: dict[str, Any]) -> None:
    assert answers(Context, json, parent) == answers(tensorstore.Context, json, parent)


@pytest.mark.parametrize("json", [5, None, {"a": {}}, {"#a": {}}, {"cache_pool": []}, {"cache_pool": {"x": 1}}])
def test_contexts_are_refused_the_same(json: Any) -> None:
    with pytest.raises(ValueError) as wanted:
        tensorstore.Context(json)
    with pytest.raises(ValueError) as raised:
        Context(json)
    assert kind_and_code(raised.value) == kind_and_code(wanted.value)


def test_cycles_are_refused_the_same() -> None:
    json = {f"cache_pool#{a}": f"cache_pool#{b}" for a, b in ("ab", "bc", "cb", "dd")}
    for name in json:
        with pytest.raises(ValueError) as wanted:
            tensorstore.Context(json)[name]
        with pytest.raises(ValueError) as raised:
            Context(json)[name]
        assert set(re.findall(r"cache_pool#\w", str(wanted.value))) <= set(str(raised.value).split())


def test_pickled_contexts_share() -> None:
    parent = Context({"cache_pool": {"total_bytes_limit": 5}, "memory_key_value_store#b": {}})
    child = Context({"data_copy_concurrency": {"limit": 3}}, parent=parent)
    spec = {"driver": "memory", "memory_key_value_store": "memory_key_value_store#b"}
    store = KvStore.open(spec, context=child).result()
    store["a"] = b"1"
    again, above, other, resource = pickle.loads(pickle.dumps((child, parent, store, parent["cache_pool"])))
    assert again.parent is above
    assert again["cache_pool"] is above["cache_pool"] is resource
    assert repr(again.spec) == repr(child.spec)
    assert other.list().result() == []
    other["b"] = b"2"
    assert KvStore.open(spec, context=again).result().list().result() == [b"b"]
    assert store.list().result() == [b"a"]
    alone = pickle.loads(pickle.dumps(KvStore.open({"driver": "memory", "memory_key_value_store": {}}).result()))
    assert repr(alone) == "KvStore({'driver': 'memory', 'memory_key_value_store': {}})"
    assert Context().spec is None
    assert pickle.loads(pickle.dumps(Context())).parent is None


def test_wrong_arguments() -> None:
    wrong: Any = 5
    for arguments in ({"parent": Context()}, {"spec": {}, "parent": 5}):
        with pytest.raises(TypeError):
            Context(**arguments)
    with pytest.raises(TypeError):
        Context().__getitem__(wrong)
