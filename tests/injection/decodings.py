"""A count of decoded chunks."""

from typing import Any

import pytest

from tegula.codecs import CodecChain


class Decodings:
    """Counts the chunks with three axes that are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        decode = CodecChain.decode

        def counting(chain: CodecChain, data: Any, shape: Any) -> Any:
            self.count += len(shape) == 3
            return decode(chain, data, shape)

        monkeypatch.setattr(CodecChain, "decode", counting)
