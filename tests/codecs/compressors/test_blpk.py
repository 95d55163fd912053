"""The container of bcolz's chunk files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.codecs import build_chain
from tegula.codecs.compressors.blpk import Container
from tegula.errors import CodecError
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import CodecSpec

SPECS = [CodecSpec("bytes", {"endian": "little"}), CodecSpec("numcodecs.blosc", {"typesize": 4}), CodecSpec("blpk")]
CHAIN = build_chain(SPECS, as_data_type("<i4"), None, ndim=2)


@settings(deadline=None)
@given(rows=st.integers(1, 200), width=st.integers(1, 5), junk=st.binary(max_size=20))
def test_the_header_states_the_number_of_rows(rows: int, width: int, junk: bytes) -> None:
    chunk = np.arange(rows * width, dtype="i4").reshape(rows, width)
    data = bytes(CHAIN.encode(chunk))
    assert CHAIN.excess(data + junk, (rows, width)) == len(junk)
    assert data[:16] == b"blpk\x01\0\0\0\x01\0\0\0\0\0\0\0"
    assert CHAIN.rows(data, (200, width)) == rows
    np.testing.assert_array_equal(CHAIN.decode(data + junk, (rows, width)), chunk)  # what follows is left alone
    with pytest.raises(CodecError, match="rows of"):
        CHAIN.rows(data, (rows - 1, width)) if rows > 2 else CHAIN.rows(data, (200, 2 * rows * width + 1))


@settings(deadline=None)
@given(data=st.data())
def test_a_truncated_or_changed_file_is_an_error_or_decodes_unchanged(data: st.DataObject) -> None:
    chunk = np.arange(60, dtype="i4").reshape(20, 3)
    whole = bytes(CHAIN.encode(chunk))
    for cut in (data.draw(st.integers(0, len(whole) - 1)), 0, 16, 31, len(whole) - 1):
        for read in (lambda raw: CHAIN.rows(raw, (20, 3)), lambda raw: CHAIN.decode(raw, (20, 3))):
            with pytest.raises(CodecError):
                read(whole[:cut])
    at = data.draw(st.integers(20, 31))  # the three lengths of the frame
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CodecError):
        CHAIN.decode(bytes(changed), (20, 3))


def test_magic_number_and_version_are_not_checked() -> None:
    whole = bytes(CHAIN.encode(np.arange(6, dtype="i4").reshape(2, 3)))
    assert CHAIN.decode(b"\xff" * 16 + whole[16:], (2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert Container().content_size(whole) == 24
