"""Units: every form of the constructor, texts and JSON, as in TensorStore."""

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import tensorstore as real
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import recorded
from tests.tensorstore.recorded_errors import kind_and_code

from tegula.tensorstore.constraints.unit import Unit

pytestmark = pytest.mark.once(executors="none")


@pytest.mark.parametrize("case", recorded("golden_units")["cases"], ids=lambda case: repr(case["in"]))
def test_recorded_units_are_parsed(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(TypeError):
            Unit(*case["in"])
        return
    unit = Unit(case["in"])
    assert (unit.multiplier, unit.base_unit) == (case["multiplier"], case["base_unit"])
    assert (unit.to_json(), repr(unit), str(unit)) == (case["json"], case["repr"], case["str"])


def described(unit: Any) -> tuple[Any, ...]:
    return repr(unit), str(unit), unit.base_unit, str(unit.multiplier), json.dumps(unit.to_json())


numbers = st.sampled_from(["", "1", "4.5e-9", "-3", "+5", "1.", ".5", ".", "1e400", "1e-400", "0", "-0", "0x1", "e5"])
spaces = st.sampled_from(["", " ", "  ", "\t", "\n"])


@given(st.builds("".join, st.tuples(spaces, numbers, spaces, st.text('abemnu µ+-.0159"\\', max_size=5), spaces)))
def test_texts_are_parsed_the_same(text: str) -> None:
    assert described(Unit(text)) == described(real.Unit(text))
    assert described(Unit(json=text)) == described(real.Unit(json=text))


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("abc µ\"'\n", max_size=4),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_arithmetic_means_the_same(multiplier: float, base_unit: str, factor: float) -> None:
    mine, theirs = Unit(multiplier, base_unit), real.Unit(multiplier, base_unit)
    assert described(mine) == described(theirs)
    assert described(Unit((multiplier, base_unit))) == described(theirs)
    assert described(mine * factor) == described(theirs * factor)
    if factor:
        assert described(mine / factor) == described(theirs / factor)
    assert pickle.loads(pickle.dumps(mine)) == mine


@pytest.mark.parametrize("value", [5, [5], ["5", "m"], [5, 6], None, {}, True, [5, "m", 1], ["nan", "m"], [5, "m"]])
def test_json_means_the_same(value: Any) -> None:
    answers = []
    for kind in (real.Unit, Unit):
        try:
            answers.append(described(kind(json=value)))
        except ValueError as error:
            answers.append(("error", kind_and_code(error)))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("args", [("5", "m"), ((5,),), ((5, "m", 3),), (("5", "m"),), (None,), ("1", 2)])
def test_wrong_arguments(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        Unit(*args)
    with pytest.raises(TypeError):
        Unit("m") * args[0]


def test_keywords_and_division_by_zero() -> None:
    assert Unit() == Unit(1) == Unit(multiplier=1) == Unit(unit="")
    assert Unit(multiplier=np.float32(0.5), base_unit="m") == Unit(unit=(0.5, "m"))
    assert (Unit("5 m") / 0).multiplier == math.inf
    assert (Unit("-5 m") / 0).multiplier == -math.inf
    assert Unit("m") != "m"
    assert len({Unit("m"), Unit(1, "m")}) == 1
