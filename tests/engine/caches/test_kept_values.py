"""Values kept within a budget of bytes, compared with a model."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tegula.engine.caches.kept_values import OVERHEAD, KeptValues

pytestmark = pytest.mark.once(executors="none")

PLACES = st.sampled_from(["a", "a/b", "a/c", "a/c/d", "b", "bb/x"])
BUDGET = 4 * (OVERHEAD + 300)


class Kept(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kept: KeptValues[bytes] = KeptValues(BUDGET, len)
        self.model: OrderedDict[str, bytes] = OrderedDict()

    @rule(place=PLACES, length=st.integers(0, 400))
    def put(self, place: str, length: int) -> None:
        value = b"x" * length
        self.kept.put(place, value)
        self.model.pop(place, None)
        if length <= 300:
            self.model[place] = value
        while sum(len(each) + OVERHEAD for each in self.model.values()) > BUDGET:
            self.model.popitem(last=False)

    @rule(place=PLACES)
    def get(self, place: str) -> None:
        assert self.kept.get(place) == self.model.get(place)
        if place in self.model:
            self.model.move_to_end(place)

    @rule(place=PLACES, below=st.booleans())
    def drop(self, place: str, below: bool) -> None:
        if not below:
            self.kept.drop(place)
            self.model.pop(place, None)
            return
        self.kept.drop_all(f"{place}/")
        for known in [known for known in self.model if known.startswith(f"{place}/")]:
            del self.model[known]

    @invariant()
    def the_same(self) -> None:
        assert [*self.kept.entries.items()] == [*self.model.items()]
        assert self.kept.nbytes == sum(len(each) + OVERHEAD for each in self.model.values()) <= BUDGET
        assert len(self.kept) == len(self.model)


Kept.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestKept: Any = Kept.TestCase
