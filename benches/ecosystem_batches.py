"""Random batches for training: one epoch, by the loader of the how-to page "Train on random batches".

`rows` is for `ecosystem.py`, which times its rows with those of the other integrations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import tegula

__all__ = ["rows"]

_PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "train-on-random-batches.md"
_SHAPE, _INNER, _SHARD = (32, 32, 3), 10, 500


def loader() -> Any:
    """Return the class `RandomBatches` of the documentation."""
    code = re.search(r'title="random_batches.py"\n(.*?)```', _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)
    return names["RandomBatches"]


def prepared(folder: Path, samples: int) -> Path:
    """Store images in shards, and their labels."""
    path = folder / f"images-{samples}"
    if not path.exists():
        rng = np.random.default_rng(1)
        images = rng.integers(-2, 3, (samples, *_SHAPE), dtype="i1").cumsum(axis=1).astype("u1")
        grid: dict[str, Any] = {"chunks": (_INNER, *_SHAPE), "shards": (_SHARD, *_SHAPE)}
        tegula.create_array(path / "images", data=images, codecs="zstd", **grid)
        tegula.create_array(path / "labels", data=np.arange(samples), chunks=(_SHARD,))
    return path


def rows(folder: Path, samples: int) -> list[tuple[str, str, Callable[[], Any]]]:
    """Return what to time, as (operation, contender, function); make the data in `folder` if they are not there."""
    path, zarr, batches = prepared(folder, samples), import_module("zarr"), loader()
    names = "images", "labels"
    arrays: dict[str, tuple[Any, ...]] = {"tegula": tuple(tegula.open_array(path / name) for name in names)}
    pipelines = {"zarr-python": "BatchedCodecPipeline", "fused": "FusedCodecPipeline"}
    for contender, pipeline in pipelines.items():
        if hasattr(import_module("zarr.core.codec_pipeline"), pipeline):
            with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}):
                arrays[contender] = tuple(zarr.open_array(path / name, mode="r") for name in names)

    def epoch(of: tuple[Any, ...]) -> int:
        return sum(len(labels) for _, labels in batches(of, size=256))

    def draw(of: tuple[Any, ...]) -> Any:
        chosen = np.sort(np.random.default_rng(0).choice(samples, 256, replace=False))
        return of[0].oindex[chosen]

    operations = {"batches: an epoch by shards": epoch, "batches: 256 samples drawn from all": draw}
    return [(name, who, partial(act, of)) for name, act in operations.items() for who, of in arrays.items()]
