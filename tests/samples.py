"""What other programs have written and answered, kept in ``tests/fixtures``, whose README names the programs."""

from __future__ import annotations

import functools
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parent / "fixtures"


def read_json(archive: str, name: str) -> Any:
    """Return a document from an archive; reading stops where it has been found."""
    with tarfile.open(FIXTURES / f"{archive}.tar.xz", "r|xz") as opened:
        for member in opened:
            if member.name == name and (file := opened.extractfile(member)) is not None:
                return json.load(file)
    raise FileNotFoundError(f"{archive}.tar.xz has no {name}")


def recorded(name: str) -> Any:
    """Return what the tensorstore package has answered, from one of the files in which it is recorded."""
    return read_json("tensorstore", f"{name}.json")


@pytest.fixture(scope="session")
def unpacked_sample(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that unpacks an archive once and returns its folder."""

    @functools.cache
    def unpack(archive: str) -> Path:
        folder = tmp_path_factory.mktemp("samples") / archive
        with tarfile.open(FIXTURES / f"{archive}.tar.xz") as opened:
            opened.extractall(folder, filter="data")
        return folder

    return unpack
