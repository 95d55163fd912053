"""Hierarchies of drafts of Zarr v3 inside of a hierarchy of Zarr v3, whose other values are passed on as they are."""

from __future__ import annotations

from tegula.formats import find_format
from tegula.formats.keys import ZARR3_KEY
from tegula.hierarchy.drafts import elsewhere
from tegula.stores import Store
from tegula.stores.capabilities import Translating
from tegula.zarr3_view.view import Zarr3View

__all__ = ["DraftsInside"]

_DRAFT = find_format("zarr3_draft").name


class DraftsInside:
    """The hierarchies of drafts below a node, each shown as Zarr v3 once its entry point has been read.

    Parameters
    ----------
    store, path : Store, str
        The node.
    looks : bool
        Whether entry points are looked up: not in a view that shows all below it as Zarr v3.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> version = b'{"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "metadata_key_suffix": ".json"}'
    >>> inside = DraftsInside(MemoryStore({"old/zarr.json": version}), "")
    >>> inside.place("old/g/c/0")[1], inside.enter("old/g/zarr.json", None), inside.place("old/g/c/0")[1]
    ('old/g/c/0', True, 'g/c/0')
    """

    def __init__(self, store: Store, path: str, *, looks: bool = True) -> None:
        self._store, self._path, self._looks = store, path, looks
        self._views: dict[str, tuple[Zarr3View, Store]] = {}

    @property
    def known(self) -> list[Store]:
        """Views of the hierarchies whose entry points have been read."""
        return [draft for _, draft in self._views.values()]

    def place(self, key: str) -> tuple[Store, str]:
        """Return where a key or prefix is: in the store, or in the view of a hierarchy, relative to that."""
        for prefix, (view, _) in self._views.items():
            if key.startswith(prefix):
                return view, key[len(prefix) :]
        return self._store, key

    def enter(self, key: str, value: bytes | None) -> bool:
        """Return whether a key, whose value in the store is given, is in a hierarchy that was not known before.

        Raises
        ------
        MetadataError, UnsupportedError
            If there is an entry point, and it is not valid or of another draft.
        """
        path, _, name = key.rpartition("/")
        if not self._looks or name != ZARR3_KEY or (value is not None and b"purl.org" not in value):
            return False
        # entry points are looked up above a path: if there is a document, it may be one itself
        found = elsewhere(self._store, path if value is None else key, None, self._path)
        return found is not None and self.add(found[0])

    def add(self, draft: Store) -> bool:
        """Show a hierarchy, given a view as `known` lists them; return whether it is one."""
        if not isinstance(draft, Translating):
            return False
        root = draft.whole[1]
        view = Zarr3View(draft, root, format=_DRAFT, writable=False)
        self._views[f"{root}/" if root else ""] = view, draft
        return True
