import contextlib
import random
import subprocess
import sys

import numcodecs.pcodec
import numpy as np
import pytest

from tegula.errors import CodecError, MetadataError, UnsupportedError


@pytest.mark.parametrize("dtype", ["<i4", "<f8", "<u2", ">f4", "<f2"])
def test_the_same_bytes_as_numcodecs(build, dtype):
    chunk = np.arange(12).astype(dtype).reshape(3, 4)
    chain = build([("numcodecs.pcodec", {"level": 4})], dtype, 2)
    data = chain.encode(chunk)
    assert data == numcodecs.pcodec.PCodec(level=4).encode(chunk.astype(chunk.dtype.newbyteorder("=")))
    found = chain.decode(data, (3, 4))
    assert (found.dtype, found.tolist()) == (chunk.dtype, chunk.tolist())
    for shape in ((3, 3), (4, 4), (0, 4)):
        with pytest.raises(CodecError):
            chain.decode(data, shape)


def test_after_filters(build):
    chunk = np.arange(12, dtype="<i4")
    chain = build(["bytes", ("numcodecs.delta", {"dtype": "<i4"}), "numcodecs.pcodec"], "<i4")
    assert np.array_equal(chain.decode(chain.encode(chunk), (12,)), chunk)
    chain = build([("numcodecs.delta", {"dtype": "<i4"}), "numcodecs.pcodec", "crc32c"], "<i4")
    assert np.array_equal(chain.decode(chain.encode(chunk), (12,)), chunk)


@pytest.mark.parametrize("keepbits", [3, 10])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
def test_after_bitround_as_zarr_python_stores_it(build, dtype, keepbits):
    chunk = np.linspace(-1, 1, 12).astype(dtype)
    # numcodecs returns integers, unless all bits are kept
    rounded = numcodecs.BitRound(keepbits=keepbits).encode(chunk.astype(chunk.dtype.newbyteorder("=")))
    assert (rounded.dtype.kind == "f") == (dtype == "<f2" and keepbits == 10)
    data = numcodecs.pcodec.PCodec().encode(rounded)
    chain = build([("numcodecs.bitround", {"keepbits": keepbits}), "numcodecs.pcodec"], dtype)
    assert chain.decode(data, (12,)).tolist() == rounded.view(f"f{chunk.itemsize}").tolist()
    with pytest.raises(CodecError):
        chain.decode(data, (13,))
    unlike = numcodecs.pcodec.PCodec().encode(chunk.astype("f4" if chunk.itemsize == 8 else "f8"))
    with pytest.raises(CodecError, match="does not match"):
        chain.decode(unlike, (12,))


def test_damaged(build):
    source = random.Random(0)
    chain = build(["numcodecs.pcodec"], "<f8")
    data = chain.encode(np.random.default_rng(0).standard_normal(100))
    for size in range(len(data)):
        with pytest.raises(CodecError):
            chain.decode(data[:size], (100,))
    for _ in range(500):
        damaged = bytearray(data)
        damaged[source.randrange(len(data))] = source.randrange(256)
        with contextlib.suppress(CodecError):
            assert chain.decode(bytes(damaged), (100,)).shape == (100,)


def test_invalid_positions(build):
    for dtype, options in (("S3", {}), ("?", {}), ("<c16", {}), ("<i4", {"level": 1, "extra": 2})):
        with pytest.raises(MetadataError):
            build([("numcodecs.pcodec", options)], dtype, 1, None)
    with pytest.raises(UnsupportedError):
        build(["vlen-utf8", "numcodecs.pcodec"], str)


@pytest.mark.slow
def test_threads_find_the_library_in_use():
    """The first use makes another thread wait; a child forked at that moment would wait for it for ever."""
    code = """
import threading
import numpy as np
from pcodec import standalone
decompress, threads = standalone.simple_decompress_into, []

def noted(data, out):
    threads.append(threading.current_thread())
    return decompress(data, out)

standalone.simple_decompress_into = noted
import tegula
with tegula.config.configure(executor="reference", threads=3):
    array = tegula.create_array({}, shape=10**6, chunks=10**5, dtype="f4", format="zarr2", codecs=[{"id": "pcodec"}])
    array[:] = 1
    assert (array.read().result() == 1).all()
assert len({*threads}) > 1 and threads[0] is threading.main_thread()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
