"""Directories with the files of cases: one that all read, and a private one for each writer."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case, Values
from contenders import make
from contenders.interface import Contender


class Place:
    """The files of one case below a root."""

    def __init__(self, root: Path, case: Case) -> None:
        self.root, self.case = root / case.name, case
        self.shared = self.root / "shared"
        self.values_file = self.root / "values"

    def prepare(self) -> None:
        """Write the shared files, with a library other than tegula where possible."""
        self.root.mkdir(parents=True)
        values = self.case.values()
        values.tofile(self.values_file)
        if self.case.format == "bcolz":
            writer = make("bcolz")
            made = writer.make(self.case, self.shared, 0)
        else:
            self._documents(self.shared, None)
            writer = make("ts")
            made = writer.open(self.case, self.shared)
        writer.put(made, ..., values)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def values(self) -> Values:
        """Return the case's values without making them again."""
        return np.fromfile(self.values_file, self.case.dtype).reshape(self.case.shape)

    def _documents(self, path: Path, rows: int | None) -> None:
        path.mkdir(parents=True)
        for name, text in self.case.documents(rows).items():
            (path / name).write_bytes(text)

    def private(self, name: str) -> Path:
        return self.root / f"of-{name}"

    def discard(self, name: str) -> None:
        path = self.private(name)
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()

    def filled(self, contender: Contender) -> Path:
        """Return where a contender can read the values."""
        if not contender.makes(self.case):
            return self.shared
        path = self.root / f"own-{contender.name}"
        if not path.exists():
            made = contender.make(self.case, path)
            contender.put(made, ..., self.values())
            contender.close(made)
        return path

    def copy(self, contender: Contender) -> Path:
        """Return where a contender can change the values."""
        source, path = self.filled(contender), self.private(contender.name)
        self.discard(contender.name)
        if source.is_dir():
            shutil.copytree(source, path)
        else:
            shutil.copy(source, path)
        return path

    def linked(self, name: str) -> Path:
        """Return a copy made of hard links: its chunks may be deleted, but not changed."""
        path = self.private(name)
        self.discard(name)
        documents = self.case.documents()

        def link(source: str, target: str) -> None:
            if Path(source).name in documents:
                shutil.copy(source, target)
            else:
                os.link(source, target)

        shutil.copytree(self.shared, path, copy_function=link)
        return path

    def empty(self, contender: Contender, rows: int | None = None) -> Any:
        """Return an array in which nothing was written, open."""
        path = self.private(contender.name)
        self.discard(contender.name)
        if contender.makes(self.case):
            return contender.make(self.case, path, rows)
        self.bare(contender.name, rows)
        return contender.open(self.case, path)

    def bare(self, name: str, rows: int | None = None) -> Path:
        """Return a directory with nothing but documents in it."""
        path = self.private(name)
        self.discard(name)
        if self.case.format == "bcolz":
            make("bcolz").make(self.case, path, 0)
        else:
            self._documents(path, rows)
        return path

    def stored(self, path: Path) -> Values:
        """Return what is in an array that a contender wrote in the case's format."""
        reader = make("bcolz" if self.case.format == "bcolz" else "ts")
        return reader.reader(reader.open(self.case, path))(...)
