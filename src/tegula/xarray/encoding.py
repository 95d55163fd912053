"""Variables encoded for storage: values by the CF conventions of xarray, and the options of new arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import xarray as xr
from xarray import Variable, conventions
from xarray.backends.zarr import FillValueCoder, encode_zarr_attr_value, encode_zarr_variable
from xarray.coding.strings import check_vlen_dtype

from tegula.arrays.codec_parts import joined
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats.json_encoding import dump
from tegula.formats.keys import Style
from tegula.metadata.conventions import text_attribute
from tegula.xarray.variables import HAS_STRING_DTYPE

__all__ = ["EncodingTypeError", "encode_attributes", "encode_coordinates", "encode_variable", "options_of"]

_MASK: Final = "_FillValue"
_OTHER_MASKS: Final = "missing_value"
_KNOWN: Final = frozenset(
    "chunks shards compressors filters serializer cache_metadata write_empty_chunks chunk_key_encoding".split()
)
_DROPPED: Final = frozenset({"source", "original_shape", "preferred_chunks"})
"""Encoding that names the source of a variable, and has no effect on how the variable is stored."""


class EncodingTypeError(MetadataError, TypeError):
    """A value of a wrong type in an encoding, a region or an attribute; a ``TypeError`` in ``Dataset.to_zarr``."""


class _NotImplemented(UnsupportedError, NotImplementedError):
    """A variable that xarray can't encode; a ``NotImplementedError`` in ``Dataset.to_zarr``."""


def encode_coordinates(dataset: xr.Dataset) -> tuple[dict[Hashable, Variable], dict[Hashable, Any]]:
    """Return variables and attributes that name the coordinates, as ``Dataset.to_zarr`` does."""
    with _errors("the coordinates were"):
        variables, attributes = conventions.encode_dataset_coordinates(dataset)
    return dict(variables), dict(attributes)


def encode_variable(variable: Variable, name: Hashable, format: str) -> Variable:
    """Encode a variable by the CF conventions, as ``Dataset.to_zarr`` does.

    xarray encodes with one value that marks missing elements. The first one is chosen, and the others stay marks.
    """
    options: dict[str, Any] = {"zarr_format": 3 if format == "zarr3" else 2} if HAS_STRING_DTYPE else {}
    if isinstance(variable.attrs.get(_MASK), (np.datetime64, np.timedelta64)):  # the fill value of times in Zarr v2
        variable = variable.copy(deep=False)
        del variable.attrs[_MASK]
    marks: Any = variable.encoding.get(_OTHER_MASKS)
    one = variable.encoding.get(_MASK)
    several = marks is not None and (np.size(marks) > 1 or (one is not None and not _is_same(one, marks)))
    if several:
        variable = variable.copy(deep=False)
        one = np.ravel(marks)[0] if one is None else one
        variable.encoding = {**variable.encoding, _MASK: one}
        del variable.encoding[_OTHER_MASKS]
    with _errors(f"the variable {name!r:.80} was"):
        encoded: Variable = encode_zarr_variable(variable, name=name, **options)
    if several:
        encoded.attrs[_OTHER_MASKS] = marks
    return encoded


def _is_same(one: Any, other: Any) -> bool:
    are_nan = all(isinstance(value, (float, np.floating)) and np.isnan(value) for value in (one, other))
    return are_nan or np.array_equal(one, other)


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Raise xarray's errors as tegula's, which are of the same types; others only get a note."""
    try:
        yield
    except TegulaError as error:  # of data that tegula reads
        error.add_note(f"while {what} encoded")
        raise
    except TypeError as error:
        raise EncodingTypeError(f"{error}, while {what} encoded") from error
    except NotImplementedError as error:
        raise _NotImplemented(f"{error}, while {what} encoded") from error
    except (ValueError, OverflowError) as error:
        raise MetadataError(f"{error}, while {what} encoded") from error
    except Exception as error:
        error.add_note(f"while {what} encoded")
        raise


def encode_attributes(attributes: Mapping[Any, Any], place: str) -> dict[str, Any]:
    """Return attributes with NumPy arrays and numbers as Python lists and numbers.

    Raises
    ------
    EncodingTypeError
        If one can't be stored as JSON.
    """
    encoded = {name: encode_zarr_attr_value(value) for name, value in attributes.items()}
    for name, value in encoded.items():
        try:
            dump({name: value}, "attributes", Style())
        except MetadataError as error:
            raise EncodingTypeError(
                f"Invalid attribute in Dataset.attrs. {name!r:.80}: {error.message}", path=place
            ) from error
    return encoded


def options_of(
    variable: Variable, name: Hashable, format: str, *, checked: bool, write_empty_chunks: bool | None
) -> dict[str, Any]:
    """Return the options of ``Group.create_array`` for an encoded variable, without its elements.

    Parameters
    ----------
    variable : Variable
        The variable, encoded by `encode_variable`.
    name : str
        Its name, for errors.
    format : str
        ``"zarr2"`` or ``"zarr3"``.
    checked : bool
        Whether encoding without meaning here is an error, as for new variables but not for those read from a file.
    write_empty_chunks : bool, optional
        As for ``Group.create_array``; the encoding may not contradict it.

    Examples
    --------
    >>> variable = Variable("x", np.zeros(4, "f4"), {"units": "K"}, {"chunks": (2,), "compressors": None})
    >>> options = options_of(variable, "t", "zarr3", checked=True, write_empty_chunks=None)
    >>> options["chunks"], options["codecs"], options["fill_value"], options["attributes"]
    ((2,), [], nan, {'units': 'K'})
    """
    encoding = {key: value for key, value in variable.encoding.items() if key not in _DROPPED}
    known = _KNOWN | ({"fill_value"} if format == "zarr3" else set())
    attributes = dict(variable.attrs)
    if encoding.get(_MASK, 0) is None:  # no value marks missing elements
        del encoding[_MASK]
    elif _MASK in encoding:
        raise MetadataError(f"the encoding of {name!r} has a {_MASK} that could not be applied", field=_MASK)
    if checked and (unknown := [key for key in encoding if key not in known]):
        hint = f"; {_MASK} sets the fill value of Zarr v2" if "fill_value" in unknown else ""
        raise MetadataError(f"unexpected encoding parameters for the variable {name!r}: {unknown!r}{hint}")
    empty = encoding.get("write_empty_chunks", write_empty_chunks)
    if write_empty_chunks is not None and empty != write_empty_chunks:
        raise MetadataError(
            f'Differing "write_empty_chunks" values in encoding and parameters for {name!r}', field="write_empty_chunks"
        )
    dtype: Any = str if check_vlen_dtype(variable.dtype) is str else variable.dtype
    return {
        "shape": variable.shape,
        "dtype": dtype,
        "chunks": _chunks(variable, name, encoding.get("chunks")),
        "shards": encoding.get("shards"),
        "codecs": _codecs(encoding, format, is_text=dtype is str),
        "chunk_key_encoding": encoding.get("chunk_key_encoding"),
        "write_empty_chunks": empty,
        "fill_value": _fill_value(variable, attributes, encoding, format),
        "attributes": encode_attributes(attributes, str(name)),
        "dimension_names": [str(dim) for dim in variable.dims],
    }


def _fill_value(variable: Variable, attributes: dict[str, Any], encoding: Mapping[str, Any], format: str) -> Any:
    """Return the fill value. In Zarr v2 it also marks missing elements; in v3 an attribute has the value that does."""
    mask = attributes.pop(_MASK, None)
    if format == "zarr2":
        return mask
    if isinstance(mask, (str, bytes)):
        attributes.setdefault(_OTHER_MASKS, text_attribute(mask))
    elif mask is not None:
        try:
            attributes[_MASK] = FillValueCoder.encode(mask, variable.dtype)
        except (TypeError, ValueError) as error:
            raise EncodingTypeError(str(error), field=_MASK) from error
    fill = encoding.get("fill_value")
    if variable.dtype.kind not in "mM" and isinstance(fill, (np.datetime64, np.timedelta64)):
        fill = None  # of times that were read, which are stored as numbers now
    if fill is None:  # NaN, so that parts that were never written are missing
        fill = np.nan if variable.dtype.kind == "f" else 0
    return fill


def _chunks(variable: Variable, name: Hashable, wanted: Any) -> Any:
    """Return the chunks of a new array: those of the encoding, else those of dask, else automatic ones."""
    if _is_index(wanted):
        return (int(wanted),) * variable.ndim
    if isinstance(wanted, np.ndarray):
        wanted = wanted.tolist()
    is_automatic = wanted is None or (isinstance(wanted, str) and wanted == "auto")
    if not is_automatic and (isinstance(wanted, str) or not isinstance(wanted, Sequence)):
        raise EncodingTypeError(f"chunks of {name!r:.80} are integers or 'auto', not {wanted!r:.80}", field="chunks")
    if not is_automatic and len(wanted) == variable.ndim:
        if not all(isinstance(item, (list, tuple)) or _is_index(item) for item in wanted):
            raise EncodingTypeError(
                f"chunks are integers, one for each dimension; those of {name!r} are {wanted!r:.80}", field="chunks"
            )
        return tuple(wanted)
    if not variable.chunks:
        return "auto"
    # tasks may write parts of chunks, so chunks of dask that are not uniform are no error
    return tuple(max(1, *lengths) if _uneven(lengths) else max(1, lengths[0]) for lengths in variable.chunks)


def _is_index(value: Any) -> bool:
    return hasattr(value, "__index__") and not getattr(value, "ndim", 0)


def _uneven(lengths: tuple[int, ...]) -> bool:
    return len({*lengths[:-1]}) > 1 or lengths[-1] > lengths[0]


def _codecs(encoding: Mapping[str, Any], format: str, *, is_text: bool) -> Any:
    """Join filters, serializer and compressors; codecs that are not given are automatic."""
    parts = {key: _given(encoding.get(key, "auto")) for key in ("filters", "serializer", "compressors")}
    if all(part == "auto" for part in parts.values()):
        return "auto"
    specs = joined(parts, format)
    # a variable may have become one of fixed length since it was read
    return [spec for spec in specs if is_text or spec.name.removeprefix("numcodecs.") != "vlen-utf8"]


def _given(part: Any) -> Any:
    return part if part is None or isinstance(part, str) or not isinstance(part, tuple) else list(part)
