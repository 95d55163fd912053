"""Archives for the tests of the zip store, and what other programs find in them."""

import os
import zipfile

import pytest

from tegula.stores import LocalStore, ZipStore
from tegula.stores.zip.remote import RemoteZipStore


def by_ranges(path):
    """Open an archive as one in another store."""
    return RemoteZipStore(LocalStore(os.path.dirname(path)), os.path.basename(path))


readers = pytest.mark.parametrize("reader", [ZipStore, by_ranges])


def contents(path):
    """Return what zipfile finds, after checking that the archive is valid."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(names) == len(set(names))
        return {name: archive.read(name) for name in names}


def write(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, value in members.items():
            archive.writestr(name, value)


METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
