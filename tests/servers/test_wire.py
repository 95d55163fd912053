"""Ranges and messages of the servers' own HTTP."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers import wire

pytestmark = pytest.mark.once(executors="none")

SIZES = st.integers(0, 12)


@given(size=SIZES, first=SIZES, last=SIZES)
def test_a_range_is_a_slice(size: int, first: int, last: int) -> None:
    if first >= size:
        with pytest.raises(IndexError):
            wire.cut(f"bytes={first}-", size)
        return
    value = bytes(range(size))
    assert wire.cut(f"bytes={first}-", size) == (first, size)
    part = wire.cut(f"bytes={first}-{last}", size)
    if last < first:
        assert part is None
    else:
        assert part is not None
        assert value[slice(*part)] == value[first : last + 1]


@given(size=SIZES, length=SIZES)
def test_a_suffix_is_the_end(size: int, length: int) -> None:
    if not size or not length:
        with pytest.raises(IndexError):
            wire.cut(f"bytes=-{length}", size)
        return
    part = wire.cut(f"bytes=-{length}", size)
    assert part is not None
    assert bytes(range(size))[slice(*part)] == bytes(range(size))[-length:]


@pytest.mark.parametrize("header", [None, "", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "bytes"])
def test_other_headers_ask_for_everything(header: str | None) -> None:
    assert wire.cut(header, 10) is None


@given(pieces=st.lists(st.binary(min_size=1, max_size=20), max_size=4))
def test_bodies_arrive_whole_in_pieces_and_at_once(pieces: list[bytes]) -> None:
    async def body(sent: bytes) -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(sent)
        reader.feed_eof()
        return (await wire.read_body(reader, await wire.read_head(reader))) + b"|" + await reader.read()

    whole = b"".join(pieces)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    next_message = b"GET"
    for headers, sent in ((b"Transfer-Encoding: chunked", chunks), (b"Content-Length: %d" % len(whole), whole)):
        message = b"PUT / HTTP/1.1\r\n" + headers + b"\r\n\r\n" + sent + next_message
        assert asyncio.run(body(message)) == whole + b"|" + next_message
