"""Walks: the calls of Python functions in an operation, which are most of the time that a small one takes."""

from __future__ import annotations

import gc
import os
import sys
from types import FrameType
from typing import Any

import tegula

ROOT = os.path.dirname(tegula.__file__) + os.sep


def calls(act: Any, root: str = "") -> list[tuple[str, str]]:
    """Return the file and the function of each call of Python code below a folder, without that of `act` itself."""
    seen = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is not act.__code__ and frame.f_code.co_filename.startswith(root):
            seen.append((frame.f_code.co_filename.removeprefix(ROOT), frame.f_code.co_name))

    collects, before = gc.isenabled(), sys.getprofile()
    gc.disable()  # garbage of other tests must not count
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return seen


def within(most: int, act: Any) -> bool:
    """Return whether an operation takes at most so many calls, when it is done again; print them if it takes more.

    On a busy machine it may wait for another thread, or look again at what it saw a while ago: it has three tries.
    """
    act()
    act()
    found: list[tuple[str, str]] = []
    for _ in range(3):
        found = calls(act)
        assert found, "nothing was counted"
        if len(found) <= most:
            return True
    print(len(found), "calls:", *(f"  {file}: {function}" for file, function in found), sep="\n")
    return False
