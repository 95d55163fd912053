"""The layout of JSON documents."""

from __future__ import annotations

from tegula.runtime.frozen import Frozen

__all__ = ["Style"]


class Style(Frozen):
    """The layout of a JSON document.

    Parameters
    ----------
    indent : int or None
        Spaces for each level; ``None`` writes everything on one line.
    ascii : bool
        Whether characters outside of ASCII are escaped.
    ending : str
        Text after the document, such as a newline.
    sort_keys : bool
        Whether members are sorted by name.
    spaced : bool
        Whether a space follows each comma and colon, on one line.
    """

    indent: int | None = 4
    ascii: bool = True
    ending: str = ""
    sort_keys: bool = False
    spaced: bool = False
