"""Tokens are whole or refused."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula.errors import MetadataError
from tegula.tables.following.tokens import Token, digest, digest_of_row

pytestmark = pytest.mark.once(executors="none")
TOKENS = st.builds(Token, st.integers(0, 2**63 - 1), *[st.binary(min_size=16, max_size=16)] * 3)


@given(TOKENS)
def test_tokens_are_text_of_one_length(token: Token) -> None:
    text = str(token)
    assert Token.parse(text) == token
    assert len(text) == 87
    assert text.isascii()


@given(TOKENS, st.data())
def test_a_changed_token_is_refused(token: Token, data: st.DataObject) -> None:
    text = str(token)
    position = data.draw(st.integers(0, len(text) - 2))  # not all bits of the last letter count
    letter = data.draw(st.sampled_from("AZaz09-_").filter(lambda letter: letter != text[position]))
    for changed in (text[:position] + letter + text[position + 1 :], text[:position], text + letter):
        with pytest.raises(MetadataError, match="not a token"):
            Token.parse(changed)


@given(st.one_of(st.text(), st.text("AZaz09-_", min_size=87, max_size=87), st.integers(), st.binary(), st.none()))
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(MetadataError):
        Token.parse(value)


def test_a_token_of_another_version_is_refused() -> None:
    raw = bytearray(base64.urlsafe_b64decode(str(Token(1, digest("a"))) + "="))
    raw[0] = 2
    with pytest.raises(MetadataError):
        Token.parse(base64.urlsafe_b64encode(raw).rstrip(b"=").decode())


def test_digests_tell_rows_apart() -> None:
    records = np.array([(1, "a"), (1, "b")], [("n", "i4"), ("t", object)])
    values = [
        np.array([0]), np.array([1]), np.array([[0, 1]]), np.array(["0"], object), np.array(["01"], object),
        np.array([b"0"], object), np.array([["0", "1"]], object), np.array([-0.0]), records[:1],
        records,
    ]  # fmt: skip
    assert len({digest_of_row([row]) for row in values}) == len(values)
    assert digest_of_row([records]) == digest_of_row([records[1:].copy()])
