"""Specs of TensorStore as views: arrays, casts and stacks, with a transform each; a spec may come from anyone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np

from tegula.engine.concurrency.pool import gather
from tegula.errors import MetadataError, SelectionError, UnsupportedError
from tegula.indexing import Transform
from tegula.stores.names import path_of_url
from tegula.stores.targets.paths import is_remote, scheme_of
from tegula.stores.targets.urls import ELSEWHERE
from tegula.views.deferred import Deferred
from tegula.views.document_transforms import counted_from, transform_from_json
from tegula.views.layers import Layer, arranged
from tegula.views.view import View, part_of

__all__ = ["DRIVERS", "DTYPES", "REVERSED", "SpecReader", "absolute"]

T = TypeVar("T")
DRIVERS: Final = {
    "zarr3": "zarr3", "zarr2": "zarr2", "zarr": "zarr2", "n5": "n5", "zarr1": "zarr1", "bcolz": "bcolz"
}  # fmt: skip
"""The format of an array by the driver of its spec; of two drivers TensorStore knows the last."""
REVERSED: Final = frozenset({"n5"})
"""The drivers whose arrays have the axes in the reverse of the order in which tegula shows them."""
DTYPES: Final = frozenset(
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()
)
"""The data types of TensorStore that NumPy has under the same name."""
_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "cast": frozenset({"base"}),
    "stack": frozenset({"layers"}),
    "": frozenset({"kvstore", "path", "field", "metadata", "fill_missing_data_reads"}),
}
_COMMON: Final = frozenset({"driver", "dtype", "transform"})
# what is expected of arrays, which are read as they are, and how much is kept and done at once
_IGNORED: Final = frozenset(
    {
        *("schema", "rank", "context", "cache_pool", "metadata_cache_pool", "data_copy_concurrency"),
        *("recheck_cached_data", "recheck_cached_metadata", "assume_metadata", "assume_cached_metadata"),
        "store_data_equal_to_fill_value",
    }
)
_FIXED: Final = {"open": True, "create": False, "delete_existing": False}
_KVSTORE: Final[Mapping[str, frozenset[str]]] = {
    "file": frozenset({"file_io_concurrency", "file_io_locking", "file_io_sync", "file_io_mode", "file_io_memmap"}),
    "s3": frozenset({"bucket", "s3_request_concurrency", "s3_request_retries"}),
    "gcs": frozenset({"bucket", "gcs_request_concurrency", "gcs_request_retries"}),
    "http": frozenset({"base_url", "http_request_concurrency", "http_request_retries"}),
}
"""The members of a kvstore besides its driver, path and context, none of which names other storage."""
_DEPTH: Final = 16
_OPENED: Final = 256  # arrays that are opened together


class SpecReader:
    """The reading of one document.

    Parameters
    ----------
    location : str
        Where the document is, for errors.
    folder : str
        The directory that relative paths are relative to.
    remote : bool
        Whether the document is elsewhere, so that it can't name arrays on this machine.
    mode : str
        The mode in which arrays are opened.
    storage_options : mapping or None
        Settings of the arrays' storage; for arrays that a document elsewhere names, only in the storage that it is in.
    open_array : callable
        Opens an array.
    """

    def __init__(
        self,
        location: str,
        folder: str,
        remote: bool,
        mode: str,
        storage_options: Mapping[str, Any] | None,
        open_array: Callable[..., Any],
    ) -> None:
        self.location, self.folder, self.remote, self.mode = location, folder, remote, mode
        self.options, self.open_array = storage_options, open_array

    def layer(self, spec: Any, depth: int = 0) -> Layer:
        """Return the view that a spec describes, with the origin of its domain.

        Raises
        ------
        MetadataError, UnsupportedError
            If the spec is not valid, or says something that tegula does not read.
        """
        if depth > _DEPTH:
            raise MetadataError(f"specs are nested more than {_DEPTH} levels deep", field="layers")
        driver = _member(spec, "driver", str, "")
        if driver not in DRIVERS and driver not in ("cast", "stack"):
            raise UnsupportedError(f"views of the driver {driver!r:.40} are not read", field="driver")
        _check_members(spec, _COMMON | _MEMBERS.get(driver, _MEMBERS[""]))
        transform, begin = transform_from_json(spec["transform"]) if "transform" in spec else (None, ())
        if driver in DRIVERS:
            if transform is not None and driver in REVERSED:
                transform = Transform(transform.shape, transform.maps[::-1], transform.base[::-1], transform.names)
            view = self._array(spec, DRIVERS[driver], transform)
            if transform is None and driver in REVERSED:
                view = view.T
            return Layer(view, begin if transform is not None else (0,) * view.ndim)
        if driver == "stack":
            inner = self._stack(spec, depth)
        else:
            inner = self.layer(spec.get("base"), depth + 1)
            inner = Layer(inner.view.astype(_dtype(_member(spec, "dtype", str, None))), inner.begin)
        return inner if transform is None else Layer(_through(inner, transform), begin)

    def _stack(self, spec: Mapping[str, Any], depth: int) -> Layer:
        """Return the view of layers, which may lie anywhere."""
        specs = _member(spec, "layers", list, None)
        if (dtype := spec.get("dtype")) is not None:  # it is that of all layers
            specs = [{"dtype": dtype, **one} if isinstance(one, Mapping) else one for one in specs]
        read = partial(self.layer, depth=depth + 1)
        layers = [*map(read, specs)] if all(map(_is_described, specs)) else gather(read, specs, _OPENED)
        if not layers or not layers[0].begin:
            raise MetadataError("a stack has at least one layer, with at least one dimension", field="layers")
        return arranged(layers, self.location)

    def _array(self, spec: Mapping[str, Any], format: str, transform: Transform | None) -> View:
        target = _target(spec, self.folder, self.remote)
        # a document from elsewhere does not choose who receives secrets
        shares = is_remote(target) and (not self.remote or _same_origin(target, self.folder))
        options = self.options if shares else None
        how: dict[str, Any] = {"format": format, "storage_options": options, "missing_chunks": None}
        if "fill_missing_data_reads" in spec:
            how["missing_chunks"] = "fill" if _member(spec, "fill_missing_data_reads", bool, True) else "error"
        open_it = partial(self.open_array, target, self.mode, **how)
        if transform is None or not _is_described(spec):
            view: View = open_it().lazy
            if field := spec.get("field"):
                view = view[_member({"field": field}, "field", str, None)]
            return view if transform is None else _through(Layer(view, (0,) * view.ndim), transform)
        requests = _OPENED if is_remote(target) else 0
        base = Deferred(open_it, target, len(transform.maps), _dtype(spec["dtype"]), requests, self.mode == "r")
        return View(base, counted_from((0,) * len(transform.maps), transform), None, None)


def absolute(spec: Any, folder: str, remote: bool, depth: int = 0) -> dict[str, Any]:
    """Return a spec in which arrays are named by absolute paths and URLs, for TensorStore's own interface.

    Raises
    ------
    MetadataError, UnsupportedError
        As for `SpecReader.layer`, as far as it is about nesting and the names of arrays.

    Examples
    --------
    >>> absolute({"driver": "zarr3", "kvstore": {"driver": "file", "path": "a/"}}, "/data", False)
    {'driver': 'zarr3', 'kvstore': {'driver': 'file', 'path': '/data/a/'}}
    """
    if depth > _DEPTH:
        raise MetadataError(f"specs are nested more than {_DEPTH} levels deep", field="layers")
    made: dict[str, Any] = {**_member({"spec": spec}, "spec", dict, None)}
    if "layers" in made:
        made["layers"] = [absolute(one, folder, remote, depth + 1) for one in _member(made, "layers", list, None)]
    if "base" in made:
        made["base"] = absolute(made["base"], folder, remote, depth + 1)
    if "kvstore" in made:
        target = f"{_target(made, folder, remote)}/"
        made["kvstore"] = target if is_remote(target) else {"driver": "file", "path": target}
        made.pop("path", None)
    return made


def _target(spec: Mapping[str, Any], folder: str, remote: bool) -> str:
    """Return the path or URL of the array that a spec names."""
    text, path = _address(spec.get("kvstore")), _member(spec, "path", str, "")
    text = (text.rstrip("/") + "/" + path.strip("/") if path else text).rstrip("/")
    if "|" in text:
        raise UnsupportedError("a view's document can't name its arrays by pipelines of URLs", field="kvstore")
    if remote and (is_remote(text) or "::" in text):
        scheme = scheme_of(text)
        if "::" in text or scheme is None or scheme[1].lower() not in ELSEWHERE:
            known = ", ".join(sorted(ELSEWHERE))
            raise UnsupportedError(
                f"a view's document elsewhere names arrays beside it, or by one URL of {known}", field="kvstore"
            )
    if is_remote(text):
        return text
    local = path_of_url(text) if text.lower().startswith("file:") else text
    if not remote:
        return os.path.join(folder, local)
    if os.path.isabs(local) or local != text or ".." in local.split("/") or scheme_of(local):
        raise UnsupportedError("a view's document elsewhere can't name arrays on this machine", field="kvstore")
    return f"{folder}/{local}"


def _address(kvstore: Any) -> str:
    """Return the path or URL that a kvstore stands for."""
    if isinstance(kvstore, str):
        return kvstore
    if not isinstance(kvstore, Mapping):
        raise MetadataError("a view's spec names its array by a URL or a kvstore", field="kvstore")
    driver, path = _member(kvstore, "driver", str, ""), _member(kvstore, "path", str, "")
    if driver not in _KVSTORE:
        raise UnsupportedError(f"the driver {driver!r:.40} of a kvstore is not read", field="kvstore")
    _check_members(kvstore, {"driver", "path"} | _KVSTORE[driver])
    if driver == "file":
        return path
    if driver == "http":
        return _member(kvstore, "base_url", str, None).rstrip("/") + "/" + path.lstrip("/")
    return f"{'s3' if driver == 's3' else 'gs'}://{_member(kvstore, 'bucket', str, None)}/{path}"


def _is_described(spec: Any) -> bool:
    """Return whether a spec says all of an array that views need, so that it need not be opened."""
    return isinstance(spec, Mapping) and {"transform", "dtype", "kvstore"} <= spec.keys() and not spec.get("field")


def _same_origin(one: str, other: str) -> bool:
    """Return whether two URLs name storage at one place, for which credentials are meant."""
    return one.split("/")[:3] == other.split("/")[:3]


def _check_members(spec: Mapping[str, Any], known: frozenset[str] | set[str]) -> None:
    """Refuse a member that says something which would not be done."""
    for name in sorted(spec.keys() - known - _IGNORED):
        if name not in _FIXED or spec[name] is not _FIXED[name]:
            raise UnsupportedError(f"the member {name!r:.40} of a view's spec is not read", field=name)


def _member(spec: Any, name: str, kind: type[T], default: Any) -> T:
    if not isinstance(spec, Mapping):
        raise MetadataError(f"a view's spec is an object, not {spec!r:.40}")
    value = spec.get(name, default)
    if not isinstance(value, kind):
        raise MetadataError(f"{value!r:.40} can't be the member {name} of a view's spec", field=name)
    return value


def _dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str) or name not in DTYPES:
        raise UnsupportedError(f"the data type {name!r:.40} of a view's spec is not read", field="dtype")
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def _through(layer: Layer, transform: Transform) -> View:
    """Return the part of a layer that a transform selects."""
    view = layer.view
    if len(transform.maps) != view.ndim:
        raise MetadataError(f"a transform to {len(transform.maps)} dimensions, of {view.ndim}", field="transform")
    inner = counted_from(layer.begin, transform)
    try:
        inner.check(view.shape)
    except SelectionError:
        raise MetadataError("a transform leaves the array or view that it is of", field="transform") from None
    return part_of(view, inner)
