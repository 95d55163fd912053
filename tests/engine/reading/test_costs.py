"""Costs of reads: the memory that they take is known from documents."""

from __future__ import annotations

import pytest

import tegula
from tegula.engine.reading.costs import decoding_cost, reading_cost

pytestmark = pytest.mark.once(executors="none")


def test_costs_count_what_is_decoded() -> None:
    plain = tegula.create_array({}, shape=(100, 100), chunks=(10, 50), dtype="f8")
    assert decoding_cost(plain.stored) == 2 * 10 * 50 * 8
    with tegula.config.configure(threads=3):
        assert reading_cost(plain.stored, [3, range(10)]) == decoding_cost(plain.stored)
        assert reading_cost(plain.stored, [range(9, 11), 0]) == 2 * decoding_cost(plain.stored)
        assert reading_cost(plain.stored, [range(99, -1, -20)]) == 3 * decoding_cost(plain.stored)
        assert reading_cost(plain.stored, [range(0)]) == reading_cost(plain.stored, [0, 0])
    shards = tegula.create_array({}, shape=2**20, chunks=2**10, shards=2**20, dtype="f8")
    assert decoding_cost(shards.stored) < 2**20  # not the whole shard
    text = tegula.create_array({}, shape=1000, chunks=1000, dtype=str)
    assert decoding_cost(text.stored) > 2 * 8 * 1000  # objects, too
