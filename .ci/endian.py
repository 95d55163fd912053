"""Arrays of every type through every chain of codecs: ``write FOLDER`` on one machine, ``read FOLDER`` on another."""

import sys
from pathlib import Path
from shutil import rmtree

import numcodecs
import numcodecs.blosc
import numcodecs.zstd
import numpy as np

if int(numcodecs.__version__.split(".")[1]) < 16:  # Debian's, whose calls take one argument less
    for module, count in ((numcodecs.zstd, 2), (numcodecs.blosc, 5)):
        module.compress = lambda *args, real=module.compress, count=count: real(*args[:count])

import tegula

TYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 S5 U4 M8[s] m8[ms] >i4 >f8".split()
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
BLOSC = {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
CHAINS = {
    "plain": {"format": "zarr3", "codecs": None},
    "big": {"format": "zarr3", "codecs": [BIG]},
    "gzip": {"format": "zarr3", "codecs": "gzip"},
    "zstd": {"format": "zarr3", "codecs": "zstd"},
    "big-zstd": {
        "format": "zarr3",
        "codecs": [BIG, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    },
    "blosc": {"format": "zarr3", "codecs": [BLOSC]},
    "crc32c": {"format": "zarr3", "codecs": [{"name": "crc32c"}]},
    "transpose": {"format": "zarr3", "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}]},
    "shards": {"format": "zarr3", "shards": (8, 6)},
    "zarr2": {"format": "zarr2"},
    "zarr2-none": {"format": "zarr2", "codecs": None},
    "zarr1": {"format": "zarr1"},
    "bcolz": {"format": "bcolz"},
}


def values(data_type: str) -> np.ndarray:
    """Return values whose bytes differ in each place, the same on every machine."""
    kind = np.dtype(data_type)
    numbers = np.arange(48, dtype="i8").reshape(8, 6) * 37 % 120
    if kind.kind in "SU":
        return numbers.astype("U4").astype(kind)
    if kind.kind in "fc":
        return (numbers + numbers / 256).astype(kind)
    return (numbers * 0x01020304 if kind.itemsize > 2 else numbers).astype(kind)


def main(action: str, folder: str) -> int:
    done, left_out = 0, {}
    for name, options in CHAINS.items():
        for data_type in TYPES:
            path, expected = Path(folder, f"{name}-{data_type.replace('>', 'big')}"), values(data_type)
            if action == "write":
                shapes = {"chunks": (4, 3) if name != "bcolz" else (4, 6)}
                try:
                    tegula.create_array(path, data=expected, **shapes, **options)
                except (tegula.MetadataError, tegula.UnsupportedError, tegula.CodecError) as error:  # old packages
                    left_out.setdefault(name, f"arrays of {name}, such as {path.name}: {error}")
                    rmtree(path, ignore_errors=True)
                    continue
            elif not path.exists():
                continue
            assert np.array_equal(tegula.load(path), expected), f"{path.name} has other values"
            done += 1
    print(f"{action}: {done} arrays on a {sys.byteorder}-endian machine", *left_out.values(), sep="\n  left out: ")
    return done


sys.exit(main(*sys.argv[1:]) < 100)
