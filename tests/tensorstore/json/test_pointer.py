"""JSON Pointers read and replace what TensorStore's ``json`` driver does."""

import json
from typing import Any

import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

from tegula.tensorstore.json import MISSING, parse_pointer, replaced, resolve

pytestmark = pytest.mark.once(executors="none")

NAMES = st.sampled_from(["a", "b", "0", "1", "-", "~", "/", "00", ""])
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.just("x") | st.just(1.5)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
POINTERS = st.lists(NAMES, max_size=4).map(
    lambda names: "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
)


def outcome(action: Any, *arguments: Any) -> Any:
    try:
        return action(*arguments)
    except ValueError as error:
        return kind_and_code(error)


@settings(deadline=None, max_examples=150)
@given(VALUES, POINTERS, VALUES)
def test_like_tensorstore(document: Any, pointer: str, value: Any) -> None:
    context = tensorstore.Context()
    kvstore = tensorstore.KvStore.open("memory://", context=context).result()
    kvstore["k"] = json.dumps(document).encode()
    spec = {"driver": "json", "kvstore": "memory://k", "json_pointer": pointer}
    real = tensorstore.open(spec, context=context).result()
    assert outcome(resolve, document, pointer) == outcome(lambda: real.read().result().item())

    def write() -> Any:
        real.write(value).result()
        return json.loads(kvstore["k"])

    assert outcome(replaced, document, pointer, value) == outcome(write)


@given(VALUES, POINTERS, VALUES)
def test_what_is_put_is_found(document: Any, pointer: str, value: Any) -> None:
    try:
        changed = replaced(document, pointer, value)
    except ValueError:
        return
    if "-" not in pointer.split("/"):
        assert resolve(changed, pointer) == value


def test_a_document_that_is_missing_is_made_of_objects() -> None:
    assert replaced(MISSING, "/0/-", 1) == {"0": {"-": 1}}


@given(st.lists(NAMES, max_size=4))
def test_names_survive(names: list[str]) -> None:
    pointer = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
    assert parse_pointer(pointer) == tuple(names)


def test_the_document_is_not_changed() -> None:
    document = {"a": [1, {"b": 2}]}
    assert replaced(document, "/a/1/b", 3) == {"a": [1, {"b": 3}]}
    assert document == {"a": [1, {"b": 2}]}
