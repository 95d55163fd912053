"""Views stored as JSON: the specs of TensorStore for arrays, casts and stacks, with a transform each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np

from tegula.errors import MetadataError, SelectionError, TegulaError, UnsupportedError
from tegula.formats.documents import load
from tegula.indexing import Affine, Transform
from tegula.indexing.transform import OutputMap
from tegula.stores.local.store import LocalStore
from tegula.stores.names import path_of_url
from tegula.stores.targets.opening import store_of
from tegula.stores.targets.paths import is_remote, local_path, scheme_of
from tegula.views.deferred import Deferred
from tegula.views.joined import Joined, join
from tegula.views.view import View

__all__ = ["open_view", "save_view"]

_DRIVERS: Final = {"zarr3": "zarr3", "zarr": "zarr2", "zarr2": "zarr2", "zarr1": "zarr1", "bcolz": "bcolz"}
_NAMES: Final = {"zarr3": "zarr3", "zarr2": "zarr", "zarr1": "zarr1", "bcolz": "bcolz"}
_DTYPES: Final = frozenset(
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()
)
_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "cast": frozenset({"driver", "base", "dtype", "transform"}),
    "stack": frozenset({"driver", "layers", "dtype", "transform"}),
    "": frozenset({"driver", "kvstore", "path", "field", "dtype", "transform"}),
}
_DEPTH: Final = 16
_HEAD: Final = 2**16  # bytes at the beginning of a document, in which its driver is
_MOST: Final = 2**62
_REMOTE_READS: Final = 32


# --- writing


def save_view(view: View, path: str | os.PathLike[str]) -> None:
    """Store a view as a JSON document, which `tegula.open` opens; its arrays are named in it, and not copied.

    The document is a spec of TensorStore, which opens it too if it has drivers for the formats. Arrays in the directory
    of the document or below it are named by relative paths, so that they can be moved together. Credentials are not
    stored.

    Parameters
    ----------
    view : View
        The view, of stored arrays on this machine or at URLs.
    path : str or path
        The document, on this machine; by custom its name ends in ``.json``. It is replaced in one step.

    Raises
    ------
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
    folder, name = os.path.split(os.path.abspath(local))
    text = json.dumps(_spec_of(view, folder), indent=1)
    LocalStore(folder).set(name, text.encode() + b"\n")


def _spec_of(view: View, folder: str) -> dict[str, Any]:
    """Return the spec of a view."""
    base: Any = view._base
    transform = _transform_to_json(view._transform)
    if isinstance(base, Joined):
        layers = [_layer_of(base, number, folder) for number in range(len(base.members))]
        spec: dict[str, Any] = {"driver": "stack", "layers": layers, "transform": transform}
    else:
        store, node, format = base.node
        if format not in _NAMES:
            raise UnsupportedError(f"a document can't name arrays of {format}, whose axes it has in reverse order")
        spec = {"driver": _NAMES[format], "kvstore": _kvstore_of(store, node, folder)}
        if view._field is not None:
            if not isinstance(view._field, str):
                raise UnsupportedError("a document can't select several fields of records", path=view.location)
            spec["field"] = view._field
        spec["transform"] = transform
    if view._stored_type.name in _DTYPES:
        spec["dtype"] = view._stored_type.name
    if view._type is None or view._type == view._stored_type:
        return spec
    if view._type.name not in _DTYPES:
        raise UnsupportedError(f"a document can't convert to {view._type}", path=view.location)
    return {"driver": "cast", "dtype": view._type.name, "base": spec}


def _layer_of(base: Joined, number: int, folder: str) -> dict[str, Any]:
    """Return the spec of a member, with its domain where it lies in the whole."""
    spec = _spec_of(base.members[number], folder)
    inner = spec["base"] if spec["driver"] == "cast" else spec
    start, axis = int(base.starts[number]), base.axis
    transform = inner["transform"]
    transform["input_inclusive_min"][axis] += start
    transform["input_exclusive_max"][axis] += start
    for output in transform["output"]:
        if output.get("input_dimension") == axis:
            output["offset"] -= output["stride"] * start
    return spec


def _transform_to_json(transform: Transform) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    for one in transform.maps:
        if not isinstance(one, Affine):
            # JSON does not tell the shape of an array without elements
            output.append({"index_array": one.tolist()} if 0 not in transform.shape else {"offset": 0})
        elif one.axis < 0:
            output.append({"offset": one.start})
        else:
            output.append({"input_dimension": one.axis, "offset": one.start, "stride": one.step})
    document: dict[str, Any] = {
        "input_inclusive_min": [0] * len(transform.shape),
        "input_exclusive_max": [*transform.shape],
        "output": output,
    }
    if transform.names is not None:
        document["input_labels"] = [name or "" for name in transform.names]
    return document


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
    raw = None
    with suppress(TegulaError):  # what it is and can't be read for is said by the store that it is opened as
        store = store_of(folder, read_only=True, storage_options=storage_options if remote else None)
        # references are JSON, too, and may be large
        raw = store.get(name) if b'"driver"' in (store.get(name, (0, _HEAD)) or b"") else None
    if raw is None:
        return None
    document = load(raw, name)
    if not isinstance(document.get("driver"), str):
        return None
    try:
        return _Reading(folder, remote, mode, storage_options, open_array).view(document, 0)[0]
    except TegulaError as error:
        raise error.within(path=text) from None


class _Reading:
    """The reading of one document."""

    def __init__(
        self,
        folder: str,
        remote: bool,
        mode: str,
        storage_options: Mapping[str, Any] | None,
        open_array: Callable[..., Any],
    ) -> None:
        self.folder, self.remote, self.mode, self.options = folder, remote, mode, storage_options
        self.open_array = open_array

    def view(self, spec: Any, depth: int) -> tuple[View, tuple[int, ...]]:
        """Return the view that a spec describes, moved to the origin, and where its domain begins."""
        if depth > _DEPTH:
            raise MetadataError(f"specs are nested more than {_DEPTH} levels deep", field="layers")
        driver = _member(spec, "driver", str, "")
        if driver not in _DRIVERS and driver not in ("cast", "stack"):
            raise UnsupportedError(f"views of the driver {driver!r:.40} are not read", field="driver")
        if unknown := sorted(set(spec) - _MEMBERS.get(driver, _MEMBERS[""])):
            raise UnsupportedError(f"the member {unknown[0]!r:.40} of a view's spec is not known", field=unknown[0])
        transform, begin = _transform_from_json(spec["transform"]) if "transform" in spec else (None, ())
        if driver in _DRIVERS:
            view = self._array(spec, _DRIVERS[driver], transform)
            return view, begin if transform is not None else (0,) * view.ndim
        if driver == "stack":
            view, origin = self._stack(_member(spec, "layers", list, None), depth)
        else:
            view, origin = self.view(spec.get("base"), depth + 1)
            view = view.astype(_dtype(_member(spec, "dtype", str, None)))
        return (view, origin) if transform is None else (_through(view, transform, origin), begin)

    def _stack(self, layers: Sequence[Any], depth: int) -> tuple[View, tuple[int, ...]]:
        """Return the view of layers that lie side by side, and where its domain begins."""
        placed = [self.view(layer, depth + 1) for layer in layers]
        if not placed or not placed[0][1]:
            raise MetadataError("a stack has at least one layer, with at least one dimension", field="layers")
        origin = placed[0][1]
        differ = {axis for _, begin in placed for axis, pair in enumerate(zip(begin, origin)) if len({*pair}) > 1}
        axis = min(differ, default=0)
        end = origin[axis]
        for view, begin in placed:
            if len(differ) > 1 or len(begin) != len(origin) or begin[axis] != end:
                text = "layers of a stack that do not lie side by side along one axis are not read"
                raise UnsupportedError(text, field="layers")
            end += view.shape[axis]
        return join([view for view, _ in placed], axis), origin

    def _array(self, spec: Mapping[str, Any], format: str, transform: Transform | None) -> View:
        target = self._target(spec.get("kvstore"), _member(spec, "path", str, ""))
        own = self.options if is_remote(target) and _same_origin(target, self.folder) else None
        open_it = partial(self.open_array, target, self.mode, format=format, storage_options=own)
        field = spec.get("field")
        dtype = spec.get("dtype")
        if transform is None or dtype is None or field:
            view: View = open_it().lazy
            view = view if not field else view[_member(spec, "field", str, None)]
            return view if transform is None else _through(view, transform, (0,) * view.ndim)
        concurrency = _REMOTE_READS if is_remote(target) else 0
        base = Deferred(open_it, target, len(transform.maps), _dtype(dtype), concurrency, self.mode == "r")
        return View(base, transform, None, None)

    def _target(self, kvstore: Any, path: str) -> str:
        """Return the path or URL of an array."""
        text: str
        if isinstance(kvstore, Mapping):
            driver, inner = kvstore.get("driver"), _member(kvstore, "path", str, "")
            if driver == "file":
                text = inner
            elif driver in ("s3", "gcs"):
                scheme = "s3" if driver == "s3" else "gs"
                text = f"{scheme}://{_member(kvstore, 'bucket', str, None)}/{inner}"
            elif driver == "http":
                text = _member(kvstore, "base_url", str, None).rstrip("/") + "/" + inner.lstrip("/")
            else:
                raise UnsupportedError(f"the driver {driver!r:.40} of a kvstore is not read", field="kvstore")
        elif isinstance(kvstore, str):
            text = kvstore
        else:
            raise MetadataError("a view's spec names its array by a URL or a kvstore", field="kvstore")
        text = (text.rstrip("/") + "/" + path.strip("/") if path else text).rstrip("/")
        if is_remote(text):
            return text
        local = path_of_url(text) if text.startswith("file:") else text
        if not self.remote:
            return os.path.join(self.folder, local)
        if os.path.isabs(local) or text.startswith("file:") or ".." in local.split("/") or scheme_of(local):
            raise UnsupportedError("a view's document elsewhere can't name arrays on this machine", field="kvstore")
        return f"{self.folder}/{local}"


def _same_origin(one: str, other: str) -> bool:
    """Return whether two URLs name storage at one place, for which credentials are meant."""
    return one.split("/")[:3] == other.split("/")[:3]


def _member(spec: Any, name: str, kind: type, default: Any) -> Any:
    if not isinstance(spec, Mapping):
        raise MetadataError(f"a view's spec is an object, not {spec!r:.40}")
    value = spec.get(name, default)
    if not isinstance(value, kind):
        raise MetadataError(f"{value!r:.40} can't be the member {name} of a view's spec", field=name)
    return value


def _dtype(name: Any) -> np.dtype[Any]:
    if name not in _DTYPES:
        raise UnsupportedError(f"the data type {name!r:.40} of a view's spec is not read", field="dtype")
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def _through(view: View, transform: Transform, origin: tuple[int, ...]) -> View:
    """Return the part of a view that a transform selects, which counts from the origin of the view's domain."""
    if len(transform.maps) != view.ndim:
        raise MetadataError(f"a transform to {len(transform.maps)} dimensions, of {view.ndim}", field="transform")
    maps: list[OutputMap] = []
    for one, low in zip(transform.maps, origin):
        maps.append(one._replace(start=one.start - low) if isinstance(one, Affine) else one - low)
    inner = Transform(transform.shape, tuple(maps), (), transform.names)
    try:
        inner.check(view.shape)
    except SelectionError:
        raise MetadataError("a transform leaves the array or view that it is of", field="transform") from None
    return View(view._base, view._transform.after(inner), view._field, view._type)


def _transform_from_json(document: Any) -> tuple[Transform, tuple[int, ...]]:
    """Return a transform whose domain begins at 0, and where the domain of the document begins."""
    known = {
        "input_inclusive_min", "input_exclusive_max", "input_inclusive_max", "input_shape", "input_labels", "output",
        "input_rank",
    }  # fmt: skip
    if not isinstance(document, Mapping) or set(document) - known:
        raise MetadataError("a transform has members that are not known", field="transform")
    lows, highs = document.get("input_inclusive_min"), document.get("input_exclusive_max")
    if highs is None and "input_inclusive_max" in document:
        highs = [number + 1 for number in _integers(document["input_inclusive_max"])]
    if highs is None and "input_shape" in document:
        sizes = _integers(document["input_shape"])
        lows = [0] * len(sizes) if lows is None else _integers(lows)
        highs = [low + size for low, size in zip(lows, sizes)]
    if highs is None:
        raise UnsupportedError("a transform without bounds is not read", field="transform")
    highs = _integers(highs)
    lows = [0] * len(highs) if lows is None else _integers(lows)
    if len(lows) != len(highs) or any(low > high for low, high in zip(lows, highs)) or len(lows) > 32:
        raise MetadataError("the bounds of a transform are not valid", field="transform")
    shape = tuple([high - low for low, high in zip(lows, highs)])
    labels = document.get("input_labels")
    names = None
    if labels is not None:
        if not isinstance(labels, list) or len(labels) != len(shape) or not all(isinstance(one, str) for one in labels):
            raise MetadataError("the labels of a transform are not valid", field="transform")
        names = tuple([label or None for label in labels]) if any(labels) else None
    output = document.get("output")
    if output is None:
        output = [{"input_dimension": axis} for axis in range(len(shape))]
    if not isinstance(output, list) or len(output) > 32:
        raise MetadataError("the output of a transform is not valid", field="transform")
    maps = [_map_from_json(one, lows, shape) for one in output]
    used = [one.axis for one in maps if isinstance(one, Affine) and one.axis >= 0]
    if len(used) != len({*used}):
        raise UnsupportedError("a transform that uses a dimension twice is not read", field="transform")
    return Transform(shape, tuple(maps), (), names), tuple(lows)


def _map_from_json(document: Any, lows: list[int], shape: tuple[int, ...]) -> OutputMap:
    if not isinstance(document, Mapping) or set(document) - {"offset", "stride", "input_dimension", "index_array"}:
        raise MetadataError("an output map of a transform is not valid", field="transform")
    offset, stride = _integers([document.get("offset", 0), document.get("stride", 1)])
    if "index_array" in document:
        try:
            array = np.array(document["index_array"])
        except (ValueError, TypeError, OverflowError):
            array = np.zeros(0)
        fits = array.ndim == len(shape) and all(length in (1, size) for length, size in zip(array.shape, shape))
        if array.dtype.kind not in "iu" or not fits:
            raise MetadataError("an index array of a transform is not valid", field="transform")
        made = array.astype(np.int64) * stride + offset
        if made.size and (int(made.min()) < 0 or not stride):
            raise MetadataError("an index array of a transform is not valid", field="transform")
        return Affine(-1, int(made.reshape(-1)[0]), 0) if made.size == 1 else made
    axis = document.get("input_dimension")
    if axis is None:
        if offset < 0:
            raise MetadataError("an offset of a transform is negative", field="transform")
        return Affine(-1, offset, 0)
    if type(axis) is not int or not 0 <= axis < len(shape) or not stride:
        raise MetadataError("an input dimension of a transform is not valid", field="transform")
    start = offset + stride * lows[axis]
    if shape[axis] and min(start, start + stride * (shape[axis] - 1)) < 0:
        raise MetadataError("a transform leaves the array that it is of", field="transform")
    return Affine(axis, start, stride)


def _integers(values: Any) -> list[int]:
    """Return integers of a document; one in brackets is a bound that may move."""
    made: list[Any] = [*values] if isinstance(values, list) else [""]
    made = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in made]
    if not all(type(one) is int and abs(one) < _MOST for one in made):
        raise MetadataError("a transform has bounds that are no integers", field="transform")
    return made
