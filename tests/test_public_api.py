"""The public names and signatures, recorded in ``public_api.txt``; a change there is a change for users.

``python tests/test_public_api.py`` writes the file again.
"""

from __future__ import annotations

import importlib
import inspect
import re
from abc import ABC
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tegula.arrays.node import Node
from tegula.stores import Store

pytestmark = pytest.mark.once(executors="none")

SNAPSHOT = Path(__file__).with_name("public_api.txt")
MODULES = [
    "tegula", "tegula.arrow", "tegula.codecs", "tegula.config", "tegula.indexing", "tegula.jobs", "tegula.stores",
    "tegula.tables.following", "tegula.testing", "tegula.zarr1",
]  # fmt: skip
INNER = ["tegula.codecs", "tegula.indexing", "tegula.testing"]
"""Rooms whose classes are for the engine and for tests: only their names are held."""

MADE_BY_OTHERS = re.compile(r"; made by `|returned by `").search


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def public_members(cls: type) -> dict[str, Any]:
    # members of nodes and of stores come from several classes; those of `Store` are not listed again
    inner = [base for base in cls.__mro__[1:] if base.__module__.startswith("tegula.stores.")]
    own = [cls, *(base for base in cls.__mro__[1:] if issubclass(base, Node))]
    own += [base for base in inner if cls is Store or base not in Store.__mro__]
    members = {name: value for base in reversed(own) for name, value in vars(base).items()}
    return {name: value for name, value in members.items() if not name.startswith("_")}


def public_bases(cls: type) -> list[type]:
    """Return the bases of a class; a base without a public name is replaced by its own bases."""
    public = {id(getattr(module(place), name)) for place in MODULES for name in module(place).__all__}
    found: list[type] = []
    for base in cls.__bases__:
        inner = (
            base.__module__.startswith(("tegula.stores.", "tegula.runtime.frozen", "tegula.arrays.foreign"))
            and id(base) not in public
        )
        found += public_bases(base) if inner else [base]
    found = [base for base in dict.fromkeys(found) if base is not object]
    return [base for base in found if base is not ABC or len(found) == 1]


def describe(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value) and value.__module__.startswith("tegula"):
        bases = ", ".join(base.__name__ for base in public_bases(value))
        yield f"{name}: class({bases})"
        maker = vars(value).get("__init__")
        if maker is not None and not MADE_BY_OTHERS(value.__doc__ or ""):
            yield f"  __init__{inspect.signature(maker)}"
        for member, inner in sorted(public_members(value).items()):
            if isinstance(inner, (classmethod, staticmethod)):
                yield f"  {type(inner).__name__} {member}{inspect.signature(inner.__func__)}"
            elif inspect.isfunction(inner):
                yield f"  {member}{inspect.signature(inner)}"
            elif isinstance(inner, property):
                yield f"  {member}: {inner.fget.__annotations__.get('return')}"
            else:
                yield f"  {member}"
    elif inspect.isfunction(value):
        yield f"{name}{inspect.signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def snapshot() -> str:
    lines = []
    for place in MODULES:
        lines.append(f"[{place}]")
        for name in sorted(module(place).__all__):
            value = getattr(module(place), name)
            if inspect.ismodule(value) or (place != "tegula" and getattr(module("tegula"), name, None) is value):
                lines.append(f"{name}: module" if inspect.ismodule(value) else f"{name}: as above")
            elif inspect.isclass(value) and place in INNER:
                lines.append(f"{name}: class")
            else:
                lines += describe(name, value)
        lines.append("")
    return "\n".join(lines)


def test_the_public_names_are_those_of_the_snapshot() -> None:
    # compared by line, so that a failure shows what changed
    assert snapshot().splitlines() == SNAPSHOT.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted_and_complete(name: str) -> None:
    place = module(name)
    # constants, classes, the rest, as ruff sorts
    assert [*place.__all__] == sorted(
        place.__all__, key=lambda public: (0 if public.isupper() else 1 if public[0].isupper() else 2, public)
    )
    assert len({*place.__all__}) == len(place.__all__)
    for public in place.__all__:
        assert hasattr(place, public)
    own = {
        known
        for known, value in vars(place).items()
        if not known.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == name
    }
    assert own <= {*place.__all__}


def documented() -> Iterator[Any]:
    seen = set()
    for place in MODULES:
        for name in module(place).__all__:
            value = getattr(module(place), name)
            if place in INNER[:2] and inspect.isclass(value):
                continue
            is_ours = getattr(value, "__module__", "").startswith("tegula")
            if (inspect.isfunction(value) or inspect.isclass(value)) and is_ours and id(value) not in seen:
                seen.add(id(value))
                yield pytest.param(value, id=f"{place}.{name}")


@pytest.mark.parametrize("value", [*documented()])
def test_every_public_object_shows_how_it_is_used(value: Any) -> None:
    text = inspect.getdoc(value) or ""
    assert text, "there is no docstring"
    own = value.__doc__ or ""
    if inspect.isclass(value) and issubclass(value, Exception) and value.__name__ != "TegulaError":
        return  # the example is that of the base class
    assert ">>>" in own, "the docstring has no example"
    assert "Examples\n" in own


@pytest.mark.parametrize("value", [*documented()])
def test_every_public_method_is_documented(value: Any) -> None:
    if not inspect.isclass(value) or issubclass(value, Exception) or value.__name__ == "StoreConformance":
        return
    for name, member in public_members(value).items():
        if inspect.isfunction(member) or isinstance(member, (property, classmethod, staticmethod)):
            assert inspect.getdoc(getattr(value, name)), f"{value.__name__}.{name} has no docstring"


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot(), encoding="utf-8")
