"""Frozen values behave as frozen dataclasses with slots do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tegula.runtime.frozen import Frozen, field, replace


class Ours(Frozen):
    a: Any
    b: Any = 2
    c: Any = field(default_factory=list)
    d: Any = field(default=4, compare=False, repr=False)
    e: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "e", (self.a, self.b))


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    a: Any
    b: Any = 2
    c: Any = dataclasses.field(default_factory=list)
    d: Any = dataclasses.field(default=4, compare=False, repr=False)
    e: Any = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "e", (self.a, self.b))


class Named(Frozen, kw_only=True):
    a: int = 1
    b: int


VALUES = st.none() | st.integers(0, 2) | st.text(max_size=1) | st.just(float("nan"))
POSITIONAL = st.lists(VALUES, max_size=6)
BY_NAME = st.dictionaries(st.sampled_from("abcdef"), VALUES, max_size=4)


def outcome(make: Any) -> tuple[Any, type[Exception] | None]:
    try:
        return make(), None
    except TypeError as error:
        return None, type(error)


@given(POSITIONAL, BY_NAME, POSITIONAL, BY_NAME)
def test_they_are_what_dataclasses_are(one: Any, names: Any, other: Any, other_names: Any) -> None:
    ours, error = outcome(lambda: Ours(*one, **names))
    theirs, expected = outcome(lambda: Theirs(*one, **names))
    assert error is expected
    if error is not None:
        return
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert [getattr(ours, name) for name in "abcde"] == [getattr(theirs, name) for name in "abcde"]
    assert outcome(lambda: hash(ours))[1] is outcome(lambda: hash(theirs))[1]
    again, failed = outcome(lambda: Ours(*other, **other_names))
    if failed is None:
        assert (ours == again) is (theirs == Theirs(*other, **other_names))
    assert ours != theirs


def test_both_ways_of_making_them_agree() -> None:
    """The first objects of a class are made by a method that all classes share, later ones by one of its own."""

    class Fresh(Frozen):
        a: Any
        b: Any = field(default_factory=dict)

    first = Fresh(1)
    with pytest.raises(TypeError, match="needs the value 'a'"):
        Fresh()
    with pytest.raises(TypeError, match="takes a, b, not"):
        Fresh(1, z=1)
    many = [Fresh(1) for _ in range(100)]
    assert "__init__" in vars(Fresh)
    assert {*map(repr, many)} == {repr(first)}
    assert first.b is not many[-1].b is not many[0].b
    with pytest.raises(TypeError):
        Fresh()


def test_keywords_only() -> None:
    for _ in range(50):
        assert Named(b=2) == Named(a=1, b=2)
        with pytest.raises(TypeError):
            Named(1, 2)


def test_they_can_not_be_changed() -> None:
    value = Ours(1)
    with pytest.raises(AttributeError, match="cannot assign to field 'a'"):
        value.a = 2
    with pytest.raises(AttributeError, match="cannot delete field 'a'"):
        del value.a
    with pytest.raises(AttributeError):
        value.other = 2
    assert value.a == 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_are_equal(again: Any) -> None:
    value = Ours(1, b=(3, 4), d=5)
    found = again(value)
    assert found == value
    assert (found.d, found.e) == (5, (1, (3, 4)))


def test_they_are_changed_by_replacing() -> None:
    value = Ours(1, d=7)
    for change in (replace, dataclasses.replace, *[replace] * 30):  # from some copy on, by code of its own
        found = change(value, b=5)
        assert (found.a, found.b, found.d, found.e) == (1, 5, 7, (1, 5))
        with pytest.raises(TypeError):
            change(value, z=5)


def test_a_class_that_checks_its_values_checks_those_of_copies() -> None:
    class Positive(Frozen):
        a: int

        def __init__(self, a: int) -> None:
            if a <= 0:
                raise ValueError(a)
            super().__init__(a=a)

    value = Positive(1)
    for number in range(1, 50):
        assert replace(value, a=number).a == number
        with pytest.raises(ValueError, match="0"):
            replace(value, a=0)


def test_dataclasses_know_their_fields() -> None:
    ours, theirs = dataclasses.fields(Ours), dataclasses.fields(Theirs)
    kept = ("name", "init", "repr", "compare", "default")
    assert [[getattr(item, name) for name in kept] for item in ours] == [
        [getattr(item, name) for name in kept] for item in theirs
    ]
    assert dataclasses.is_dataclass(Ours(1))
    assert dataclasses.asdict(Ours(1)) == dataclasses.asdict(Theirs(1))
    assert [item.name for item in dataclasses.fields(Named(b=1))] == ["a", "b"]


@pytest.mark.slow
def test_an_interrupt_that_is_caught_does_not_end_the_process() -> None:
    code = """
import sys
from tegula.runtime.frozen import Frozen

class Pair(Frozen):
    a: int

def trace(frame, event, arg):
    if frame.f_back is not None and frame.f_back.f_code.co_name == "_compiled":
        raise KeyboardInterrupt

caught = False
sys.settrace(trace)
try:
    for number in range(1000):
        Pair(number)
except KeyboardInterrupt:
    caught = True
sys.settrace(None)
assert caught
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
