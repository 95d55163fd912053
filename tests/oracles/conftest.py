"""Strategies for arrays that tegula and other implementations support, and bridges to their memory stores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import strategies as st
from zarr.core.buffer.cpu import Buffer

import tegula

NUMBERS = [
    "bool",
    "i1",
    "u1",
    "<i2",
    ">i2",
    "<u2",
    "<i4",
    ">i4",
    "<u4",
    "<i8",
    ">u8",
    "<f2",
    "<f4",
    ">f4",
    "<f8",
    ">f8",
    "<c8",
    "<c16",
]
OTHERS = ["S3", "<U2", ">U2", "<M8[ns]", "<M8[10m]", "<m8[s]"]
V2_ONLY = ["V3", ">M8[D]", ">c16", "i2,<f4"]


@dataclass(frozen=True)
class Case:
    """One array: its arguments, from which those of each library are derived, and its values."""

    format: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    order: str
    filters: list[dict[str, Any]]
    compressors: list[dict[str, Any]]
    separator: str
    fill: Any
    values: np.ndarray[Any, Any]

    def create(self, target: Any, **options: Any) -> tegula.Array:
        """Create and write the array with tegula."""
        array = tegula.create_array(
            target,
            shape=self.shape,
            dtype=self.dtype,
            chunks=self.chunks,
            shards=self.shards,
            order=self.order,
            codecs=[*self.filters, *self.compressors],
            fill_value=self.fill,
            chunk_key_encoding=self.separator,
            format=self.format,
            **options,
        )
        array[...] = self.values
        return array

    def create_zarr(self, store: Any) -> Any:
        """Create and write the array with zarr-python."""
        filters: list[Any] = self.filters
        compressors: list[Any] = self.compressors
        if self.format == "zarr2":
            filters, compressors = (
                [numcodecs.get_codec({**codec}) for codec in codecs] for codecs in (filters, compressors)
            )
        default = {"name": "default", "separator": self.separator}
        v2 = {"name": "v2", "separator": self.separator}
        array = zarr.create_array(
            store,
            shape=self.shape,
            dtype=self.dtype,
            chunks=self.chunks,
            shards=self.shards,
            filters=filters or None,
            compressors=compressors or None,
            fill_value=self.fill,
            zarr_format=3 if self.format == "zarr3" else 2,
            order=self.order if self.format == "zarr2" else None,
            chunk_key_encoding=default if self.format == "zarr3" else v2,
            config={"write_empty_chunks": self.fill_is_nan},
        )
        array[...] = self.values
        return array

    @property
    def fill_is_nan(self) -> bool:
        """Whether zarr-python would take chunks of any NaN for empty, and lose their bits, unless it stores them."""
        return bool(np.any(self.fill != self.fill))

    def check(self, values: Any) -> None:
        """Compare values that were read, bit by bit."""
        values = values if isinstance(values, np.ndarray) else np.asarray(values, self.dtype)
        assert values.shape == self.shape
        assert values.dtype.newbyteorder("=") == self.dtype.newbyteorder("=")
        assert values.astype(self.dtype).tobytes() == self.values.tobytes()


def random_values(dtype: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Draw any bits, for types in which any bits are a value."""
    size = int(np.prod(shape))
    if dtype.kind == "U":
        letters = np.array([*"aé€𝄞", ""])
        flat = np.char.add(random.choice(letters, size), random.choice(letters, size)).astype(dtype)
    elif dtype.kind == "S":
        flat = np.frombuffer(random.integers(1, 256, size * dtype.itemsize, "u1").tobytes(), dtype)
    else:
        bits = random.integers(0, 256, size * dtype.itemsize, "u1")
        flat = np.frombuffer((bits & 1 if dtype.kind == "b" else bits).tobytes(), dtype)
    return flat.reshape(shape).copy()


def fill_values(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    """Draw values that the documents of every library can hold."""
    kind = dtype.kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        limits = np.iinfo(dtype)
        return st.sampled_from([0, 1, int(limits.min), int(limits.max)])
    if kind == "f":
        return st.sampled_from([0.0, -0.0, 0.1, -1.5, np.nan, np.inf, -np.inf])
    if kind == "c":
        return st.sampled_from([0j, complex(-1.5, 0.1)])
    if kind == "S":
        return st.sampled_from([b"", b"ab", b"\xff\xfe"])
    if kind == "U":
        return st.sampled_from(["", "é𝄞"])
    if kind in "mM":
        return st.sampled_from([np.array(n, "i8").astype(dtype)[()] for n in (0, 5, np.iinfo("i8").min)])
    return st.just(np.zeros((), dtype)[()])


def v3_codecs(itemsize: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    def named(name: str, **options: Any) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({"name": st.just(name), "configuration": st.fixed_dictionaries(options)})

    compressors = st.one_of(
        named("gzip", level=st.integers(0, 9)),
        named("zstd", level=st.integers(-5, 9), checksum=st.booleans()),
        named(
            "blosc",
            typesize=st.just(itemsize),
            cname=st.sampled_from(["lz4", "lz4hc", "blosclz", "zstd", "zlib"]),
            clevel=st.integers(0, 9),
            shuffle=st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]),
            blocksize=st.just(0),
        ),
    )
    checksum = st.just({"name": "crc32c"})
    return st.one_of(st.just([]), st.tuples(compressors).map(list), st.tuples(compressors, checksum).map(list))


def v2_compressors() -> st.SearchStrategy[list[dict[str, Any]]]:
    configurations = st.one_of(
        st.sampled_from([{"id": "zlib", "level": level} for level in (-1, 1, 9)]),
        st.sampled_from([{"id": "gzip", "level": 2}, {"id": "bz2", "level": 3}, {"id": "lz4", "acceleration": 1}]),
        st.sampled_from([{"id": "zstd", "level": level, "checksum": False} for level in (-3, 0, 5)]),
        st.just({"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": None}),
        st.fixed_dictionaries(
            {
                "id": st.just("blosc"),
                "cname": st.sampled_from(["lz4", "zstd", "blosclz", "zlib"]),
                "clevel": st.integers(0, 9),
                "shuffle": st.integers(-1, 2),
                "blocksize": st.sampled_from([0, 256]),
            }
        ),
    )
    return st.one_of(st.just([]), st.tuples(configurations).map(list))


def v1_compressors() -> st.SearchStrategy[list[dict[str, Any]]]:
    raw = [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]
    blosc = st.fixed_dictionaries(
        {
            "id": st.just("blosc"),
            "cname": st.sampled_from(["lz4", "lz4hc", "blosclz", "zlib"]),
            "clevel": st.integers(0, 9),
            "shuffle": st.integers(0, 2),
        }
    )
    others = [
        [],
        [{"id": "zlib", "level": 5}],
        [{"id": "bz2", "level": 1}],
        [{"id": "lzma", "format": 1, "check": 0, "preset": 1, "filters": None}],
        [{"id": "lzma", "format": 3, "check": 0, "preset": None, "filters": raw}],
    ]
    return st.one_of(st.sampled_from(others), st.tuples(blosc).map(list))


def v2_filters(dtype: np.dtype[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    choices: list[list[dict[str, Any]]] = [[], []]
    if dtype.kind == "b":
        choices.append([{"id": "packbits"}])
    if dtype.kind in "iu":
        choices.append([{"id": "delta", "dtype": dtype.str, "astype": dtype.str}])
        choices.append([{"id": "shuffle", "elementsize": dtype.itemsize}])
    return st.sampled_from(choices)


@st.composite
def array_cases(draw: st.DrawFn, formats: tuple[str, ...] = ("zarr2", "zarr3"), dtypes: tuple[str, ...] = ()) -> Case:
    """Draw an array; `dtypes` replaces the dtypes that zarr-python knows in that format."""
    format = draw(st.sampled_from(formats))
    names = dtypes or (*NUMBERS, *OTHERS, *(V2_ONLY if format == "zarr2" else ()))
    dtype = np.dtype(draw(st.sampled_from(names)))
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    chunks = tuple(draw(st.integers(1, 5)) for _ in shape)
    shards = None
    filters: list[dict[str, Any]] = []
    order = "C"
    if format == "zarr3":
        compressors = draw(v3_codecs(dtype.itemsize))
        if len(shape) > 1 and draw(st.booleans()):
            filters = [{"name": "transpose", "configuration": {"order": draw(st.permutations(range(len(shape))))}}]
        if shape and draw(st.booleans()):
            shards = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    elif format == "zarr1":
        # chunks have no key of their own in an array without dimensions, and empty arrays can't be read; a compressor
        # other than Blosc stores C order whatever is asked for
        shape = shape or (3,)
        shape, chunks = tuple(max(1, n) for n in shape), chunks or (2,)
        compressors = draw(v1_compressors())
        order = (
            draw(st.sampled_from("CF"))
            if len(shape) > 1 and compressors[:1] and compressors[0]["id"] == "blosc"
            else "C"
        )
    else:
        order = draw(st.sampled_from("CF")) if len(shape) > 1 else "C"
        compressors, filters = draw(v2_compressors()), draw(v2_filters(dtype))
    fill = draw(fill_values(dtype))
    values = random_values(dtype, shape, np.random.default_rng(draw(st.integers(0, 2**16))))
    for _ in range(draw(st.integers(0, 2))):  # some chunks hold nothing but the fill value
        part = tuple(slice(*sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n))))) for n in shape)
        values[part] = fill
    separator = draw(st.sampled_from("." if format == "zarr1" else "./"))
    return Case(format, dtype, shape, chunks, shards, order, filters, compressors, separator, fill, values)


@pytest.fixture(scope="session")
def cases() -> Callable[..., st.SearchStrategy[Case]]:
    """The strategy `array_cases`."""
    return array_cases


@pytest.fixture(scope="session")
def as_zarr_store() -> Callable[[tegula.MemoryStore], Any]:
    """Copy a store into one of zarr-python."""

    def convert(store: tegula.MemoryStore) -> Any:
        return zarr.storage.MemoryStore({key: Buffer.from_bytes(store.get(key)) for key in store.list()})

    return convert


@pytest.fixture(scope="session")
def as_our_store() -> Callable[[Any], tegula.MemoryStore]:
    """Copy a memory store of zarr-python into one of tegula."""

    def convert(store: Any) -> tegula.MemoryStore:
        ours = tegula.MemoryStore()
        for key, value in store._store_dict.items():
            ours.set(key, value.to_bytes())
        return ours

    return convert
