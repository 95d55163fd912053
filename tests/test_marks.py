"""The marks of tests do what they say, and names of tests stay short."""

import re
from pathlib import Path

import pytest

import tegula

TESTS = Path(__file__).parent
LONGEST = 70


@pytest.mark.xfail(raises=AssertionError, reason="the mark says that it asks for no executor", strict=True)
@pytest.mark.once(executors="none")
def test_asking_for_an_executor_fails() -> None:
    tegula.create_array({}, shape=3, dtype="i4")[...] = 1


def test_no_name_of_a_test_is_too_long() -> None:
    """A name says the subject and what it does; how that comes about is the matter of a docstring."""
    names = {
        name: path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(names) > 1000
    assert {name: path for name, path in names.items() if len(name) > LONGEST} == {}
