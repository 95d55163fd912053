"""The tree of errors: as drawn, with its second bases, and carrying its context everywhere."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula import errors
from tegula.errors import TegulaError

CLASSES = [getattr(errors, name) for name in errors.__all__]
PLACES = ("path", "key", "field", "codec")
texts = st.text(max_size=12)
places = st.fixed_dictionaries({}, optional=dict.fromkeys(PLACES, texts))


def drawn() -> dict[str, str]:
    """Read names and second bases from the drawing in the module's text."""
    rows = re.findall(r"[├└]── (\w+) +(?:\((\w+)\))?", errors.__doc__ or "")
    return dict(rows)


def test_the_drawing_is_the_tree() -> None:
    tree = drawn()
    children = {cls for cls in CLASSES if cls is not TegulaError}
    assert {cls.__name__ for cls in children} == set(tree)
    for cls in children:
        first, *others = cls.__bases__
        assert first is TegulaError
        assert [other.__name__ for other in others] == ([tree[cls.__name__]] if tree[cls.__name__] else [])


def test_every_error_is_public_and_documented() -> None:
    for cls in CLASSES:
        assert getattr(tegula, cls.__name__) is cls
        assert cls.__doc__


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_survives_pickling_and_copying(cls: type[TegulaError]) -> None:
    error = cls("something is wrong", path="file:///x", key="c/0", field="shape", codec="zstd")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is cls
        assert str(other) == str(error)
        assert vars(other) == vars(error)


@given(st.sampled_from(CLASSES), st.text(min_size=1, max_size=30), places)
def test_the_text_says_what_and_where(cls: type[TegulaError], message: str, place: dict[str, str]) -> None:
    error = cls(message, **place)
    text = str(error)
    assert text.startswith(message)
    for name in PLACES:
        assert getattr(error, name) == place.get(name)
        assert (f"{name} {place[name]!r}" in text) if name in place else True
    assert pickle.loads(pickle.dumps(error)).args == error.args
    assert repr(error).startswith(cls.__name__)


@given(places, places)
def test_an_outer_floor_adds_only_what_an_inner_one_did_not_know(inner: dict[str, str], outer: dict[str, str]) -> None:
    error = TegulaError("wrong", **inner)
    assert error.within(**outer) is error
    expected = {**outer, **inner}
    assert {name: getattr(error, name) for name in PLACES} == {name: expected.get(name) for name in PLACES}


def test_the_second_base_catches() -> None:
    with pytest.raises(KeyError):
        raise errors.NotFoundError("nothing")
    with pytest.raises(OSError, match="refused"):
        raise errors.StoreError("refused")
    with pytest.raises(ValueError, match="bad"):
        raise errors.MetadataError("bad")
    with pytest.raises(IndexError):
        raise errors.SelectionError("out")


def test_what_comes_of_a_file_can_always_be_printed() -> None:
    error = TegulaError("no member '\ud800' of 'naïve'", key="\udcff")
    text = f"{error} {error!r} {error.message}"
    assert text.encode().decode() == text
    assert error.message == "no member '\\ud800' of 'naïve'"
