"""The marks of tests do what they say."""

import pytest

import tegula


@pytest.mark.xfail(raises=AssertionError, reason="the mark says that it asks for no executor", strict=True)
@pytest.mark.once(executors="none")
def test_asking_for_an_executor_fails() -> None:
    tegula.create_array({}, shape=3, dtype="i4")[...] = 1
