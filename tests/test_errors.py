"""The error classes: their tree, their built-in base classes, and the context that they carry."""

from __future__ import annotations

import copy
import errno
import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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


def documented() -> dict[str, list[str]]:
    """Read the class names and their built-in base classes from the tree in the module's docstring."""
    rows = re.findall(r"[├└]── (\w+) +(?:\(([\w, ]+)\))?", errors.__doc__ or "")
    return {name: bases.split(", ") if bases else [] for name, bases in rows}


def test_the_documented_tree_is_the_class_hierarchy() -> None:
    tree = documented()
    children = {cls for cls in CLASSES if cls is not TegulaError}
    assert {cls.__name__ for cls in children} == set(tree)
    for cls in children:
        first, *others = cls.__bases__
        assert first is TegulaError
        assert [other.__name__ for other in others] == tree[cls.__name__]


def test_every_error_is_public_and_documented() -> None:
    for cls in CLASSES:
        assert getattr(tegula, cls.__name__) is cls
        assert cls.__doc__


def test_each_error_has_a_kind_of_its_own() -> None:
    kinds = {name: getattr(errors, name).kind for name in errors.__all__}
    assert len(set(kinds.values())) == len(kinds)
    for name, kind in kinds.items():
        assert name.removesuffix("Error").lower() == {"error": "tegula"}.get(kind, kind.replace("_", ""))


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
def test_within_does_not_replace_what_is_known(inner: dict[str, str], outer: dict[str, str]) -> None:
    error = TegulaError("wrong", **inner)
    assert error.within(**outer) is error
    expected = {**outer, **inner}
    assert {name: getattr(error, name) for name in PLACES} == {name: expected.get(name) for name in PLACES}


def test_the_built_in_base_class_catches_the_error() -> None:
    with pytest.raises(KeyError):
        raise errors.NotFoundError("nothing")
    with pytest.raises(OSError, match="refused"):
        raise errors.StoreError("refused")
    with pytest.raises(ValueError, match="bad"):
        raise errors.MetadataError("bad")
    with pytest.raises(IndexError):
        raise errors.SelectionError("out")
    with pytest.raises(FileNotFoundError):
        raise errors.NotFoundError("nothing")
    with pytest.raises(FileExistsError, match="there"):
        raise errors.AlreadyExistsError("something is there")
    with pytest.raises(PermissionError, match="reading"):
        raise errors.ReadOnlyError("opened for reading")


@pytest.mark.parametrize(
    ("cls", "number"),
    [
        (errors.NotFoundError, errno.ENOENT),
        (errors.AlreadyExistsError, errno.EEXIST),
        (errors.ReadOnlyError, errno.EACCES),
    ],
)
def test_os_errors_have_errno_strerror_and_filename(cls: type[OSError], number: int) -> None:
    error = cls("something is wrong", path="a/b")
    for other in (error, pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert (other.errno, other.strerror, other.filename) == (number, "something is wrong", "a/b")
        assert str(other) == "something is wrong (path 'a/b')"
        assert repr(other) == f"{cls.__name__}('something is wrong')"
        assert other.args == ("something is wrong",)


def test_nodes_raise_the_errors_of_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tegula.open(tmp_path / "nothing")
    a = tegula.create_array(tmp_path / "a", shape=3, dtype="u1")
    with pytest.raises(FileExistsError):
        tegula.create_array(tmp_path / "a", shape=3, dtype="u1")
    with pytest.raises(PermissionError):
        tegula.open_array(tmp_path / "a")[:] = 1
    assert a[0] == 0
    with pytest.raises(KeyError):
        tegula.create_group({})["x"]


def test_a_message_with_lone_surrogates_can_be_printed() -> None:
    error = TegulaError("no member '\ud800' of 'naïve'", key="\udcff")
    text = f"{error} {error!r} {error.message}"
    assert text.encode().decode() == text
    assert error.message == "no member '\\ud800' of 'naïve'"


HUGE = 10**5000  # Python prints no integer of so many digits


def test_errors_name_integers_of_any_size() -> None:
    group = tegula.create_group({})
    array = group.create_array("x", shape=(4, 6), chunks=(2, 3), dtype="i4")
    table = tegula.create_table({}, {"a": [1, 2, 3]})
    calls: list[Callable[[], object]] = [
        lambda: array[HUGE],
        lambda: array.oindex[[HUGE], :],
        lambda: array.blocks[HUGE],
        lambda: array.lazy[HUGE],
        lambda: array.lazy.astype(HUGE),
        lambda: array.lazy.transpose(HUGE),
        lambda: array.resize((HUGE, 6)),
        lambda: group[HUGE],
        lambda: group.__delitem__(HUGE),
        lambda: group.create_array("y", shape=4, dtype="i4", fill_value=HUGE),
        lambda: group.create_array("y", shape=4, dtype="i4", attributes={"a": HUGE}),
        lambda: table[HUGE],
        lambda: table.where(HUGE),
        lambda: table.where("a > 1", skip=-HUGE),
        lambda: table.where(f"a > {'9' * 5000}"),
        lambda: table.remove_column(HUGE),
        lambda: tegula.open({}, mode=HUGE),  # type: ignore[arg-type]
        lambda: tegula.concat([array, array], axis=HUGE),
        lambda: tegula.stack([array, array], axis=HUGE),
        lambda: tegula.LocalStore(HUGE),  # type: ignore[arg-type]
        lambda: tegula.serve(array, host=HUGE),  # type: ignore[arg-type]
        lambda: tegula.serve(array, port=0, allow_origins=(HUGE,)),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(tegula.TegulaError):
            call()


@pytest.mark.parametrize("digits", [4000, 5000])
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "n5", "bcolz"])
def test_documents_with_integers_of_any_size(format: str, digits: int) -> None:
    """No field, nor all lengths together, end in another error; sizes have more digits than lengths."""
    store: dict[str, bytes] = {}
    array = tegula.create_array(store, shape=12, chunks=3, dtype="i4", format=format)
    array[...] = 1
    array.attrs.update({"scale_factor": 2.0, "_FillValue": 3, "units": "days since 2000-01-01"})
    for key, value in list(store.items()):
        document = bytes(value)
        numbers = [*re.finditer(rb"(?<=[\[:, \n])-?\d+(\.\d+)?(?=[,\]}\s])", document)] if b"{" in document[:1] else []
        for chosen in (*([one] for one in numbers), numbers):
            text = document
            for one in reversed(chosen):
                text = text[: one.start()] + b"1" * digits + text[one.end() :]
            changed = {**store, key: text}
            for use in (lambda node: str(node.info), lambda node: node[0], tegula.statistics, lambda node: node.nbytes):
                with suppress(tegula.TegulaError):
                    use(tegula.open(changed))
            with suppress(tegula.TegulaError):
                tegula.check(changed)
