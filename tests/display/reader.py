"""A reader of HTML that allows only what runs and loads nothing."""

from html.parser import HTMLParser
from typing import Any

VOID = {"br"}


class Reader(HTMLParser):
    """Checks that elements close in order, and that nothing in them runs or is loaded; gathers the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.deepest = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "style", "link", "img", "iframe", "object")
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)
        self.deepest = max(self.deepest, len(self.open))

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    html.encode()  # no surrogates
    return reader
