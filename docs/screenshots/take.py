"""Take the screenshots of docs/how-to/look-at-data.md: ``just screenshots``, with Chromium on the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tegula

HERE = Path(__file__).resolve().parent
WIDTH = 760
# what JupyterLab says about text and tables in the output of a cell
STYLE = """
body {{ margin: 0; padding: 12px; font-family: system-ui, sans-serif; font-size: 14px;
        color: {text}; background: {ground} }}
table {{ border-collapse: collapse; border-spacing: 0; border: none; font-size: 12px; table-layout: fixed;
         margin-left: auto; margin-bottom: 1em; margin-right: auto }}
td, th, tr {{ vertical-align: middle; padding: 0.5em; line-height: normal; white-space: normal; max-width: none;
              border: none }}
td, th {{ text-align: right }}
tbody tr:nth-child(odd) {{ background: {stripe} }}
"""
THEMES = {
    "light": {"text": "#212121", "ground": "#ffffff", "stripe": "#f5f5f5"},
    "dark": {"text": "#e0e0e0", "ground": "#111111", "stripe": "#212121"},
}
MEASURE = "<script>document.title = document.documentElement.getBoundingClientRect().height</script>"


def browser() -> str:
    """Find Chromium, or Chrome."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    sys.exit("there is no Chromium on the PATH (Debian's package is called chromium)")


def run(command: list[str]) -> str:
    """Run a program and return what it prints."""
    return subprocess.run(command, capture_output=True, check=True, timeout=120, text=True).stdout


def shoot(html: str, target: Path, theme: str) -> None:
    """Draw a piece of HTML in a notebook's style, and save it as a PNG as high as it is."""
    style = STYLE.format(**THEMES[theme])
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "page.html"
        page.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{html}{MEASURE}", encoding="utf-8")
        command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        size = f"--window-size={WIDTH},200"
        dom = run([*command, size, "--dump-dom", page.as_uri()])
        height = float(re.findall(r"<title>([\d.]+)</title>", dom)[0])
        size = f"--window-size={WIDTH},{int(height) + 1}"
        run([*command, size, f"--screenshot={target}", page.as_uri()])
    print(f"{target.name}: {target.stat().st_size / 1024:.0f} KiB")


def views() -> Iterator[tuple[str, Any]]:
    """Yield a name and a value for each picture."""
    root = tegula.create_group("climate.zarr", overwrite=True, attributes={"title": "Daily means", "version": 3})
    names = ("time", "lat", "lon")
    yield "array-1d", root.create_array("time", shape=1460, dtype="M8[D]", chunks=365, dimension_names=["time"])
    yield "array-2d", root.create_array(
        "orography", shape=(721, 1440), dtype="f4", chunks=(181, 360), dimension_names=names[1:], fill_value=np.nan
    )  # fmt: skip
    t2m = root.create_array(
        "surface/t2m", shape=(1460, 721, 1440), dtype="f4", chunks=(365, 181, 360), dimension_names=names,
        fill_value=np.nan,
        attributes={"units": "K", "long_name": "air temperature at 2 m", "scaling": {"factor": 0.01, "offset": 273.15}},
    )  # fmt: skip
    yield "array-3d", t2m
    yield "array-sharded-4d", root.create_array(
        "levels/wind", shape=(48, 40, 60, 80), dtype="f4", chunks=(1, 5, 10, 10), shards=(12, 10, 20, 20),
        dimension_names=["time", "z", "y", "x"], codecs=["blosc"], checksum=True, fill_value=np.nan,
    )  # fmt: skip
    prices = {"day": np.arange("2024-01-01", "2024-04-10", dtype="M8[D]"), "close": np.linspace(90, 110, 100)}
    prices["volume"] = np.arange(100) * 1000
    table = tegula.create_table("prices.bcolz", prices, overwrite=True)
    t2m[0, :181, :360] = 280
    root["orography"][:200] = 3
    root["time"][:] = np.arange("2020-01-01", "2023-12-31", dtype="M8[D]")
    yield "group", root
    yield "table", table
    yield "attributes", t2m.attrs
    yield "convert-report", tegula.convert("climate.zarr", "climate.zarr2", format="zarr2", overwrite=True, verify=True)
    chunk = next(path for path in Path("climate.zarr/orography/c").rglob("*") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-7])
    Path("climate.zarr/surface/notes.txt").write_text("look at June again", encoding="utf-8")
    yield "check-report", tegula.check("climate.zarr")


def main() -> None:
    """Take all pictures, the box also on a dark ground."""
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        for name, value in views():
            shown = value._repr_html_().replace(f"file://{directory}", "file:///data")
            shoot(shown, HERE / f"{name}.png", "light")
            if name in ("array-3d", "group", "check-report"):
                shoot(shown, HERE / f"{name}-dark.png", "dark")
        os.chdir(HERE)


if __name__ == "__main__":
    main()
