"""The examples of the two documents that describe Zarr v1 run with only the import changed.

Two outputs can't be compared letter by letter: the order of ``os.listdir``, which no file system promises, and the
places where NumPy breaks the lines of a long array.
"""

import doctest
import re
import warnings
from pathlib import Path

import pytest

OPEN = """
>>> import zarr
>>> z = zarr.open('example.zarr', mode='w', shape=(100000, 1000),
...               chunks=(10000, 100), dtype='i4', fill_value=42,
...               compression='blosc', compression_opts=dict(cname='lz4',
...               clevel=3, shuffle=1))
"""

DRAFT_METADATA = """
>>> print(open('example.zarr/meta').read())
{
    "chunks": [
        10000,
        100
    ],
    "compression": "blosc",
    "compression_opts": {
        "clevel": 3,
        "cname": "lz4",
        "shuffle": 1
    },
    "dtype": "<i4",
    "fill_value": 42,
    "order": "C",
    "shape": [
        100000,
        1000
    ],
    "zarr_format": 1
}
"""

DRAFT_ATTRIBUTES = """
>>> z.attrs['foo'] = 42
>>> z.attrs['bar'] = 4.2
>>> z.attrs['baz'] = 'quux'
>>> print(open('example.zarr/attrs').read())
{
    "bar": 4.2,
    "baz": "quux",
    "foo": 42
}
"""

DRAFT_CHUNKS = """
>>> import os
>>> os.listdir('example.zarr')
['meta', 'attrs']
>>> z[:] = 0
>>> sorted(os.listdir('example.zarr'))[:5]
['0.0', '0.1', '0.2', '0.3', '0.4']
"""

SPECIFICATION = """
>>> import zarr
>>> store = zarr.DirectoryStore('example.zarr')
>>> zarr.init_store(store, shape=(20, 20), chunks=(10, 10),
...                 dtype='i4', fill_value=42, compression='zlib',
...                 compression_opts=1, overwrite=True)
>>> import os
>>> sorted(os.listdir('example.zarr'))
['attrs', 'meta']
>>> print(open('example.zarr/meta').read())
{
    "chunks": [
        10,
        10
    ],
    "compression": "zlib",
    "compression_opts": 1,
    "dtype": "<i4",
    "fill_value": 42,
    "order": "C",
    "shape": [
        20,
        20
    ],
    "zarr_format": 1
}
>>> print(open('example.zarr/attrs').read())
{}
>>> z = zarr.Array(store)
>>> z[0:10, 0:10] = 1
>>> sorted(os.listdir('example.zarr'))
['0.0', 'attrs', 'meta']
>>> z[0:10, 10:20] = 2
>>> z[10:20, :] = 3
>>> sorted(os.listdir('example.zarr'))
['0.0', '0.1', '1.0', '1.1', 'attrs', 'meta']
>>> import zlib
>>> b = zlib.decompress(open('example.zarr/0.0', 'rb').read())
>>> import numpy as np
>>> a = np.frombuffer(b, dtype='<i4')
>>> a.tolist() == [1] * 100
True
>>> z.attrs['foo'] = 42
>>> z.attrs['bar'] = 'apples'
>>> z.attrs['baz'] = [1, 2, 3, 4]
>>> print(open('example.zarr/attrs').read())
{
    "bar": "apples",
    "baz": [
        1,
        2,
        3,
        4
    ],
    "foo": 42
}
"""


def run(text: str, name: str, least: int) -> None:
    """Run the examples of a text in one session, in the current directory."""
    text = re.sub(r"(?m)>>> import zarr$", ">>> from tegula import zarr1 as zarr", text)
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    for example in test.examples:
        if example.source == "os.listdir('example.zarr')\n":
            example.source = "sorted(os.listdir('example.zarr'))\n"
            example.want = f"{sorted(eval(example.want))}\n"
        elif example.source == "a\n":
            example.options[doctest.NORMALIZE_WHITESPACE] = True
    output: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the examples leave it to Python to close their files
        results = doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    assert results.failed == 0, "".join(output)
    assert results.attempted >= least


@pytest.mark.parametrize(
    ("text", "least"),
    [
        (OPEN + DRAFT_METADATA, 3),
        (OPEN + DRAFT_ATTRIBUTES, 6),
        (OPEN + DRAFT_CHUNKS, 6),
        (OPEN + DRAFT_METADATA + OPEN + DRAFT_ATTRIBUTES + OPEN + DRAFT_CHUNKS, 15),
        (SPECIFICATION, 22),
    ],
)
def test_examples(text: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if text is SPECIFICATION:  # which has the directory already: zarr 1.1 makes none for a store
        (tmp_path / "example.zarr").mkdir()
    run(text, "example", least)
