"""The columns of a table: their names in the table's documents, new columns, and new tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.chunking import as_length
from tegula.arrays.creation import completing, new_array, replaced, usual_chunks, writable_format
from tegula.arrays.growing import change_rows
from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.finding import children
from tegula.engine.documents.reading import documents_of
from tegula.engine.nodes.creating import create_node
from tegula.engine.nodes.deleting import delete_node
from tegula.engine.nodes.replacing import replacing
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats import Format, find_format
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import MemoryStore, Store
from tegula.stores.arguments import is_key
from tegula.tables.arrow_input import ArrowRows, is_arrow
from tegula.tables.row_input import as_column, as_columns, fitted, fitted_rows, pieces_to_append

__all__ = [
    "ORDER", "arrays_of_one_length", "attributes_of", "check_name", "column_names", "new_column", "new_table",
    "with_attributes", "with_names",
]  # fmt: skip

ORDER = "column-order"
"""The attribute with the names of the columns in order, for formats without tables."""


def column_names(metadata: GroupMetadata) -> tuple[str, ...] | None:
    """Return the names of a table's columns from its documents; ``None`` if these do not list them.

    Raises
    ------
    MetadataError
        If the attribute does not hold names of columns.
    """
    names = metadata.members if metadata.members is not None else metadata.attributes.get(ORDER)
    if names is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(is_key(name) and "/" not in name for name in names):
        raise MetadataError(f"{names!r:.80} are not column names", field=ORDER)
    if len({*names}) < len(names):
        raise MetadataError("two columns have the same name", field=ORDER)
    return tuple(names)


def arrays_of_one_length(store: Store, path: str, format: str) -> tuple[str, ...]:
    """Return the names of all arrays in a group, as columns of a group that does not list its columns.

    Raises
    ------
    MetadataError
        If the arrays directly in the group differ in length.
    """
    prefix = f"{path}/" if path else ""
    names = sorted(child[len(prefix) : -1] for child in children(store, prefix))
    documents = documents_of(store, [prefix + name for name in names], find_format(format).keys)
    nodes = {name: engine.read_metadata(store, prefix + name, format, own) for name, own in zip(names, documents)}
    shapes = {name: node.shape for name, node in nodes.items() if isinstance(node, ArrayMetadata)}
    if len({shape[:1] for shape in shapes.values()}) > 1 or () in shapes.values():
        raise MetadataError(f"the group is not a table: its arrays have the shapes {shapes}"[:400])
    return tuple(shapes)


def described(fmt: Format, attributes: Mapping[str, Any], names: Sequence[str]) -> GroupMetadata:
    """Return the metadata of a new table."""
    members = () if fmt.has_tables else None
    return with_names(GroupMetadata(format=fmt.name, attributes=dict(attributes), members=members), names)


def with_names(metadata: GroupMetadata, names: Sequence[str]) -> GroupMetadata:
    """Return the metadata of a table with another list of columns."""
    if metadata.members is not None:
        return replace(metadata, members=tuple(names))
    return replace(metadata, attributes={**metadata.attributes, ORDER: [*names]})


def attributes_of(metadata: GroupMetadata) -> Mapping[str, Any]:
    """Return the attributes of a table, without the one that lists the columns."""
    return {name: value for name, value in metadata.attributes.items() if name != _hidden(metadata)}


def with_attributes(metadata: GroupMetadata, change: Callable[[dict[str, Any]], dict[str, Any]]) -> GroupMetadata:
    """Return the metadata of a table with changed attributes; the one that lists the columns is kept.

    Raises
    ------
    MetadataError
        If the change sets the attribute that lists the columns.
    """
    hidden, before = _hidden(metadata), dict(metadata.attributes)
    kept = {ORDER: before.pop(ORDER)} if hidden and ORDER in before else {}
    after = change(before)
    if hidden and ORDER in after:
        raise MetadataError(f"the attribute {ORDER!r} holds the names of the columns")
    return replace(metadata, attributes={**kept, **after})


def _hidden(metadata: GroupMetadata) -> str | None:
    """Return the attribute that lists the columns; ``None`` if the format has tables."""
    return ORDER if metadata.members is None else None


def check_name(name: Any, format: str) -> str:
    """Return the name of a new column if it is valid.

    Raises
    ------
    MetadataError
        If it is not.
    """
    if not is_key(name) or "/" in name or name in find_format(format).keys:
        raise MetadataError(f"{name!r:.80} can't be the name of a column", field="columns")
    return str(name)


def new_column(
    store: Store,
    path: str,
    values: npt.NDArray[Any] | int,
    *,
    dtype: Any = None,
    format: str,
    chunks: Any = "auto",
    expectedlen: int | None = None,
    **creation: Any,
) -> Array:
    """Create the array of a column with its values, or with a number of fill values."""
    name = path.rpartition("/")[2]
    try:
        if isinstance(values, int):
            rows, data_type, parts = values, as_data_type(dtype), None
        else:
            data_type = as_data_type(_type_of(values, format) if dtype is None else dtype)
            parts = fitted(name, values, data_type)
            rows = len(parts)
        inner = () if parts is None else parts.shape[1:]
        if parts is None and data_type.numpy.subdtype is not None:
            inner, data_type = data_type.numpy.shape, as_data_type(data_type.numpy.base)
        shape = (rows, *inner) if expectedlen is None else (as_length(expectedlen, "expectedlen"), *inner)
        if isinstance(chunks, (int, np.integer)) and not isinstance(chunks, bool):
            chunks = [int(chunks)]  # the other axes are not cut
        elif chunks is None or (isinstance(chunks, str) and chunks == "auto"):
            chunks = usual_chunks(find_format(format), shape, data_type.itemsize)
        # rows are added below, since creating an array with rows stores every chunk in some formats
        overwrite, has_parent = creation.pop("overwrite", False), creation.pop("has_parent", False)
        with replacing(store, path, find_format(format), overwrite, "memory", has_parent=has_parent) as replacement:
            array = new_array(
                replacement.store, replacement.path, shape=(0, *inner), dtype=data_type, chunks=chunks, format=format,
                extra={"expectedlen": shape[0]}, filled=False, **creation, **replacement.options,
            )  # fmt: skip
            try:
                with completing(array):
                    if parts is None:
                        array.resize(rows, *inner)
                    elif rows:
                        array.append(parts)
            except BaseException:
                delete_node(replacement.store, replacement.path)
                raise
    except TegulaError as error:
        error.within(path=path, field=name)
        raise
    return replaced(replacement, array)


def _type_of(values: npt.NDArray[Any], format: str) -> Any:
    """Choose the data type for values; strings get a fixed width in bcolz, and variable length elsewhere."""
    if values.dtype.kind not in "OT":
        return values.dtype
    for kind, code in ((str, "U"), (bytes, "S")):
        if all(isinstance(item, kind) for item in values.flat):
            longest = max((len(item) for item in values.flat), default=1)
            return np.dtype(f"{code}{max(1, longest)}") if format == "bcolz" else kind
    if values.dtype.kind == "T":
        raise UnsupportedError("text with missing values can't be stored")
    return np.dtype(object)


def new_table(
    store: Store,
    path: str,
    columns: Any,
    *,
    format: str = "bcolz",
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    fill_values: Mapping[str, Any] | None = None,
    allow_pickle: bool = False,
    **options: Any,
) -> GroupMetadata:
    """Create a table in a store and return its metadata; see `tegula.create_table` for the parameters."""
    fmt = writable_format(format, store)
    if attributes is not None and not isinstance(attributes, Mapping):
        raise MetadataError(f"attributes must be a mapping, not {attributes!r:.80}", field="attributes")
    metadata = described(fmt, attributes or {}, ())
    source = ArrowRows(columns, fill_values, fixed_width=format == "bcolz") if is_arrow(columns) else None
    widths = _text_widths(source, format) if source else {}
    data = _new_data(source.take() if source else columns, format)
    unknown = [name for name in fill_values or {} if name not in data]
    if unknown:
        raise MetadataError(f"there is no column {unknown[0]!r:.80}", field="fill_values")
    creation: dict[str, dict[str, Any]] = {}
    for name, values in data.items():
        dtype = widths[name] if name in widths else _type_of(values, format)
        of_column = {key: _of_column(value, name) for key, value in options.items()}
        fill = {} if fill_values is None or name not in fill_values else {"fill_value": fill_values[name]}
        creation[name] = {
            "dtype": dtype, "format": format, "allow_pickle": allow_pickle, **of_column, **fill,
        }  # fmt: skip
        # everything is checked before anything is written
        new_column(MemoryStore(), name, values[:0], **creation[name])
    with replacing(store, path, fmt, overwrite, "lazy" if source else "memory") as replacement:
        create_node(replacement.store, replacement.path, fmt, metadata, **replacement.options)
        return _filled(replacement.store, replacement.path, fmt, metadata, data, creation, source)


def _filled(
    store: Store,
    path: str,
    fmt: Format,
    metadata: GroupMetadata,
    data: dict[str, Any],
    creation: dict[str, dict[str, Any]],
    source: ArrowRows | None,
) -> GroupMetadata:
    """Create the columns of a new table, add all rows, and list the columns; after an error, delete the table."""
    created = []

    def create(name: str) -> Array:
        below = f"{path}/{name}" if path else name
        array = new_column(store, below, data[name], has_parent=True, **creation[name])
        created.append(below)
        return array

    try:
        arrays = dict(zip(data, gather(create, data, store.concurrency)))
        if source and arrays:
            for piece in pieces_to_append(source, arrays):
                values = [*fitted_rows(piece, arrays).values()]
                change_rows([*arrays.values()], partial(engine.append_rows, values=values))
        return engine.update_documents(store, path, metadata, lambda now: with_names(now, [*data]))
    except BaseException:
        for below in created:
            delete_node(store, below)
        for key in engine.fetch_documents(store, path, fmt.keys):
            store.delete(f"{path}/{key}" if path else key)
        engine.forget(store, f"{path}/" if path else "")
        raise


def _text_widths(source: ArrowRows, format: str) -> dict[str, np.dtype[Any]]:
    """Return the types of columns of a stream that hold text of fixed width, which is as wide as the longest one."""
    kinds = {name: values.dtype for name, values in source.empty().items()}
    names = [name for name, dtype in kinds.items() if dtype.names or dtype.kind in "US"]
    widths: dict[str, np.dtype[Any]] = {}
    for piece in source.kept() if names and source.is_stream else ():
        for name in names:
            dtype = np.dtype(_type_of(piece[name], format))
            widths[name] = np.promote_types(widths.get(name, dtype), dtype)
    return widths


def _new_data(columns: Any, format: str) -> dict[str, Any]:
    if isinstance(columns, (np.dtype, list)):
        columns = np.empty(0, _as_dtype(columns))
    data = {check_name(name, format): as_column(values) for name, values in as_columns(columns).items()}
    lengths = {name: values.shape[0] if values.ndim else None for name, values in data.items()}
    if len({*lengths.values()}) > 1 or None in lengths.values():
        raise MetadataError(f"the columns differ in length: {lengths}"[:400], field="columns")
    return data


def _as_dtype(value: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except (TypeError, ValueError) as error:
        raise MetadataError(f"{value!r:.80} does not describe columns: {error}", field="columns") from error
    if dtype.names is None:
        raise MetadataError(f"{dtype} has no fields to use as columns", field="columns")
    return dtype


def _of_column(option: Any, name: str) -> Any:
    """Return an option's value for one column: by its name, or the same for all."""
    if not isinstance(option, Mapping) or isinstance(option.get("id", option.get("name")), str):
        return option
    return option.get(name, "auto")
