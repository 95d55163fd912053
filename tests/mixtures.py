"""Stores with nodes of several formats, and with what is no node."""

import tegula
from tegula.stores import Store


def build(store: Store, nodes: list[tuple[str, str]], *, filled: bool = False) -> None:
    """Write nodes, given their paths and kinds, wherever that is possible, as different programs do in one directory.

    Groups that are `filled` have consolidated metadata, and arrays an element.
    """
    for path, kind in nodes:
        try:
            if kind == "broken":
                store.set(f"{path}/.zarray", b"{")
            elif kind == "file":
                store.set(f"{path}/notes.txt", b"text")
            elif kind == "chunk":
                store.set(f"{path}/c/0", b"damaged")
            elif kind == "link":
                store.set(f"{path}/._x", b"")
            elif kind == "table":
                tegula.create_table(store, {"u": [1, 2], "v": [3.0, 4.0]}, path=path, format="bcolz")
            elif kind.startswith("group"):
                group = tegula.create_group(store, path=path, format=kind[6:], attributes={"name": path})
                if filled:
                    group.consolidate()
            else:
                array = tegula.create_array(store, path=path, shape=(len(path), 2), dtype="i4", format=kind)
                if filled:
                    array[0] = 3
        except tegula.TegulaError:
            continue
