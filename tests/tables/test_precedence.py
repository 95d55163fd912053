"""Comparisons without parentheses between ``&`` and ``|``: refused, with parentheses as a suggestion."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import bcolz
from tegula.errors import MetadataError
from tegula.tables.expressions import compile_expression

REFUSED = {
    "price > 10 & i < 5": "(price > 10) & (i < 5)",
    "price > 10 | i < 5": "(price > 10) | (i < 5)",
    "price > 10 & i < 5 & price < 20": "(price > 10) & (i < 5) & (price < 20)",
    "price > 10 & i < 5 | price == 7": "(price > 10) & (i < 5) | (price == 7)",
    "1 < i < 5 & price < 20": "(1 < i < 5) & (price < 20)",
    "b & i > 2 & price < 20": "b & (i > 2) & (price < 20)",
    "b & i > 2 < price": "b & (i > 2 < price)",
    "i > 2 & b": "(i > 2) & b",
    "i > -2 & ~b": "(i > -2) & ~b",
    "i>(2)&b": "(i>(2)) & b",
    "i in [1, 2] & b": "(i in [1, 2]) & b",
    "i not in [1, 2] | b": "(i not in [1, 2]) | b",
    "not i > 2 ^ b": "(i > 2) ^ b",
    "b & (price > 10 & i < 5)": "(price > 10) & (i < 5)",
    "np.where(price > 10 & i < 5, b, b)": "(price > 10) & (i < 5)",
    "price > 10 & (i < 5) < 3": "(price > 10) & ((i < 5) < 3)",
    "s == 'a & (b' & i < 5": "(s == 'a & (b') & (i < 5)",
    "(price > 10 # & (\n & i\n < 5)": "& (i < 5)",
    "(price\r\n>\r\n10 & i\r< 5)": "(price > 10) & (i < 5)",
    "s < '\u2028\x0b(' & i < 5": "& (i < 5)",
    "é > 10 & i < 5": "(é > 10) & (i < 5)",
}


@pytest.mark.parametrize("text", REFUSED)
def test_the_error_suggests_parentheses(text: str) -> None:
    with pytest.raises(MetadataError, match="comes before the comparisons; write") as caught:
        compile_expression(text)
    assert f'{REFUSED[text]}"' in str(caught.value)
    assert caught.value.field == "expression"


COLUMNS = {
    "i": np.arange(40) % 7,
    "j": np.arange(40) % 5 - 2,
    "f": np.arange(40) / 8,
    "b": np.arange(40) % 3 == 0,
}
ALLOWED = [
    "0 < i < 5", "0 < i <= j < 5", "i & 1 == 0", "i & 3 < j", "i == j & 3", "1 < (i & 3) < 3", "(i & 1) == (j & 1)",
    "i == 1 | 2", "b == (i > 2)", "(i > 2 * 3) | b", "b & b == b", "i << 1 < 9", "not (i > 2) & b", "i > 2 and j < 1",
    "0 < i + 1 < 5 and (f > 1) & b", "(i < 3) & b | (j > 0)", "i > (2 & j)",
]  # fmt: skip


def by_python(text: str) -> list[bool]:
    """Let Python compute it row by row, as it reads it."""
    return [bool(eval(text, {}, {name: values[row] for name, values in COLUMNS.items()})) for row in range(40)]


@pytest.mark.parametrize("text", ALLOWED)
def test_what_is_clear_is_computed_as_python_does(text: str) -> None:
    assert np.asarray(compile_expression(text).evaluate(COLUMNS)).tolist() == by_python(text)


@pytest.mark.parametrize("vm", ["numexpr", "python"])
def test_tables_and_the_bcolz_interface_refuse_the_same_expressions(vm: str) -> None:
    table = tegula.create_table({}, COLUMNS, format="zarr3")
    theirs = bcolz.ctable([*COLUMNS.values()], names=[*COLUMNS])
    for act in (
        lambda: table.where("f > 1 & i < 5"),
        lambda: [*table.where_blocks("f > 1 & i < 5")],
        lambda: [*theirs.where("f > 1 & i < 5", vm=vm)],
        lambda: theirs["f > 1 & i < 5"],
        lambda: theirs.eval("f > 1 & i < 5", vm=vm),
    ):
        with pytest.raises(MetadataError, match=r'write "\(f > 1\) & \(i < 5\)"'):
            act()


def test_parentheses_outlast_sums_along_the_first_axis() -> None:
    values = {"a": bcolz.carray(np.arange(12).reshape(4, 3))}
    assert bcolz.eval("0 < (sum(a) & 255) < 20", vm="python", user_dict=values).tolist() == [True, False, False]


# --- against pandas, where what it computes is what the parentheses show

NUMBER = st.sampled_from(["i", "j", "f", "2", "0", "-1", "i + j", "2 * i", "(j)"])
COMPARED = st.builds(
    "{} {} {}".format, NUMBER.filter(lambda t: t[0] in "ijf("), st.sampled_from(["<", "<=", "==", "!=", ">"]), NUMBER
)
CHAINED = st.builds("{} < {} <= {}".format, NUMBER, st.sampled_from("ijf"), NUMBER)
TERM = COMPARED | CHAINED | st.just("b") | st.builds("({})".format, COMPARED) | st.builds("~({})".format, COMPARED)


@settings(deadline=None, max_examples=300)
@given(st.lists(TERM, min_size=1, max_size=4), st.lists(st.sampled_from("&|"), min_size=4, max_size=4))
def test_with_the_suggested_parentheses_rows_agree_with_pandas(terms: list[str], signs: list[str]) -> None:
    pandas = pytest.importorskip("pandas")

    def joined(parts: list[str]) -> str:
        return "".join(f"{sign} {part} " for sign, part in zip(["", *signs], parts)).strip()

    def by_pandas(text: str) -> list[bool]:
        found = pandas.DataFrame(COLUMNS).eval(f"({text})", engine="python")
        return [bool(value) for value in np.broadcast_to(found, 40)]

    meant = joined([f"({term})" for term in terms])
    assert np.broadcast_to(compile_expression(meant).evaluate(COLUMNS), 40).tolist() == by_pandas(meant)
    text = joined(terms)
    said = ""
    found: Any = None
    try:
        found = compile_expression(text).evaluate(COLUMNS)
    except MetadataError as error:
        said = str(error)
    shown = re.fullmatch(r"in '.*' the .* write \"(.*)\" \(field 'expression'\)", said)
    if shown:
        assert by_pandas(shown[1]) == by_pandas(meant)
    elif said:
        assert "can't be computed: ufunc 'bitwise_" in said  # NumPy has no & of floats
    else:
        assert np.broadcast_to(found, 40).tolist() == by_python(text)
