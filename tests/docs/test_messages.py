"""The messages that docs/reference/errors.md explains are those of the code."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tegula

pytestmark = pytest.mark.once(executors="both")

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


def _provoked(folder: Path) -> Iterator[Callable[[], object]]:
    """Yield calls that raise the errors of the page."""
    place = str(folder / "x.zarr")
    a = tegula.create_array(place, shape=4, chunks=2, dtype="u1")
    a[:] = 1
    yield lambda: tegula.open(folder / "nothing")
    yield lambda: tegula.open(place).append([1])
    yield lambda: tegula.create_array({}, shape=1, dtype="u1", compressor="zstd")
    yield lambda: a + 1
    yield lambda: tegula.create_array({}, shape=1, dtype="u1", codecs="nothing")
    yield lambda: tegula.create_array({}, shape=(10**6, 10**6), chunks=-1, dtype="u1")
    (folder / "x.zarr/c/0").write_bytes(b"damaged")
    yield lambda: a[:]
    (folder / "x.zarr/c/0").unlink()
    (folder / "x.zarr/c/0").mkdir()
    yield lambda: a[:]
    document = json.loads((folder / "x.zarr/zarr.json").read_bytes())
    (folder / "x.zarr/zarr.json").write_text(json.dumps({**document, "new": {"name": "new"}}))
    yield lambda: tegula.open(place)


def test_the_messages_are_those_that_are_raised(tmp_path: Path) -> None:
    """The class of the error and all words between the ellipses are on the page, in the same row."""
    raised = []
    for call in _provoked(tmp_path):
        with pytest.raises(tegula.TegulaError) as caught:
            call()
        names = [kind.__name__ for kind in type(caught.value).__mro__]
        raised.append((names, str(caught.value)))
    for message in MESSAGES:
        kind, _, text = message.partition(": ") if "Error" in message else ("TegulaError", "", message)
        assert any(kind in names and all(part.strip() in said for part in text.split("…")) for names, said in raised)
