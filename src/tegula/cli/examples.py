"""The examples at the end of the help of each command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["EXAMPLES"]

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("tegula info era.zarr", "tegula convert era.zarr era.zip --codecs zstd"),
    "info": ("tegula info era.zarr", "tegula info s3://bucket/era.zarr::t2m --json"),
    "tree": ("tegula tree era.zarr", "tegula tree --depth 1 s3://bucket/era.zarr"),
    "ls": ("tegula ls -l era.zarr", "tegula ls -r data.zip"),
    "head": ("tegula head era.zarr::t2m", "tegula head -n 3 trades.bcolz"),
    "tail": ("tegula tail trades.bcolz", "tegula tail -f trades.bcolz --json"),
    "cat": ("tegula cat 'era.zarr::t2m[0, ::2, -1]'", "tegula cat trades.bcolz -o trades.csv"),
    "stats": ("tegula stats era.zarr", "tegula stats era.zarr::t2m --json"),
    "plot": (
        "tegula plot 'era.zarr::t2m[0]' -o t2m.png",
        "tegula plot 'era.zarr::t2m[:, 5, 5]' -o series.svg --size 10x4",
    ),
    "serve": ("tegula serve era.zarr --open", "tegula serve era.zarr --host 0.0.0.0 --port 8080"),
    "attrs": ("tegula attrs get era.zarr", "tegula attrs set era.zarr::t2m units=K"),
    "attrs get": ("tegula attrs get era.zarr", "tegula attrs get era.zarr::t2m units"),
    "attrs set": (
        "tegula attrs set era.zarr title 'Monthly means'",
        "tegula attrs set era.zarr::t2m units=K valid_range='[180, 330]'",
    ),
    "attrs unset": ("tegula attrs unset era.zarr history", "tegula attrs unset era.zarr::t2m valid_range"),
    "convert": (
        "tegula convert old.zarr era.zarr --chunks time=24,lat=-1 --verify",
        "tegula convert era.zarr s3://bucket/era.zarr --codecs shuffle,zstd:9 --resume",
    ),
    "references": (
        "tegula references era.zarr era.json",
        "tegula references s3://bucket/era.zarr era.parquet --form parquet",
    ),
    "downsample": (
        "tegula downsample image.zarr::s0 --factors 2",
        "tegula downsample era.zarr::t2m pyramid.zarr --factors lat=2,lon=2",
    ),
    "compare": ("tegula compare era.zarr copy.zarr", "tegula compare era.zarr::t2m s3://bucket/era.zarr::t2m --exact"),
    "checksum": ("tegula checksum era.zarr", "tegula checksum era.zarr::t2m --quiet"),
    "check": ("tegula check era.zarr", "tegula check era.zarr --repair --dry-run"),
    "jobs": ("tegula jobs list .", "tegula jobs show copy.zarr"),
    "jobs list": ("tegula jobs list .", "tegula jobs list s3://bucket/results --json"),
    "jobs show": ("tegula jobs show copy.zarr", "tegula jobs show copy.zarr::era --json"),
    "jobs clean": ("tegula jobs clean copy.zarr", "tegula jobs clean copy.zarr::era --force"),
    "consolidate": ("tegula consolidate era.zarr", "tegula consolidate s3://bucket/era.zarr"),
    "cp": ("tegula cp era.zarr copy.zarr", "tegula cp era.zarr::t2m s3://bucket/era.zarr::t2m --resume"),
    "mv": ("tegula mv era.zarr::t2m era.zarr::temperature", "tegula mv era.zarr archive/"),
    "rm": ("tegula rm era.zarr::t2m", "tegula rm copy.zarr --yes"),
    "doctor": ("tegula doctor", "tegula doctor s3://bucket/era.zarr --write"),
}
"""Two examples for each command, by its name; for all of them at ``""``."""
