"""Other libraries read what tegula writes with equal values, or the documentation says what they lack.

Arrays are drawn with codecs as users give them: by name, with a part of the options, or whole. The gaps are those of
the tables under "What other libraries lack" in the documentation, and each of them is tried, too.

``TEGULA_ZARR2_PYTHON`` and ``TEGULA_ZARR3_PYTHON`` name interpreters with zarr 2.18 and with zarr 3.4; each runs once,
and is asked for one array after the other.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore as ts
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.peer_process import PeerProcess

import tegula
from tegula.metadata.data_types import EXTENDED
from tegula.metadata.nodes import ArrayMetadata

pytestmark = pytest.mark.slow

Codec = Any
PAGE = Path(__file__).resolve().parents[2] / "docs/reference/compatibility.md"
COLUMNS = ("zarr-python 3.4", "zarr-python 2.18", "TensorStore 0.1.86", "zarrs 0.2")
NO_GAP = ("yes", "—")

# --- the gaps


def gaps() -> dict[str, dict[str, str]]:
    """Read the tables: what each library does with each data type, codec or form."""
    section = PAGE.read_text(encoding="utf-8").split("## What other libraries lack\n")[1].split("\n## ")[0]
    found = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and not set(cells[0]) <= {"-"} and cells[1] not in COLUMNS:
            assert len(cells) == 1 + len(COLUMNS), line
            assert {*cells[1:]} <= {"yes", "no", "v2", "v3", "in part", "package", "—"}, line
            names = re.findall("`([^`]+)`", cells[0]) if re.fullmatch("(`[^`]+`(, )?)+", cells[0]) else [cells[0]]
            found.update({name: dict(zip(COLUMNS, cells[1:])) for name in names})
    return found


GAPS = gaps()


def features(metadata: ArrayMetadata) -> set[str]:
    """Return the features for which the tables may have a row."""
    data_type, dtype = metadata.data_type, metadata.data_type.numpy
    names = {dtype: name for name, dtype in EXTENDED.items()}
    found = {data_type.variable or names.get(dtype, dtype.kind)}
    if dtype in names or data_type.variable:
        pass
    elif dtype.names is not None:
        found = {"structured with subarrays" if any(dtype[n].subdtype for n in dtype.names) else "structured"}
    elif dtype.kind in "mM":
        found = {f"{dtype.kind}8" + ("[s]" if np.datetime_data(dtype)[0] != "generic" else "")}
    elif dtype.kind in "SUV":
        found = {f"{dtype.kind}4"}
    if not metadata.grid.is_regular:
        found.add("chunks of varying length")
    if dtype.kind == "c" and dtype.newbyteorder(">") == dtype:
        found.add("complex numbers in big-endian order")
    if metadata.format == "zarr2" and json.loads(metadata.documents[".zarray"])["filters"] and not data_type.variable:
        found.add("filters of Zarr v2")
    chain = [(codec.name, codec.configuration) for codec in metadata.codecs]
    while chain:
        here = [name for name, _ in chain]
        found.update(name for name in here if name != "bytes")  # which is also the name of a data type
        if "sharding_indexed" in here:
            before, after = here[: here.index("sharding_indexed")], here[here.index("sharding_indexed") + 1 :]
            found |= {f"`{name}` before `sharding_indexed`" for name in before}
            found |= {"codecs after `sharding_indexed`"} if after else set()
        if any(name.endswith("zstd") and options.get("checksum") for name, options in chain):
            found.add("`zstd` with a checksum")
        if dtype.kind == "c" and any(options.get("endian") == "big" for _, options in chain):
            found.add("complex numbers in big-endian order")
        inner = next((options["codecs"] for name, options in chain if name == "sharding_indexed"), [])
        chain = [(codec["name"], codec.get("configuration", {})) for codec in inner]
    return found


def answers(library: str, metadata: ArrayMetadata) -> set[str]:
    """Return what the tables say of an array that is not simply ``yes``."""
    told = {GAPS[name][library] for name in features(metadata) if name in GAPS}
    return {answer for answer in told if answer not in (*NO_GAP, metadata.format.replace("zarr", "v"))}


# --- the readers


class Peer(PeerProcess):
    """A process with another zarr that reads arrays until it is closed."""

    def __call__(self, path: Path, format: str) -> Any:
        if problem := self.ask(path):
            raise ValueError(problem)
        return np.load(f"{path}.npy", allow_pickle=True)


def read_tensorstore(path: Path, format: str) -> Any:
    spec = {"driver": "zarr3" if format == "zarr3" else "zarr", "kvstore": {"driver": "file", "path": f"{path}/"}}
    return ts.open(spec, open=True).result().read().result()


def read_zarrs(path: Path, format: str) -> Any:
    pipeline = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}
    with warnings.catch_warnings(), zarr.config.set(pipeline):
        warnings.simplefilter("ignore")  # that numcodecs.* may not be read by others
        return zarr.open_array(path, mode="r")[...]


@pytest.fixture(scope="module")
def readers() -> Iterator[dict[str, Callable[[Path, str], Any]]]:
    """How each library that is installed reads an array."""
    found: dict[str, Callable[[Path, str], Any]] = {"TensorStore 0.1.86": read_tensorstore, "zarrs 0.2": read_zarrs}
    peers = {}
    for library, variable in (("zarr-python 3.4", "TEGULA_ZARR3_PYTHON"), ("zarr-python 2.18", "TEGULA_ZARR2_PYTHON")):
        if os.environ.get(variable):
            peers[library] = Peer(os.environ[variable], "reading_peer.py")
    yield {**found, **peers}
    for peer in peers.values():
        peer.close()


def knows(library: str, format: str) -> bool:
    """Return whether the tables are about a library and a format."""
    return {"zarr-python 2.18": "zarr2", "zarrs 0.2": "zarr3"}.get(library, format) == format


def same(found: Any, expected: np.ndarray[Any, Any]) -> bool:
    """Return whether values are equal to the bit, whatever the byte order."""
    found = np.asarray(found)
    if found.shape != expected.shape:
        return False
    if expected.dtype.hasobject:
        return bool(found.astype(object).tolist() == expected.tolist())
    if expected.shape:  # else it may have been a scalar
        assert found.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
    return found.astype(expected.dtype).tobytes() == np.ascontiguousarray(expected).tobytes()


# --- the arrays

NUMBERS = ("bool", "i1", "u1", "<i2", ">i2", "<i4", ">u4", "<i8", "<f2", ">f4", "<f4", "<f8", "<c8", ">c16")
OTHERS = (
    "S3", "S300", "<U2", ">U80", "V3", "<M8[ns]", ">M8[10m]", "<m8[s]", "i2,<f4", "string", "bytes", "bfloat16", "int4",
    "float8_e4m3fn", "uint4", "float4_e2m1fn",
)  # fmt: skip


def partly(name: str, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[Codec]:
    """Return a codec by name or with any part of its options, in each form that a user may write."""

    def forms(chosen: dict[str, Any]) -> list[Codec]:
        whole = [{"name": name, "configuration": chosen}, {"name": name, **chosen}]
        return [*whole, name] if not chosen else whole

    return st.fixed_dictionaries({}, optional=options).flatmap(lambda chosen: st.sampled_from(forms(chosen)))


def buffers(v3: bool) -> st.SearchStrategy[Codec]:
    levels = st.integers(1, 9)
    blosc = {"cname": st.sampled_from(["lz4", "zstd", "zlib", "blosclz"]), "clevel": levels, "blocksize": st.just(0)}
    names = ("noshuffle", "shuffle", "bitshuffle") if v3 else (0, 1, 2)
    ids = [{"id": "blosc", "clevel": 3}, {"id": "zstd"}, {"id": "gzip"}, {"id": "blosc", "shuffle": -1}, {"id": "lzma"}]
    return st.one_of(
        partly("zstd", level=st.integers(-3, 9), checksum=st.booleans()),
        partly("gzip", level=levels),
        partly("blosc", shuffle=st.sampled_from(names if v3 else ("noshuffle", "shuffle")), **blosc),
        partly("zlib", level=st.integers(-1, 9)),
        partly("bz2", level=levels),
        st.sampled_from(["crc32c", "crc32", "adler32", "fletcher32", "lz4", "lzma", "base64", *ids]),
    )


def filters(dtype: np.dtype[Any], v3: bool) -> st.SearchStrategy[Codec]:
    kind = dtype.kind
    if kind == "b":
        return st.sampled_from(["packbits", {"id": "packbits"}])
    if kind not in "iuf":
        return st.just(None)
    choices = [
        partly("delta", dtype=st.just(dtype.newbyteorder("=" if v3 else dtype.byteorder).str)),
        partly("fixedscaleoffset", astype=st.sampled_from(["u1", "<i4"])).map(
            lambda codec: {"id": "fixedscaleoffset", "offset": 0, "scale": 2, **_options(codec)}
        ),
        st.just({"name": "astype", "encode_dtype": "<f8"}),
    ]
    if kind == "f":
        most = {2: 10, 4: 23, 8: 52}[dtype.itemsize]
        choices.append(st.integers(1, most).map(lambda bits: {"name": "bitround", "keepbits": bits}))
        choices.append(st.integers(0, 5).map(lambda digits: {"name": "quantize", "configuration": {"digits": digits}}))
    if v3:
        choices.append(partly("scale_offset", scale=st.just(2)))
        choices.append(st.just({"name": "cast_value", "data_type": "float64"}))
    return st.one_of(choices)


def _options(codec: Codec) -> dict[str, Any]:
    if isinstance(codec, str):
        return {}
    inner = codec.get("configuration", {key: value for key, value in codec.items() if key != "name"})
    return dict(inner)


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what `tegula.create_array` is given."""
    format = draw(st.sampled_from(("zarr2", "zarr3")))
    v3 = format == "zarr3"
    name = draw(st.sampled_from(NUMBERS) | st.sampled_from(OTHERS))
    dtype = tegula.metadata.data_types.as_data_type(name)
    shape = tuple(draw(st.lists(st.integers(0, 7), max_size=3)))
    chunks = tuple(draw(st.integers(1, 4)) for _ in shape)
    codecs: list[Codec] = []
    if dtype.is_fixed and draw(st.integers(0, 3)) == 0 and name in NUMBERS:
        codecs += [codec for codec in draw(st.lists(filters(dtype.numpy, v3), max_size=1)) if codec is not None]
    plain = not codecs
    if v3 and len(shape) > 1 and draw(st.booleans()):
        order = draw(st.sampled_from(["C", "F"]) | st.permutations(range(len(shape))))
        codecs.insert(0, {"name": "transpose", "configuration": {"order": order}})
    fixed = dtype.is_fixed and not any("packbits" in str(codec) for codec in codecs)
    if fixed and v3 and draw(st.booleans()):
        codecs.append(draw(partly("bytes", endian=st.sampled_from(["little", "big"]))))
    if fixed and draw(st.integers(0, 5)) == 0:
        codecs.append(draw(partly("shuffle", elementsize=st.sampled_from([1, dtype.itemsize]))))
    codecs += draw(st.lists(buffers(v3), max_size=2))
    shards = tuple(n * draw(st.integers(1, 3)) for n in chunks) if v3 and draw(st.booleans()) else None
    if shards is not None and draw(st.booleans()):  # as a codec, with what a user may leave out
        index = {"index_location": draw(st.sampled_from(["start", "end"]))} if draw(st.booleans()) else {}
        inner = {"codecs": codecs} if codecs or draw(st.booleans()) else {}
        codecs, chunks, shards = [{"name": "sharding_indexed", "chunk_shape": chunks, **inner, **index}], shards, None
    given: Any = codecs or draw(st.sampled_from(["none", []]))
    return {
        "format": format,
        "shape": shape,
        "dtype": name,
        "chunks": chunks,
        "shards": shards,
        "order": draw(st.sampled_from("CF")),
        "codecs": given[0] if len(given) == 1 and given != "none" and draw(st.booleans()) else given,
        "fill_value": draw(st.sampled_from([0, 1])) if name in NUMBERS else 0,
        "plain": plain,
    }


def values_for(array: tegula.Array) -> np.ndarray[Any, Any]:
    """Return values of an array's type that no two libraries spell differently."""
    count = int(np.prod(array.shape))
    data_type, dtype = array.metadata.data_type, array.dtype
    numbers = np.arange(count) * 7 % 11
    if data_type.variable:
        letters = [f"é{n}" * n for n in numbers]
        flat = np.empty(count, object)
        flat[:] = letters if data_type.variable == "string" else [text.encode() for text in letters]
        return flat.reshape(array.shape)
    if dtype.kind in "SU":
        return numbers.astype("U").astype(dtype).reshape(array.shape)
    if dtype.names is not None:
        out = np.zeros(array.shape, dtype)
        out[dtype.names[0]] = numbers.reshape(array.shape)
        return out
    if dtype.kind == "V" and dtype not in EXTENDED.values():
        return (np.arange(count * dtype.itemsize) % 256).astype("u1").view(dtype).reshape(array.shape)
    if dtype.kind in "mM":
        return numbers.astype("i8").view(dtype.newbyteorder("=")).astype(dtype).reshape(array.shape)
    if dtype.kind == "b":
        return (numbers % 2 == 0).reshape(array.shape)
    return (numbers % 4).astype(dtype).reshape(array.shape)


def create(path: Path, **options: Any) -> tegula.Array:
    array = tegula.create_array(path, **options)
    array[...] = values_for(array)
    return array


# --- the laws


@settings(max_examples=250, deadline=None)
@given(drawn=arrays())
def test_others_read_what_was_written(readers: dict[str, Callable[[Path, str], Any]], drawn: dict[str, Any]) -> None:
    plain = drawn.pop("plain")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "array")
        array = create(path, **drawn)
        expected = np.asarray(tegula.open_array(path)[...])
        if plain:  # otherwise the result of the filters that lose bits
            assert same(expected, values_for(array))
        for library, read in readers.items():
            if knows(library, array.format) and not answers(library, array.metadata):
                assert same(read(path, array.format), expected), library


def example(name: str, format: str) -> dict[str, Any] | None:
    """Return an array with just one feature of the tables, or ``None`` if the format lacks it."""
    v3 = format == "zarr3"
    usual: dict[str, Any] = {"format": format, "shape": (5, 4), "chunks": (3, 2), "dtype": "i4", "codecs": "none"}
    shards = {"name": "sharding_indexed", "chunk_shape": [3, 2]}
    forms: dict[str, dict[str, Any] | None] = {
        "filters of Zarr v2": None if v3 else {"codecs": ["gzip", "zstd"]},
        "structured": {"dtype": "i2,f4"},
        "structured with subarrays": None if v3 else {"dtype": [("a", "i2"), ("b", "f4", (2,))]},
        "`zstd` with a checksum": {"codecs": {"name": "zstd", "checksum": True}},
        "codecs after `sharding_indexed`": {"codecs": [shards, "gzip"], "chunks": (6, 4)} if v3 else None,
        "chunks of varying length": {"chunks": ([2, 3], 4)} if v3 else None,
        "complex numbers in big-endian order": {"dtype": ">c8"},
        "`transpose` before `sharding_indexed`": None,
    }
    if v3:
        before = [{"name": "transpose", "order": [1, 0]}, {**shards, "chunk_shape": [2, 3]}]
        forms["`transpose` before `sharding_indexed`"] = {"codecs": before, "chunks": (6, 4)}
        forms["complex numbers in big-endian order"] = {"dtype": "c8", "codecs": {"name": "bytes", "endian": "big"}}
    if name in forms:
        form = forms[name]
        return None if form is None else {**usual, **form}
    if name in ("packbits", "cast_value", "scale_offset"):
        options = {"data_type": "float64"} if name == "cast_value" else {}
        return {**usual, "codecs": {"name": name, **options}} if v3 else None
    if name.startswith("numcodecs."):
        plain = name.removeprefix("numcodecs.")
        if v3 and plain == "crc32c":
            return None  # it has a name of its own there
        needed = {"bitround": {"keepbits": 4}, "quantize": {"digits": 2}, "astype": {"encode_dtype": "<i8"},
                  "fixedscaleoffset": {"offset": 0, "scale": 2}}  # fmt: skip
        dtype = {"bitround": "f4", "quantize": "f4", "packbits": "?"}.get(plain, "i4")
        return {**usual, "codecs": {"id": plain, **needed.get(plain, {})}, "dtype": dtype}
    return {**usual, "dtype": name}


@cache
def is_installed(library: str) -> bool:
    """Return whether a library is there in the version that the tables are about."""
    name, _, number = library.partition(" ")
    package = {"TensorStore": "tensorstore", "zarrs": "zarrs"}.get(name)
    return package is None or f"{version(package)}.".startswith(f"{number}.")


@cache
def spared(library: str, format: str, name: str) -> bool:
    """Return whether the tables allow a library any result, or are not about it."""
    return not knows(library, format) or GAPS[name][library] in ("in part", "package", "—")


@pytest.mark.sampled(one_in=10)
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("name", GAPS)
def test_each_gap_is_one(
    readers: dict[str, Callable[[Path, str], Any]], tmp_path: Path, name: str, format: str
) -> None:
    options = example(name, format)
    if options is None:
        return
    array = create(tmp_path / "a", **options)
    assert features(array.metadata) & GAPS.keys() - {"filters of Zarr v2"} == {name} - {"filters of Zarr v2"}
    for library, read in readers.items():
        if spared(library, format, name):
            continue
        if answers(library, array.metadata):
            if not is_installed(library):
                continue  # a newer one may have closed it
            try:
                found = same(read(tmp_path / "a", format), array[...])
            except Exception:
                found = False
            assert not found, f"{library} reads it now"
        else:
            assert same(read(tmp_path / "a", format), array[...]), library
