"""Take the screenshots of docs/how-to/serve-and-view.md: ``just screenshots``, with Playwright and Chromium."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright
from take import browser as find_browser

import tegula

HERE = Path(__file__).resolve().parent
# the temporary directory is of no interest
HIDE = """name => document.querySelectorAll('dd').forEach(place => {
    if (place.textContent.includes(name)) place.textContent = place.textContent.replace(name, '/data');
})"""
SIZE = {"width": 1080, "height": 660}


def add(group: Any, name: str, values: Any, dims: list[str] | None = None, **options: Any) -> Any:
    """Create an array with its values."""
    attributes = options.pop("attributes", {})
    array = group.create_array(
        name, shape=values.shape, dtype=values.dtype, dimension_names=dims, attributes=attributes, **options
    )
    array[...] = values
    return array


def climate(root: Any) -> None:
    """Make packed temperatures above the sea, with coordinates."""
    group = root.create_group("climate", attributes={"Conventions": "CF-1.11", "title": "Daily means"})
    days, lat, lon = np.arange(60), np.linspace(-90, 90, 181).astype("f4"), np.arange(360, dtype="f4")
    add(group, "time", days + 31, ["time"], attributes={"units": "days since 2020-01-01", "calendar": "noleap"})
    add(group, "lat", lat, ["lat"], attributes={"units": "degrees_north", "standard_name": "latitude"})
    add(group, "lon", lon, ["lon"], attributes={"units": "degrees_east", "standard_name": "longitude"})
    phi, lam, t = np.radians(lat)[:, None], np.radians(lon), days[:, None, None] / 10
    warm = 300 - 45 * np.sin(phi) ** 2 + 6 * np.sin(2 * lam + t) * np.cos(phi) ** 2
    warm = warm + 3 * np.cos(5 * phi + 3 * lam) + 2 * np.sin(7 * lam - t) * np.cos(3 * phi)
    packed = np.round((warm - 273.15) / 0.01).astype("i2")
    waves = np.sin(2 * lam + 0.6) + 0.7 * np.cos(3 * phi - lam) + 0.5 * np.sin(5 * lam + 4 * phi)
    packed[:, (waves > 0.95) & (np.abs(phi) < 1.3)] = -32768
    attributes = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768, "units": "K"}
    attributes["long_name"] = "sea surface temperature"
    add(group, "sst", packed, ["time", "lat", "lon"], chunks=(10, 61, 90), attributes=attributes)
    anomaly = (warm - warm.mean(0)).astype("f4")
    add(group, "anomaly", anomaly, ["time", "lat", "lon"], chunks=(10, 61, 90), attributes={"units": "K"})


def pyramid(root: Any) -> None:
    """Make an image in levels."""
    group = root.create_group("cells")
    random = np.random.default_rng(7)
    y, x = np.ogrid[:1024, :1536]
    image = 60 + random.normal(0, 1, (1024, 1536))
    for _ in range(70):
        cy, cx, size = random.uniform(0, 1024), random.uniform(0, 1536), random.uniform(18, 60)
        image += random.uniform(200, 900) * np.exp(-((((y - cy) / size) ** 2 + ((x - cx) / (size * 1.4)) ** 2) ** 2))
    datasets = []
    for level in range(4):
        small = image.reshape(1024 >> level, 1 << level, 1536 >> level, 1 << level).mean((1, 3))
        add(
            group,
            str(level),
            np.stack([small, small[::-1]]).clip(0).astype("u2"),
            ["c", "y", "x"],
            chunks=(1, 128, 128),
        )
        scale = [1.0, 0.25 * 2**level, 0.25 * 2**level]
        datasets.append({"path": str(level), "coordinateTransformations": [{"type": "scale", "scale": scale}]})
    axes = [{"name": "c", "type": "channel"}] + [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    window = {"start": 60, "end": 900, "min": 0, "max": 65535}
    colours = (("membranes", "00FF00"), ("nuclei", "FF00FF"))
    group.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [{"name": "cells", "axes": axes, "datasets": datasets}],
        "omero": {"channels": [{"label": name, "color": colour, "window": window} for name, colour in colours]},
    }


def others(root: Any) -> None:
    """Make a sharded volume, a long line, names, and an array with a chunk that lost its end."""
    random = np.random.default_rng(1)
    z, y, x = np.ogrid[:96, :256, :256]
    volume = 2000 + 900 * np.sin(np.hypot(y - 128, x - 128) / 9 - z / 5) + 300 * np.cos(z / 8 + x / 30)
    wind = root.create_array("volume", shape=volume.shape, dtype="u2", chunks=(8, 64, 64), shards=(32, 128, 128))
    wind[...] = volume.astype("u2")
    add(root, "walk", np.cumsum(random.normal(size=10**6)), chunks=50_000)
    names = np.array([f"station {at:03d}" for at in range(500)], object)
    root.create_array("stations", shape=500, dtype=str, chunks=100)[...] = names
    broken = add(root, "broken", volume[0].astype("f4"), chunks=(64, 64))
    root.store.set("broken/c/2/1", root.store.get("broken/c/2/1")[:-7])
    assert broken.shape == (256, 256)


def shots(directory: Path) -> list[tuple[Path, list[tuple[str, str]]]]:
    """Return targets with names and fragments of pictures."""
    root = tegula.create_group(directory / "data.zarr")
    climate(root)
    pyramid(root)
    others(root)
    day = np.arange("2000-01-01", "2018-01-01", dtype="M8[D]")
    walk = 100 + np.cumsum(np.random.default_rng(2).normal(size=day.size))
    volume = np.random.default_rng(3).integers(0, 10**6, day.size)
    tegula.create_table(directory / "prices.bcolz", {"day": day, "close": walk.round(2), "volume": volume})
    records = np.zeros(1000, [("id", "i4"), ("name", "U12"), ("position", "f4", 3)])
    records["id"], records["name"] = np.arange(1000), [f"particle {at}" for at in range(1000)]
    records["position"] = np.random.default_rng(4).normal(size=(1000, 3)).round(3)
    tegula.create_array(directory / "particles.zarr", shape=1000, dtype=records.dtype, format="zarr2")[...] = records
    return [
        (
            directory / "data.zarr",
            [
                ("page-image", "#/climate/sst?marked=1&at=12,100,140"),
                ("page-diverging", "#/climate/anomaly?map=diverging&at=30,0,0"),
                ("page-pyramid", "#/cells?view=300,150,0.8,0.8"),
                ("page-line", "#/walk"),
                ("page-strings", "#/stations"),
                ("page-about", "#/volume?tab=about"),
                ("page-group", "#/climate"),
                ("page-broken", "#/broken?map=grey"),
                ("page-dark", "#/climate/sst?map=magma&at=40,0,0"),
            ],
        ),
        (directory / "prices.bcolz", [("page-table", "#/")]),
        (directory / "particles.zarr", [("page-structs", "#/")]),
    ]


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for target, pictures in shots(Path(name)):
            with tegula.open(target, mode="r") as node, tegula.serve(node, port=0) as server:
                for title, fragment in pictures:
                    theme = "dark" if title.endswith("dark") else "light"
                    page = browser.new_context(viewport=SIZE, color_scheme=theme).new_page()
                    page.goto(f"{server.url}/{fragment}")
                    page.wait_for_load_state("networkidle")
                    page.wait_for_timeout(500)
                    if title in ("page-about", "page-group"):
                        page.evaluate(HIDE, name)
                    if title == "page-broken":
                        page.locator(".errors summary").click()
                    if title == "page-table":
                        page.get_by_role("button", name="close", exact=True).click()
                        page.wait_for_selector(".statistics dl")
                    page.screenshot(path=HERE / f"{title}.png")
                    print(f"{title}.png: {(HERE / f'{title}.png').stat().st_size / 1024:.0f} KiB")
                    page.context.close()
        browser.close()


if __name__ == "__main__":
    main()
