"""References to every array of the fixtures are read by fsspec and zarr-python with the same values."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
import tegula.references
from tegula.errors import TegulaError

zarr = pytest.importorskip("zarr", minversion="3")
fsspec = pytest.importorskip("fsspec")

FIXTURES = Path(__file__).parent.parent / "fixtures"


def _cases() -> Iterator[tuple[str, str, str]]:
    for archive in sorted(FIXTURES.glob("*.zip")):
        with zipfile.ZipFile(archive) as opened:
            index = json.loads(opened.read("index.json"))
        for case in index["cases"]:
            if case["kind"] in ("array", "table"):
                yield archive.stem, f"{case['case']}/store/{case.get('store', '')}".rstrip("/"), case["path"]


CASES = sorted({*_cases()})


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fixtures")
    for archive in FIXTURES.glob("*.zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(root / archive.stem)
            copies = json.loads(opened.read("index.json")).get("copies", {})
        for name, original in copies.items():
            (root / archive.stem / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / archive.stem / original, root / archive.stem / name)
    return root


def by_zarr(references: Any, path: str, zf=None, **options: Any) -> Any:
    fs = fsspec.filesystem("reference", fo=references, remote_protocol="file", asynchronous=True, **options)
    store = zarr.storage.FsspecStore(fs, read_only=True)
    return zarr.open(store, path=path, mode="r", zarr_format=zf)


def test_x(unpacked: Path, tmp_path: Path) -> None:
    counts = {}
    for form in ("k2", "k3", "pq"):
      for archive, place, path in CASES:
        target = tmp_path / "r"
        if target.is_dir(): shutil.rmtree(target)
        elif target.exists(): target.unlink()
        try:
            node = tegula.open(unpacked / archive / place, path=path, allow_pickle=True)
            expected = {"x": node[...]} if isinstance(node, tegula.Array) else {f"x/{n}": node[n][...] for n in node.names}
        except TegulaError as e:
            continue
        try:
            if form == "pq":
                tegula.references.write(node, target, "parquet", path="x", record_size=3)
                refs = str(target)
            else:
                refs = {}
                tegula.references.write(node, refs, path="x", zarr_format=int(form[1]))
        except tegula.UnsupportedError as e:
            counts.setdefault((form, "unsupported"), []).append((archive, place, str(e)[:150])); continue
        except Exception as e:
            counts.setdefault((form, "ERROR"), []).append((archive, place, repr(e)[:250])); continue
        for name, value in expected.items():
            try:
                own = tegula.open("reference://", path=name, storage_options={"fo": refs}, allow_pickle=True)[...]
                assert repr(own.tolist()) == repr(value.tolist()) or np.array_equal(own, value, equal_nan=value.dtype.kind in "fc")
            except Exception as e:
                counts.setdefault((form, "OWN"), []).append((archive, place, repr(e)[:250]))
            try:
                import warnings
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = by_zarr(refs, name, 2 if form=="pq" else None)[...]
                ok = np.array_equal(np.asarray(found).astype(value.dtype, copy=False), value) or (value.dtype.kind in "fc" and np.array_equal(found, value, equal_nan=True)) or repr(np.asarray(found).tolist())==repr(value.tolist())
                counts.setdefault((form, "ok" if ok else "DIFFERENT"), []).append((archive, place, repr(found)[:60] if not ok else ""))
            except Exception as e:
                counts.setdefault((form, "zarr"), []).append((archive, place, repr(e)[:200]))
    for k, v in counts.items():
        print(k, len(v))
        if k[1] != "ok":
            for item in v: print("    ", item)
    assert 0
