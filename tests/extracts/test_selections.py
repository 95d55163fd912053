"""Selections as text."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tegula.errors import SelectionError
from tegula.extracts.selections import parse_selection, split_selection

INTS = st.integers(-(10**17), 10**17)
STEPS = st.none() | INTS.filter(bool)
SLICES = st.builds(slice, st.none() | INTS, st.none() | INTS, STEPS)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ITEMS = INTS | SLICES | st.just(...) | NAMES | st.lists(NAMES, min_size=1, max_size=3)
SPACE = st.sampled_from(["", " ", "  "])


def spell_name(name: str, quote: str) -> str:
    return quote + name.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


def spell(item: object, quote: str, space: str) -> str:
    if item is ...:
        return "..."
    if isinstance(item, slice):
        text = [("" if part is None else str(part)) for part in (item.start, item.stop, item.step)]
        return f"{space}:{space}".join(text if item.step is not None else text[:2])
    if isinstance(item, str):
        return spell_name(item, quote)
    if isinstance(item, list):
        return f"[{space}{','.join(spell_name(name, quote) + space for name in item)}]"
    return str(item)


@given(st.lists(ITEMS, min_size=1, max_size=5), st.sampled_from("'\""), SPACE, st.booleans(), st.booleans())
def test_selections_round_trip(items, quote, space, brackets, comma):
    text = f"{space},{space}".join(spell(item, quote, space) for item in items) + ("," if comma else "")
    assume(brackets or len(items) > 1 or not isinstance(items[0], list))  # brackets mean those of a[...] first
    assert parse_selection(f"[{text}]" if brackets else text) == tuple(items)


@given(st.lists(ITEMS, min_size=1, max_size=4), st.sampled_from("'\""))
def test_a_selection_after_a_path(items, quote):
    text = ",".join(spell(item, quote, "") for item in items)
    path = "dir[1]/größe x.zarr::a/b"
    assert split_selection(f"{path}[{text}]") == (path, tuple(items))


@given(st.text(max_size=12) | st.text("0123456789:,.[]'\"-ab ", max_size=12))
def test_any_other_text_is_refused(text):
    try:
        items = parse_selection(text)
    except SelectionError:
        return
    assert items
    assert all(item is ... or isinstance(item, (int, slice, str, list)) for item in items)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1.5",
        "1 2",
        "::0",
        "a b",
        "'a",
        "[1, 2",
        "[]",
        "[[1]]",
        "__import__('os')",
        "1:2:3:4",
        "1" * 30,
        ",",
        "None()",
    ],
)
def test_invalid_selections(text):
    with pytest.raises(SelectionError, match=r"selects nothing|step of a slice"):
        parse_selection(text)


def test_bare_names():
    assert parse_selection("wind-speed.u, 3, größe_2") == ("wind-speed.u", 3, "größe_2")
    assert parse_selection("[u, v], :") == (["u", "v"], slice(None))
    assert parse_selection("[u, v]") == ("u", "v")
    assert parse_selection("[[u]]") == (["u"],)
    assert parse_selection(" [ 1, ] ") == (1,)


def test_an_existing_path_wins(tmp_path):
    (tmp_path / "x[0]").mkdir()
    assert split_selection(f"{tmp_path}/x[0]") == (f"{tmp_path}/x[0]", None)
    assert split_selection(f"{tmp_path}/x[0][1]") == (f"{tmp_path}/x[0]", (1,))
    with pytest.raises(SelectionError):
        split_selection("x.zarr[1.5]")
    with pytest.raises(SelectionError):
        split_selection("x.zarr]")
