"""One data set stored into one group: new arrays, existing arrays that grow, and regions of these."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import xarray as xr
from xarray import Variable, conventions
from xarray.backends.common import ArrayWriter

from tegula.arrays.array import Array
from tegula.arrays.creation import new_array
from tegula.engine.concurrency.pool import gather
from tegula.errors import MetadataError, NotFoundError, TegulaError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.metadata.times import time_units
from tegula.stores import MemoryStore
from tegula.xarray.checking import checked, native_times
from tegula.xarray.dimensions import dimensions_of
from tegula.xarray.encoding import (
    EncodingTypeError,
    encode_attributes,
    encode_coordinates,
    encode_variable,
    options_of,
)
from tegula.xarray.growing import check_lengths, reserve
from tegula.xarray.regions import region_of
from tegula.xarray.variables import variable_of

__all__ = ["EncodedDataset", "GroupWriter"]

_DURATION: Final = {"dtype": "timedelta64"}  # units without a date are of durations
_NAMELESS: Final = "__values__"  # as xarray stores and reads a variable called None


@dataclass(frozen=True)
class EncodedDataset:
    """A data set that fits a group: what `GroupWriter.encoded` returns, and `GroupWriter.store` stores.

    Parameters
    ----------
    new : dict of str to (Variable, dict)
        New variables, encoded, with the options of `new_array`, by the names of their arrays.
    changed : dict of str to Variable
        Variables that exist, encoded as they are stored.
    region : dict of str to slice
        The part of each dimension to write.
    attributes : dict
        The attributes of the group, which the mode ``r+`` leaves as they are.
    """

    new: dict[str, tuple[Variable, dict[str, Any]]]
    changed: dict[str, Variable]
    region: dict[Hashable, slice]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class GroupWriter:
    """A group, and how to store a data set into it; most members are arguments of `tegula.xarray.write`.

    With `is_new` the group does not exist yet, or will be replaced.
    """

    group: Group
    is_new: bool
    mode: str
    append_dim: Hashable | None = None
    region: Any = None
    write_empty_chunks: bool | None = None

    def encoded(self, dataset: xr.Dataset, encoding: Mapping[Any, Mapping[str, Any]]) -> EncodedDataset:
        """Encode a data set. All errors in the data set are raised here, before anything is stored."""
        names = {name: _stored_name(name) for name in dataset.variables}
        _check_chunked(dataset)
        self._check_encoding(dataset, encoding)
        region = {}
        if self.region is not None:
            region = region_of(dataset, self.region, self._stored, self.append_dim)
            dataset = dataset.drop_vars(dataset.indexes)  # which a region can't change
        self._check_dimension()

        # existing variables as they are stored, new ones by their own encoding
        variables, attributes = encode_coordinates(dataset)
        for name, wanted in encoding.items():
            variables[name].encoding = dict(wanted)
        new = [name for name in variables if names[name] not in self._arrays]
        if self.mode == "r+" and new:
            raise MetadataError(
                f"dataset contains non-pre-existing variables {new!r}; mode='r+' writes those that exist, mode='a' "
                "creates others",
                path=self.group.location,
            )
        created = {}
        for name in new:
            given = variables[name]
            variable = encode_variable(given, name, self.group.format)
            place = f"{self.group.location}/{names[name]}"
            added = {key: value for key, value in variable.attrs.items() if key not in given.attrs}
            variable = checked(given, variable, name, place, added, is_new=True)
            options = options_of(
                variable,
                name,
                self.group.format,
                checked=name in encoding,
                write_empty_chunks=self.write_empty_chunks,
            )
            self._check_options(names[name], options)
            created[names[name]] = variable, options
        existing = {names[name]: variables[name] for name in variables if name not in new}
        if self.append_dim is not None:
            self._check_labels(dataset)
        changed = {name: self._fitted(name, variable, region) for name, variable in self._like_stored(existing).items()}
        if self.mode == "a-" and self.append_dim is not None:
            changed = {name: variable for name, variable in changed.items() if self.append_dim in variable.dims}
        if growing := self._growing(changed):
            check_lengths(growing, self.append_dim)
        own = {} if self.mode == "r+" else encode_attributes(attributes, self.group.location)
        return EncodedDataset(created, changed, region, own)

    def store(self, data: EncodedDataset, group: Group, writer: ArrayWriter) -> None:
        """Store metadata, attributes and elements in memory in a group; leave chunked elements to `writer`."""
        if self.mode != "r+" and data.attributes != group.attrs.asdict():
            group.attrs.put(data.attributes)
        created = gather(lambda name: self._create(group, name, data.new[name][1]), data.new, group.store.concurrency)
        for (variable, _), array in zip(data.new.values(), created):
            writer.add(variable.data, array)
        parts = {**data.region, **self._reserved(data.changed)}
        for name, variable in data.changed.items():
            array = self._arrays[name]
            if self.write_empty_chunks is not None:
                array = _with_empty_chunks(array, self.write_empty_chunks)
            writer.add(variable.data, array, tuple(parts.get(dim, slice(None)) for dim in variable.dims))

    # --- stored variables

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        return {} if self.is_new else dict(self.group.arrays())

    @cached_property
    def _stored(self) -> dict[str, Variable]:
        """The stored variables, still encoded."""
        dims = dimensions_of(self._arrays)
        return {name: variable_of(array, dims[name]) for name, array in self._arrays.items()}

    # --- checks

    def _check_encoding(self, dataset: xr.Dataset, encoding: Mapping[Any, Any]) -> None:
        for name, wanted in encoding.items():
            if not isinstance(wanted, Mapping):
                raise EncodingTypeError(f"the encoding of {name!r:.80} must be castable to a dict, not {wanted!r:.80}")
            if name not in dataset.variables:
                raise NotFoundError(f"encoding was given for {name!r:.80}, but there is no such variable")
            if name in self._arrays:
                raise MetadataError(
                    f"variable {name!r} already exists, but encoding was provided; it keeps its own",
                    path=self.group.location,
                )

    def _check_dimension(self) -> None:
        """Check that the dimension to append along is stored."""
        if self.append_dim is None or self.append_dim in self._arrays:
            return
        sizes = {dim: size for variable in self._stored.values() for dim, size in variable.sizes.items()}
        if self.append_dim not in sizes:
            raise MetadataError(
                f"append_dim={self.append_dim!r} does not match any existing dataset dimensions: {sizes!r:.200}",
                path=self.group.location,
            )

    def _check_labels(self, dataset: xr.Dataset) -> None:
        """Check that an append has the coordinates of other dimensions in the order of the stored ones."""
        for name in dataset.xindexes:
            stored = self._stored.get(str(name))
            if name == self.append_dim or stored is None or stored.dims != (name,) or dataset[name].dims != (name,):
                continue
            known, new = conventions.decode_cf_variable(str(name), stored).load().to_index(), dataset.indexes[name]
            if not known.equals(new) and known.sort_values().equals(new.sort_values()):
                raise MetadataError(
                    f"the coordinate {name!r:.80} is stored in another order, so elements would get the labels of "
                    "others; reindex the new data like the stored, as xarray.align does",
                    path=f"{self.group.location}/{name}",
                )

    def _fitted(self, name: str, variable: Variable, region: Mapping[Hashable, slice]) -> Variable:
        """Return a variable with its dimensions in the stored order, or raise if it does not fit the stored one."""
        stored = self._stored[name]
        if {*stored.dims} != {*variable.dims}:
            raise MetadataError(
                f"variable {name!r} already exists with different dimension names {stored.dims} != {variable.dims}",
                path=self.group.location,
            )
        variable = variable.transpose(*stored.dims)
        room = {dim: len(range(size)[region.get(dim, slice(None))]) for dim, size in stored.sizes.items()}
        sizes = {dim: size for dim, size in variable.sizes.items() if dim != self.append_dim}
        room.pop(self.append_dim, None)
        if room != sizes:
            raise MetadataError(
                f"variable {name!r} already exists with different dimension sizes: {room} != {sizes}; append_dim= "
                "makes a dimension longer, region= writes a part of it",
                path=self.group.location,
            )
        return variable

    def _like_stored(self, variables: Mapping[str, Variable]) -> dict[str, Variable]:
        """Encode variables like the stored ones."""
        if not variables:
            return {}
        decoded, _, _ = conventions.decode_cf_variables({name: self._stored[name] for name in variables}, {})
        for name, variable in variables.items():
            if not _can_hold(decoded[name].dtype, variable):
                raise MetadataError(
                    f"Mismatched dtypes for variable {name}: {decoded[name].dtype} is stored, and elements of "
                    f"{variable.dtype} can't be added to it",
                    path=self.group.location,
                )
        return {name: self._encoded_like(decoded[name], name, variable) for name, variable in variables.items()}

    def _encoded_like(self, decoded: Variable, name: str, variable: Variable) -> Variable:
        """Encode a variable like a stored one, which is given decoded."""
        place, stored = f"{self.group.location}/{name}", self._stored[name]
        if stored.dtype.kind in "mM":
            return native_times(variable, name, place, stored.dtype)
        if variable.dtype.kind in "mM" and "units" in stored.attrs:
            stays = _LikeStored(
                name, place, variable.dims, dict(decoded.encoding), dict(stored.attrs), self.group.format
            )
            if variable.chunks is None:
                return stays.encoded(variable)
            return Variable(variable.dims, variable.data.map_blocks(stays.block, dtype=stored.dtype))
        like = _checked(variable, name, decoded.dtype, self.group.location)
        like.encoding = decoded.encoding
        with _quietly():
            encoded = encode_variable(like, name, self.group.format)
        return checked(variable, encoded, name, place, stored.attrs, is_new=False)

    # --- changes of the stored variables

    def _check_options(self, name: str, options: dict[str, Any]) -> None:
        """Find what is wrong with the options of a new array, by creating it in memory."""
        try:
            group = Group(MemoryStore(), self.group.path, self.group.metadata, read_only=False)
            self._create(group, name, options)
        except TegulaError as error:
            error.path = f"{self.group.location}/{name}"
            raise

    def _create(self, group: Group, name: str, options: dict[str, Any]) -> Array:
        """Create an array in a group, under any name that xarray uses."""
        path = group.path_of(name)
        try:
            return new_array(group.store, path, format=self.group.format, reserved=True, has_parent=True, **options)
        except UnsupportedError as error:
            raise _UnsupportedVariable(error.message, path=path, field=error.field, codec=error.codec) from error
        except MetadataError as error:
            raise error.within(path=path) from None

    def _growing(self, variables: Mapping[str, Variable]) -> dict[str, tuple[Array, int]]:
        """Return the existing arrays that become longer, with the axis that grows; none without `append_dim`."""
        return {
            name: (self._arrays[name], variable.dims.index(self.append_dim))
            for name, variable in variables.items()
            if self.append_dim is not None and self.append_dim in variable.dims
        }

    def _reserved(self, variables: Mapping[str, Variable]) -> dict[Hashable, slice]:
        """Make existing arrays longer and return the new part of the dimension; nothing without `append_dim`."""
        growing = self._growing(variables)
        if self.append_dim is None or not growing:
            return {}
        count = next(variables[name].sizes[self.append_dim] for name in growing)
        start = reserve(growing, self.append_dim, count)
        return {self.append_dim: slice(start, start + count)}


@dataclass(frozen=True)
class _LikeStored:
    """How times are encoded like stored ones: in the same unit, or not at all."""

    name: str
    place: str
    dims: tuple[Hashable, ...]
    encoding: dict[str, Any]
    attributes: dict[str, Any]
    format: str

    def encoded(self, variable: Variable) -> Variable:
        """Return a variable in memory, encoded."""
        like = variable.copy(deep=False)
        like.encoding = dict(self.encoding)
        with _quietly():
            encoded = encode_variable(like, self.name, self.format)
        units, needed = self.attributes["units"], encoded.attrs.get("units")
        if time_units({**_DURATION, "units": units}) != time_units({**_DURATION, "units": needed}):
            raise MetadataError(
                f"the variable {self.name!r:.80} is stored in {units!r:.60}, which can't hold the new times exactly; "
                f"{needed!r:.60} would: rewrite it with these units first",
                path=self.place,
            )
        return checked(variable, encoded, self.name, self.place, self.attributes, is_new=False)

    def block(self, values: Any) -> Any:
        """Return a block of values, encoded."""
        return self.encoded(Variable(self.dims, values)).to_numpy()


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide warnings of values that can't be encoded as they are; these are refused afterwards."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.filterwarnings("ignore", "Time.* can't be serialized faithfully", UserWarning)
        warnings.filterwarnings("ignore", "saving variable .* with floating point data as an integer", RuntimeWarning)
        yield


class _UnsupportedVariable(UnsupportedError, ValueError):
    """A variable that the format can't hold; a ``ValueError`` in ``Dataset.to_zarr``."""


def _check_chunked(dataset: xr.Dataset) -> None:
    """Refuse chunked arrays of other libraries than dask, which can't write to arrays of tegula."""
    for name, variable in dataset.variables.items():
        if variable.chunks is not None and not hasattr(variable.data, "__dask_graph__"):
            library = type(variable.data).__module__.partition(".")[0]
            raise UnsupportedError(
                f"the variable {name!r:.80} is a chunked array of {library}; only those of dask can be written: "
                "compute it first"
            )


def _stored_name(name: Hashable) -> str:
    if name is None:
        return _NAMELESS
    if not isinstance(name, str):
        raise EncodingTypeError(f"Invalid name {name!r:.80} for a variable: a name must be a string or None")
    if not name:
        raise MetadataError("Invalid name '' for a variable: a string must be length 1 or longer")
    return name


def _can_hold(stored: np.dtype[Any], new: Variable) -> bool:
    """Return whether elements of a type can be added; `_checked` finds single elements that can't."""
    if stored.kind in "SU":
        fits = new.dtype.itemsize <= stored.itemsize or new.chunks is None
        return new.dtype.kind in "OT" or (new.dtype.kind == stored.kind and fits)
    if new.dtype.kind in "biufcmMOT" or new.dtype == stored:
        return True
    return new.dtype.kind in "SU" and stored.kind in "OT"


def _checked(variable: Variable, name: str, stored: np.dtype[Any], place: str) -> Variable:
    """Return a variable whose text is checked: now if it is in memory, else when a block of it is computed."""
    given = variable.dtype
    if stored.kind not in "SU" or (given.kind == stored.kind and given.itemsize <= stored.itemsize):
        return variable.copy(deep=False)
    if variable.chunks is None:
        return variable.copy(deep=False, data=_check_text(variable.to_numpy(), name, stored, place))
    data = variable.data
    checked = data.map_blocks(_check_text, name, stored, place, dtype=data.dtype, meta=data._meta)
    return variable.copy(deep=False, data=checked)


def _check_text(values: Any, name: str, stored: np.dtype[Any], place: str) -> Any:
    """Return text as it is, or raise if an element would change where all have a fixed length."""
    length = stored.itemsize // (4 if stored.kind == "U" else 1)
    for value in np.asarray(values).flat:
        if not isinstance(value, str if stored.kind == "U" else (str, bytes)):
            problem = f"is no text, but {type(value).__name__}"
        elif len(value) > length:
            problem = f"has the length {len(value)}"
        elif value and value[-1] in ("\0", 0):
            problem = "ends with a NUL character"
        elif stored.kind == "S" and not (isinstance(value, bytes) or value.isascii()):
            problem = "is not ASCII"
        else:
            continue
        shown = value.item() if isinstance(value, np.generic) else value
        raise MetadataError(
            f"Mismatched dtypes for variable {name!r:.80}: text of the fixed length {length} ({stored}) is stored, "
            f"which can't hold {shown!r:.40}: it {problem}",
            path=place,
        )
    return values


def _with_empty_chunks(array: Array, write_empty: bool) -> Array:
    stored = replace(array.stored, write_empty=write_empty)
    return Array(stored, array.path, read_only=False, allow_pickle=array.allow_pickle)
