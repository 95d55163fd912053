import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import MetadataError


@settings(deadline=None)
@given(st.permutations(range(4)))
def test_order(build, order):
    chunk = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    chain = build([("transpose", {"order": order}), "bytes"], "<i8", 4)
    data = chain.encode(chunk)
    assert bytes(data) == chunk.transpose(order).tobytes()
    assert np.array_equal(chain.decode(data, chunk.shape), chunk)


@pytest.mark.parametrize(("letter", "order"), [("C", [0, 1, 2]), ("F", [2, 1, 0])])
def test_order_as_a_letter(build, letter, order):
    chunk = np.arange(24).reshape(2, 3, 4)
    one, other = (build([("transpose", {"order": value}), "bytes"], "<i8", 3) for value in (letter, order))
    assert bytes(one.encode(chunk)) == bytes(other.encode(chunk))


def test_two_transposes(build):
    chunk = np.arange(24).reshape(2, 3, 4)
    codecs = [("transpose", {"order": [2, 0, 1]}), ("transpose", {"order": [1, 0, 2]}), "bytes"]
    chain = build(codecs, "<i8", 3)
    assert bytes(chain.encode(chunk)) == chunk.transpose(2, 0, 1).transpose(1, 0, 2).tobytes()
    assert np.array_equal(chain.decode(chain.encode(chunk), (2, 3, 4)), chunk)


@pytest.mark.parametrize("order", [[1], [0, 0], [0, 2], [0, 1, 2], "K", None, 1, [True, False], [0.0, 1.0], [-1, 0]])
def test_invalid_orders(build, order):
    with pytest.raises(MetadataError):
        build([("transpose", {"order": order}), "bytes"], "<i8", 2)


def test_no_dimensions(build):
    assert build([("transpose", {"order": []}), "bytes"], "u1", 0).decode(b"\x07", ()) == 7
