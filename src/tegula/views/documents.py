"""Views stored as JSON: the specs of TensorStore for arrays, casts and stacks, with a transform each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from tegula.engine.concurrency.pool import gather
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats.documents import load
from tegula.stores import Store
from tegula.stores.local.store import LocalStore
from tegula.stores.names import path_of_url
from tegula.stores.targets.opening import store_of
from tegula.stores.targets.paths import is_remote, local_path, scheme_of
from tegula.views.document_transforms import transform_to_json
from tegula.views.joined import Joined
from tegula.views.layers import Gap
from tegula.views.specs import DRIVERS, DTYPES, REVERSED, SpecReader
from tegula.views.view import View

__all__ = ["open_view", "read_document", "save_view"]

_NAMES: Final = {format: driver for driver, format in DRIVERS.items()}
_HEAD: Final = 2**16  # bytes at the beginning of a document, in which its driver is


# --- writing


def save_view(view: View, path: str | os.PathLike[str]) -> None:
    """Store a view as a JSON document, which `tegula.open` opens; its arrays are named in it, and not copied.

    The document is a spec of TensorStore, which opens it too if it has drivers for the formats. Arrays in the directory
    of the document or below it are named by relative paths, so that they can be moved together. Credentials are not
    stored.

    Parameters
    ----------
    view : View or Array
        What to store: a view of stored arrays on this machine or at URLs; an array stands for all of it.
    path : str or path
        The document, on this machine. Its name ends in ``.json``. It is replaced in one step.

    Raises
    ------
    MetadataError
        If `view` is something else, or the name of the document does not end in ``.json``.
    UnsupportedError
        If an array is in memory or in an archive, or several fields of records are selected.

    Examples
    --------
    >>> import tegula, tempfile, os
    >>> directory = tempfile.mkdtemp()
    >>> a = tegula.create_array(f"{directory}/a.zarr", data=[1, 2, 3])
    >>> tegula.save_view(tegula.concat([a, a.lazy[::-1]]), f"{directory}/both.json")
    >>> tegula.open(f"{directory}/both.json")[2:][...]
    array([3, 3, 2, 1])
    """
    local = local_path(path)
    if local is None:
        raise UnsupportedError("the document of a view is stored on this machine only", path=str(path))
    if not local.endswith(".json"):
        raise MetadataError("the name of a view's document ends in .json", path=local)
    if not hasattr(type(view), "lazy"):
        raise MetadataError(f"only a view or an array is stored by save_view, not {view!r:.80}", path=local)
    folder, name = os.path.split(os.path.abspath(local))
    text = json.dumps(_spec_of(view.lazy, folder), indent=1)
    LocalStore(folder).set(name, text.encode() + b"\n")


def _spec_of(view: View, folder: str) -> dict[str, Any]:
    """Return the spec of a view."""
    base: Any = view._base
    if not isinstance(base, Joined) and hasattr(base.node[0], "view_at"):  # an array that is a view itself
        return _spec_of_shown(base.node[0].view_at(base.node[1]), view, folder)
    transform = transform_to_json(view._transform)
    if isinstance(base, Joined):
        if any(isinstance(base.members[end]._base, Gap) for end in (0, -1)):  # other gaps are where no layer is
            raise UnsupportedError("a document can't describe a stack with gaps at its edges", path=view.location)
        layer_of = partial(_layer_of, base, folder)
        wanted = [number for number, member in enumerate(base.members) if not isinstance(member._base, Gap)]
        spec: dict[str, Any] = {"driver": "stack", "layers": gather(layer_of, wanted, base.concurrency)}
        spec["transform"] = transform
    else:
        store, node, format = base.node
        if format not in _NAMES:
            raise UnsupportedError(f"a document can't name arrays of {format}", path=view.location)
        spec = {"driver": _NAMES[format], "kvstore": _kvstore_of(store, node, folder)}
        if view._field is not None:
            if not isinstance(view._field, str):
                raise UnsupportedError("a document can't select several fields of records", path=view.location)
            spec["field"] = view._field
        if base.missing_chunks is not None:
            spec["fill_missing_data_reads"] = base.missing_chunks == "fill"
        if spec["driver"] in REVERSED:
            transform["output"].reverse()
        spec["transform"] = transform
    if view._stored_type.name in DTYPES:
        spec["dtype"] = view._stored_type.name
    if view._type is None or view._type == view._stored_type:
        return spec
    return _cast(spec, view)


def _spec_of_shown(shown: View, view: View, folder: str) -> dict[str, Any]:
    """Return the spec of a view of an array that shows another view."""
    if view._field is not None and (shown._field is not None or shown._type is not None):
        raise UnsupportedError(
            "a document can't select a field of what it has selected or converted", path=view.location
        )
    field = shown._field if view._field is None else view._field
    spec = _spec_of(View(shown._base, shown._transform.after(view._transform), field, shown._type), folder)
    return spec if view._type is None else _cast(spec, view)


def _cast(spec: dict[str, Any], view: View) -> dict[str, Any]:
    """Return the spec of elements that are converted to the type of a view."""
    assert view._type is not None
    if view._type.name not in DTYPES:
        raise UnsupportedError(f"a document can't convert to {view._type}", path=view.location)
    return {"driver": "cast", "dtype": view._type.name, "base": spec}


def _layer_of(base: Joined, folder: str, number: int) -> dict[str, Any]:
    """Return the spec of a member, with its domain where it lies in the whole."""
    spec = _spec_of(base.members[number], folder)
    inner = spec
    while inner["driver"] == "cast":
        inner = inner["base"]
    start, axis = int(base.starts[number]), base.axis
    transform = inner["transform"]
    transform["input_inclusive_min"][axis] += start
    transform["input_exclusive_max"][axis] += start
    for output in transform["output"]:
        if output.get("input_dimension") == axis:
            output["offset"] -= output["stride"] * start
    return spec


def _kvstore_of(store: Any, path: str, folder: str) -> Any:
    """Return the kvstore of a node: a path, relative if the node is below the folder, or a URL."""
    if store.in_memory or store.in_archive:
        raise UnsupportedError("an array in memory or in an archive can't be named by a document", path=store.url)
    url = f"{store.url}/{path}".rstrip("/") + "/"
    if scheme_of(url) is None or not url.startswith("file:"):
        return url
    absolute = path_of_url(url)
    relative = os.path.relpath(absolute, folder)
    inside = not relative.startswith(os.pardir)
    return {"driver": "file", "path": (relative if inside else absolute).replace(os.sep, "/").rstrip("/") + "/"}


# --- reading


def open_view(
    target: Any, mode: str, storage_options: Mapping[str, Any] | None, open_array: Callable[..., Any]
) -> View | None:
    """Open the document of a view; return ``None`` if the target is something else.

    Raises
    ------
    MetadataError, UnsupportedError
        If the document is not valid, or says something that tegula does not read. A document elsewhere can't name
        arrays on this machine.
    """
    text = os.fspath(target)
    remote = is_remote(text)
    path = text if remote else local_path(text)
    if path is None or "::" in text or not (remote or os.path.isfile(path)):
        return None
    folder, _, name = (path if remote else os.path.abspath(path).replace(os.sep, "/")).rpartition("/")
    document = None
    with suppress(TegulaError):  # what it is and can't be read for is said by the store that it is opened as
        store = store_of(folder, read_only=True, storage_options=storage_options if remote else None)
        document = read_document(store, name)
    if document is None:
        return None
    try:
        return SpecReader(text, folder, remote, mode, storage_options, open_array).layer(document).view
    except TegulaError as error:
        raise error.within(path=text) from None


def read_document(store: Store, key: str) -> dict[str, Any] | None:
    """Return the document of a view; ``None`` if a value is something else, such as references, or missing.

    Raises
    ------
    MetadataError
        If it is not valid JSON.
    """
    if b'"driver"' not in (store.get(key, (0, _HEAD)) or b""):  # references are JSON, too, and may be large
        return None
    raw = store.get(key)
    document = {} if raw is None else load(raw, key)
    return document if isinstance(document.get("driver"), str) else None
