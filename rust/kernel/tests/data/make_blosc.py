"""Make the fixtures of the tests of Blosc: run with the directory of a corpus of zarr 1.1 arrays as only argument.

Made with numcodecs 0.16.6 (c-blosc 1.21.7.dev: LZ4 1.10.0, zlib 1.3.1, zstd 1.5.6), tensorstore 0.1.86 for snappy, and
bcolz-zipline 1.13.0. The corpus was written by zarr 1.1.0, whose c-blosc 1.10.0.dev had zstd 0.7.4; what its frames
decode to comes from python-blosc2 4.14.1.
"""

import random
import sys
import tempfile
import zlib
from pathlib import Path

import bcolz
import blosc2
import numpy
import tensorstore
from numcodecs import blosc

HERE = Path(__file__).parent / "blosc"
SIZES = [0, 1, 15, 16, 17, 100, 127, 128, 129, 255, 1000, 4096, 10000, 32767, 32768, 65544, 131072, 300001, 1500000]
TYPESIZES = [1, 2, 3, 4, 7, 8, 12, 16, 17, 24, 255, 300]
BLOCKSIZES = [0, 0, 0, 0, 1, 1000, 4096, 65536, 70001]


def contents() -> dict[str, bytes]:
    """Return what the tests make for themselves in the same way: numbers that go up and down a little, and noise."""
    state, value, walk, noise = 1, 1000, bytearray(), bytearray()
    for _ in range(max(SIZES) // 2 + 1):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        value = (value + (state >> 60) - 7) % 2**16
        walk += value.to_bytes(2, "little")
        noise += (state >> 40 & 0xFFFF).to_bytes(2, "little")
    return {"walk": bytes(walk), "noise": bytes(noise), "zeros": bytes(len(walk))}


def main() -> None:
    HERE.mkdir(exist_ok=True)
    blosc.set_nthreads(1)
    content = contents()
    choose = random.Random(7)
    lines = []
    for size in SIZES:
        for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
            for level in range(10) if size < 1000000 else (1, 5, 9) if name != "zstd" else (1, 4):
                kind = choose.choice(["walk", "walk", "walk", "walk", "noise", "zeros"])
                shuffle, typesize = choose.choice([-1, 0, 1, 2]), choose.choice(TYPESIZES)
                block = choose.choice(BLOCKSIZES)
                effective = (2 if typesize == 1 else 1) if shuffle == -1 else shuffle
                data = content[kind][:size]
                frame = blosc.compress(data, name.encode(), level, effective, block, typesize)
                settings = f"{name} {level} {shuffle} {block} {typesize}"
                lines.append(f"{kind} {size} {settings} {len(frame)} {zlib.crc32(frame)}")
    (HERE / "numcodecs.txt").write_text("\n".join(lines) + "\n")
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        frame = blosc.compress(content["walk"][:9000], name.encode(), 5, 1, 4096, 2)
        (HERE / f"numcodecs_{name}").write_bytes(frame)
    with tempfile.TemporaryDirectory() as root:
        values = numpy.frombuffer(content["walk"][:9000], "<u2")
        bcolz.carray(values, chunklen=4500, rootdir=f"{root}/a", cparams=bcolz.cparams(cname="lz4", shuffle=2)).flush()
        (HERE / "bcolz_lz4").write_bytes(Path(f"{root}/a/data/__0.blp").read_bytes())
        compressor = {"id": "blosc", "cname": "snappy", "clevel": 5, "shuffle": 1, "blocksize": 4096}
        spec = {"driver": "zarr", "kvstore": f"file://{root}/b", "metadata": {"compressor": compressor}}
        slow = numpy.arange(4500, dtype="<u2") // 16
        tensorstore.open(spec, create=True, dtype="uint16", shape=[4500]).result().write(slow).result()
        (HERE / "tensorstore_snappy").write_bytes(Path(f"{root}/b/0").read_bytes())
    frame = (Path(sys.argv[1]) / "comp_blosc_walk_zstd_s1_l5/store/1.1").read_bytes()
    (HERE / "zarr1_zstd07").write_bytes(frame)
    (HERE / "zarr1_zstd07.raw").write_bytes(blosc2.decompress(frame))


if __name__ == "__main__":
    main()
