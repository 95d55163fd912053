"""What is known of old chunks beyond the edge."""

from __future__ import annotations

from tegula.engine.stored.reach import Reach


def test_reach_holds_for_one_generation_and_one_axis() -> None:
    reach = Reach()
    reach.begin("a")
    reach.extend(1, 8)
    assert (reach.along(1), reach.along(0)) == (8, 0)
    reach.end("b", b"{}")
    reach.begin("b")
    assert reach.along(1) == 8
    reach.begin("b")  # decided once more
    assert reach.along(1) == 8
    reach.end("c", b"{}")  # without having looked
    reach.begin("c")
    assert reach.along(1) == 0
    # a search that ends after another change has begun
    reach.extend(1, 8)
    reach.end("d", b"{}")
    reach.looked_further("c", 1, 16)
    reach.begin("d")
    assert reach.along(1) == 8
    reach.looked_further("d", 1, 16)
    reach.begin("d")
    assert reach.along(1) == 16
    reach.begin("e")
    assert reach.along(1) == 0
