"""The messages that docs/reference/errors.md explains are those of the code."""

import re
from pathlib import Path

import pytest

import tegula

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/errors.md"
SECTION = PAGE.read_text(encoding="utf-8").split("## What does the message mean?")[1].split("\n:::")[0]
MESSAGES = re.findall(r"^\| `([^`]+)` \|", SECTION, re.MULTILINE)
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in Path(tegula.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("message", MESSAGES)
def test_the_message_is_in_the_code(message: str) -> None:
    name, _, text = message.rpartition("Error: ")
    if name:
        assert hasattr(tegula, f"{name}Error")
    for part in text.split("…"):
        assert part.strip() in SOURCES


def test_the_page_explains_messages() -> None:
    assert len(MESSAGES) > 5
