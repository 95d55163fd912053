"""Time the page of `tegula serve` in Chromium: the first image of a large array, its slider, and a long table.

Run it with ``python benches/page.py``; it needs the extra ``tegula[server]``, Playwright, and Chromium on the PATH.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tegula

ROWS = 10**8
SHAPE, CHUNKS = (2560, 1024, 1024), (8, 256, 256)  # 10.7 GB of float32 in chunks of 2 MiB
STORED = 64  # planes with elements; the others hold the fill value
# milliseconds between a click and the first picture with all its chunks
CLICK = """path => new Promise(resolve => {
    const canvas = document.querySelector('canvas.pixels');
    const watch = new MutationObserver(() => {
        if (canvas.dataset.state !== 'ready' || canvas.dataset.path !== path) return;
        watch.disconnect();
        requestAnimationFrame(() => resolve(performance.now() - start));
    });
    watch.observe(canvas, {attributes: true});
    const start = performance.now();
    document.querySelector(`a[data-path="${path}"]`).click();
})"""
# milliseconds for each step of a slider, until the picture is painted
SLIDE = """async count => {
    const slider = document.querySelector('input[type=range]');
    const frame = () => new Promise(requestAnimationFrame);
    const found = [];
    for (let at = 0; at < count; at++) {
        const start = performance.now();
        slider.value = String(at);
        slider.dispatchEvent(new Event('input', {bubbles: true}));
        do await frame(); while (document.querySelector('canvas.pixels').dataset.index.split(',')[0] !== String(at));
        found.push(performance.now() - start);
    }
    return found;
}"""
# the longest time between two frames while the table is scrolled, and the longest task that the browser noticed
SCROLL = """async () => {
    const scroller = document.querySelector('.scroller');
    const tasks = [];
    const note = list => tasks.push(...list.getEntries().map(entry => entry.duration));
    new PerformanceObserver(note).observe({entryTypes: ['longtask']});
    const gaps = [];
    let before = performance.now();
    for (let at = 0; at <= 300; at++) {
        if (at % 3 === 0) scroller.scrollTop = (scroller.scrollHeight - scroller.clientHeight) * (at / 300);
        else scroller.dispatchEvent(new WheelEvent('wheel', {deltaY: 240, bubbles: true, cancelable: true}));
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        gaps.push(now - before);
        before = now;
    }
    return [Math.max(...gaps), Math.max(0, ...tasks), document.querySelector('.table').dataset.first];
}"""


def make(directory: Path) -> None:
    """Write the array, as one member among others, and the table."""
    group = tegula.create_group(directory / "large.zarr")
    array = group.create_array("volume", shape=SHAPE, chunks=CHUNKS, dtype="f4")
    y, x = np.ogrid[: SHAPE[1], : SHAPE[2]]
    noise = np.random.default_rng(0).normal(scale=0.02, size=SHAPE[1:]).astype("f4")
    for start in range(0, STORED, CHUNKS[0]):
        z = np.arange(start, start + CHUNKS[0])[:, None, None]
        array[start : start + CHUNKS[0]] = np.sin(x / 50 + z / 9) * np.cos(y / 70) + noise
    columns = {"id": np.zeros(0, "i8"), "value": np.zeros(0, "f8"), "name": np.zeros(0, "S8")}
    table = tegula.create_table(directory / "long.bcolz", columns)
    block = 10**6
    for start in range(0, ROWS, block):
        ids = np.arange(start, start + block)
        table.append({"id": ids, "value": np.sqrt(ids), "name": np.full(block, b"row")})


def measure(directory: Path) -> None:
    """Print each number."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        with tegula.open(directory / "large.zarr", mode="r") as node, tegula.serve(node, port=0) as server:
            clicks = []
            for _ in range(3):
                page = opened(browser, server.url)
                page.wait_for_selector("a[data-path=volume]")
                clicks.append(page.evaluate(CLICK, "volume"))
            print(f"first image after the click: {', '.join(f'{time:.0f}' for time in clicks)} ms")
            count = 24
            page.evaluate(SLIDE, count)  # reads the chunks
            page.wait_for_selector("canvas.pixels[data-state=ready]", state="attached")
            times = page.evaluate(SLIDE, count)
            print(
                f"slider: {1000 / statistics.mean(times):.0f} pictures a second, the slowest took {max(times):.0f} ms"
            )
        with tegula.open(directory / "long.bcolz", mode="r") as node, tegula.serve(node, port=0) as server:
            page = opened(browser, server.url)
            page.wait_for_selector(".table[data-state=ready]")
            gap, task, first = page.evaluate(SCROLL)
            print(f"table: longest gap {gap:.0f} ms, longest task {task:.0f} ms, ends at row {first}")
        browser.close()


def opened(browser: Any, url: str) -> Any:
    """Open the page in a browser that knows nothing of it."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(url)
    return page


if __name__ == "__main__":
    if len(sys.argv) > 1:
        place = Path(sys.argv[1])
        if not (place / "long.bcolz").exists():
            make(place)
        measure(place)
    else:
        with tempfile.TemporaryDirectory() as name:
            make(Path(name))
            measure(Path(name))
