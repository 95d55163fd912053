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


def test_the_limit_on_chunks_is_described_as_it_is_raised() -> None:
    with pytest.raises(tegula.MetadataError) as caught:
        tegula.create_array({}, shape=(10**6, 10**6), chunks=-1, dtype="u1")
    (row,) = (message for message in MESSAGES if "max_chunk_bytes" in message)
    kind, _, text = row.partition(": ")
    assert type(caught.value).__name__ == kind
    assert all(part in str(caught.value) for part in text.split("…"))
