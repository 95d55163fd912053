"""How much the tests try: as much as a change, CI or a night has time for.

``TEGULA_EFFORT`` says which: ``quick``, ``usual`` (unless something else is said) or ``nightly``. A night takes fresh
seeds, which are printed; ``TEGULA_SEED`` takes one of them again. ``TEGULA_SAMPLE`` is for slow machines: of all tests
one in so many is tried.
"""

from __future__ import annotations

import os
import random
import zlib

EFFORT = os.environ.get("TEGULA_EFFORT", "usual")
if EFFORT not in ("quick", "usual", "nightly"):
    raise ValueError(f"TEGULA_EFFORT must be quick, usual or nightly, not {EFFORT!r}")
QUICK, NIGHTLY = EFFORT == "quick", EFFORT == "nightly"
# the worker processes of pytest inherit it
SEED = int(os.environ.setdefault("TEGULA_SEED", str(random.SystemRandom().randrange(2**32) if NIGHTLY else 0)))
SAMPLE = int(os.environ.get("TEGULA_SAMPLE", "1"))
"""One in so many tests is tried."""
_EXAMPLES, _NIGHT = 10, 3
"""The most examples of a property in a quick run, and how many times as many as otherwise a night tries."""
_SHARE, _SLOW_SHARE = 3, 6
"""One in so many examples of a property, and of a slow one, is tried unless there is a whole night."""
SLOW_TESTS_SHARE = 7
"""One in so many slow tests is tried unless there is a whole night."""


def turn(name: str) -> int:
    """Return a number that says when the test of a name has its turn: one of its own for each name and seed."""
    return zlib.crc32(f"{SEED} {name}".encode())


def amount(kind: str, usual: int, nightly: int) -> int:
    """Return how many of a kind a test tries: kills, say, for which ``TEGULA_KILLS`` says another number."""
    return int(os.environ.get(f"TEGULA_{kind}", nightly if NIGHTLY else usual))


def examples(usual: int, *, slow: bool = False) -> int:
    """Return how many examples of a property or state machine are tried."""
    if NIGHTLY:
        return usual * _NIGHT
    few = min(usual, _EXAMPLES)
    return few if QUICK else max(few, usual // (_SLOW_SHARE if slow else _SHARE))
