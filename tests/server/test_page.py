"""The page in Chromium, with a node of each kind: what it draws, and how it responds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.browser import Screen, chromium, elements, grey

import tegula

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow]

ROWS = 10**8


def fill_group(root: tegula.Group) -> None:
    """Create an array of each kind in a group of Zarr v3."""
    climate = root.create_group("climate", attributes={"title": "Daily means"})
    for name, values, attributes in (
        ("time", np.arange(6) + 57, {"units": "days since 2020-01-01", "calendar": "noleap"}),
        ("lat", np.linspace(-60, 60, 7), {"units": "degrees_north"}),
        ("lon", np.arange(0.0, 90, 10), {"units": "degrees_east"}),
    ):
        climate.create_array(
            name, shape=values.shape, dtype=values.dtype, dimension_names=[name], attributes=attributes
        )[...] = values
    packed = (np.arange(6 * 7 * 9).reshape(6, 7, 9) * 10).astype("i2")
    packed[:, 2, 3] = -999
    climate.create_array(
        "t2m", shape=packed.shape, dtype="i2", chunks=(2, 4, 5), dimension_names=["time", "lat", "lon"],
        attributes={"scale_factor": 0.5, "add_offset": 100, "_FillValue": -999, "units": "K",
                    "long_name": "air temperature"},
    )[...] = packed  # fmt: skip
    sharded = root.create_array(
        "sharded", shape=(20, 40, 60), dtype="u2", chunks=(2, 10, 10), shards=(10, 20, 30), codecs=["blosc"]
    )
    sharded[...] = np.arange(sharded.size).reshape(sharded.shape)
    sparse = root.create_array("sparse", shape=(10**6, 10**6), dtype="f4", chunks=(1000, 1000), fill_value=np.nan)
    sparse[500_000:500_010, 500_000:500_010] = 1
    root.create_array("series", shape=10_000, dtype="f8", chunks=1000)[...] = np.sin(np.arange(10_000) / 100)
    root.create_array("scalar", shape=(), dtype="f8")[...] = 3.25
    root.create_array("names", shape=30, dtype=str, chunks=10)[...] = np.array(
        [f"<b>{at}é" for at in range(30)], object
    )
    words = root.create_array("words", shape=(3, 4, 5), dtype="S6", chunks=(1, 4, 5), dimension_names=["z", "y", "x"])
    words[...] = np.array([f"w{at}" for at in range(60)], "S6").reshape(3, 4, 5)
    broken = root.create_array("broken", shape=(8, 8), dtype="i4", chunks=(4, 4), codecs=["zstd"])
    broken[...] = np.arange(64).reshape(8, 8)
    key = f"{broken.path}/c/1/1".lstrip("/")
    root.store.set(key, root.store.get(key)[:-3])
    fill_pyramid(root.create_group("cells"), "0.5")


def fill_pyramid(group: tegula.Group, version: str) -> None:
    """Create an image of OME-Zarr whose levels can be told apart by their values."""
    datasets = []
    for level in range(4):
        size = 1024 >> level
        array = group.create_array(str(level), shape=(2, size, size), dtype="u2", chunks=(1, 64, 64))
        array[...] = np.arange(size)[:, None] % 100 + 1000 * level + np.arange(2)[:, None, None] * 100
        scale = [1.0, 0.5 * 2**level, 0.5 * 2**level]
        datasets.append({"path": str(level), "coordinateTransformations": [{"type": "scale", "scale": scale}]})
    axes = [{"name": "c", "type": "channel"}] + [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    multiscales = [{"version": version, "axes": axes, "datasets": datasets}]
    group.attrs.update(
        {"multiscales": multiscales} if version == "0.4" else {"ome": {"version": version, "multiscales": multiscales}}
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> tegula.Group:
    group = tegula.create_group(tmp_path_factory.mktemp("page") / "all.zarr", attributes={"title": "All kinds"})
    fill_group(group)
    return group


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def server(root: tegula.Group, browser: Any) -> Iterator[Any]:
    with tegula.serve(root, port=0) as running:
        yield running


@pytest.fixture
def screen(server: Any, browser: Any) -> Iterator[Screen]:
    screen = Screen(browser, server.url)
    yield screen
    screen.close()


def drawn(screen: Screen, plane: np.ndarray[Any, Any], said: dict[str, str], *, factor: int = 1) -> None:
    """Compare the pixels with a plane, which is missing where it is NaN."""
    pixels = screen.pixels()
    rows = elements(float(said["y"]), float(said["scaleY"]), pixels.shape[0], plane.shape[0], factor)
    columns = elements(float(said["x"]), float(said["scaleX"]), pixels.shape[1], plane.shape[1], factor)
    values = plane[np.ix_(rows, columns)]
    inside = (rows >= 0)[:, None] & (columns >= 0)
    shown, missing = inside & ~np.isnan(values), inside & np.isnan(values)
    wanted = grey(values, float(said["low"]), float(said["high"]))
    assert shown.any()
    assert (pixels[shown][:, :3] == wanted[shown][:, None]).all()
    assert (pixels[..., 3] == np.where(inside, 255, 0)).all()
    assert np.isin(pixels[missing][:, 0], (214, 236)).all()


def temperatures(root: tegula.Group, index: int) -> np.ndarray[Any, Any]:
    stored = root["climate/t2m"][index].astype("f8")
    return np.where(stored == -999, np.nan, stored * 0.5 + 100)[::-1]  # latitudes rise, so the last is at the top


def test_an_image_of_packed_data_with_coordinates(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/climate/t2m?map=grey")
    screen.page.wait_for_selector("text=lat (°N)")
    said = screen.ready()
    drawn(screen, temperatures(root, 0), said)
    assert screen.page.inner_text(".summary").startswith("air temperature (K) · 6 × 7 × 9 · int16")
    labels = screen.page.locator(".axes text").all_text_contents()
    assert {"lon (°E)", "lat (°N)", "−20", "20", "80"} <= set(labels)
    # the limits leave one value in a hundred out
    values = temperatures(root, 0)
    values = np.sort(values[~np.isnan(values)])
    assert values[0] <= float(said["low"]) < float(said["high"]) <= values[-1]


def test_a_slider_changes_the_plane_and_names_its_date(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/climate/t2m?map=grey&limits=100,700")
    screen.page.wait_for_selector("text=lat (°N)")
    slider = screen.page.get_by_label("time", exact=True)
    for index, date in ((2, "2020-03-01"), (5, "2020-03-04")):  # without the 29th of February
        slider.fill(str(index))
        said = screen.until(f"d.index.startsWith('{index},')")
        drawn(screen, temperatures(root, index), said)
        assert screen.page.get_by_label("time: value").input_value() == date
        assert slider.get_attribute("aria-valuetext") == date


def test_only_the_chunks_in_sight_are_read(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/sharded?at=7,0,0&view=0,0,64,64&map=grey")  # some elements in the corner
    said = screen.ready()
    ranges = [url for url in screen.requests if "/sharded/c/" in url]
    assert {url.partition("/sharded/")[2] for url in ranges} == {"c/0/0/0"}
    pixels = screen.pixels()
    inner = -(-(pixels.shape[0] / 64) // 10) * -(-(pixels.shape[1] / 64) // 10)
    assert len(ranges) == 1 + inner  # the index of the shard, and each inner chunk
    drawn(screen, root["sharded"][7].astype("f8"), said)


def test_requests_end_when_the_view_moves_on(screen: Screen, root: tegula.Group) -> None:
    held: list[str] = []
    ended: list[str] = []
    screen.page.route("**/t2m/c/0/**", lambda route: held.append(route.request.url))  # these are never answered
    screen.page.on("requestfailed", lambda request: ended.append(request.url))
    screen.show("#/climate/t2m?map=grey&limits=100,700")
    screen.page.wait_for_selector("text=lat (°N)")
    while len(held) < 4:
        screen.page.wait_for_timeout(20)
    assert screen.data()["state"] == "loading"
    assert screen.page.inner_text(".progress span").startswith("0 of 4 chunks")
    screen.page.get_by_label("time", exact=True).fill("5")
    drawn(screen, temperatures(root, 5), screen.until("d.index.startsWith('5,')"))
    assert sorted(url for url in ended if "/c/" in url) == sorted(held)


def test_a_huge_plane_is_not_read_as_a_whole(screen: Screen) -> None:
    screen.show("#/sparse")
    said = screen.ready()
    assert len([url for url in screen.requests if "/sparse/c/" in url]) < 200
    assert abs(float(said["x"]) - 500_000) < 20_000
    screen.page.locator("canvas.pixels").focus()
    for _ in range(12):
        screen.page.keyboard.press("-")
    screen.page.wait_for_selector(".message button")
    assert "Read them all" in screen.page.inner_text(".message")
    assert len([url for url in screen.requests if "/sparse/c/" in url]) < 4000


def test_pyramid_levels_follow_the_zoom(screen: Screen, root: tegula.Group) -> None:
    levels = []
    for scale in (0.125, 0.3, 0.5, 1, 4):
        screen.show(f"#/cells?at=1,0,0&map=grey&limits=0,4000&view=100,100,{scale},{scale}")
        said = screen.until("d.path === 'cells'")
        level = int(said["level"])
        drawn(screen, root[f"cells/{level}"][1].astype("f8"), said, factor=2**level)
        levels.append(level)
    assert levels == [3, 1, 1, 0, 0]


def test_a_coarser_level_is_shown_until_the_right_one_is_read(screen: Screen, root: tegula.Group) -> None:
    held: list[Any] = []

    def hold(route: Any) -> None:
        if None in held:
            route.continue_()
        else:
            held.append(route)

    screen.page.route("**/cells/0/c/**", hold)
    screen.show("#/cells?map=grey&limits=0,4000&view=100,100,0.3,0.3")
    screen.until("d.level === '1'")
    screen.page.evaluate("location.hash = '#/cells?map=grey&limits=0,4000&view=300,300,2,2'")
    while not held or (said := screen.data())["level"] != "0":
        screen.page.wait_for_timeout(20)
    screen.page.wait_for_timeout(100)
    assert said["state"] == "loading"
    drawn(screen, root["cells/1"][0].astype("f8"), said, factor=2)
    waiting = [*held]
    held.append(None)
    for route in waiting:
        route.continue_()
    drawn(screen, root["cells/0"][0].astype("f8"), screen.until("d.level === '0'"))


def test_a_pyramid_in_zarr_2(browser: Any, tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "x.zarr", format="zarr2")
    fill_pyramid(group, "0.4")
    with tegula.serve(group, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/?map=grey&limits=0,4000&at=0,0,0&view=0,0,0.25,0.25")
        said = screen.ready()
        assert said["level"] == "2"
        drawn(screen, group["2"][0].astype("f8"), said, factor=4)
        assert "level 2 of 4" in screen.page.inner_text(".foot .note")
        screen.close()


@pytest.mark.sampled(one_in=17)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_a_data_set_of_xarray(zarr_format: int, browser: Any, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    values = np.arange(4 * 5 * 6, dtype="f8").reshape(4, 5, 6) / 2
    values[1, 2, 3] = np.nan
    times = np.array(["2021-03-01", "2021-03-02", "2021-03-03T12:00", "2021-03-05"], "M8[ns]")
    coords = {"time": times, "y": np.arange(5) * 10.0, "station": ("x", [f"s{at}" for at in range(6)])}
    data = xarray.Dataset({"t": (("time", "y", "x"), values)}, coords)
    encoding = {"t": {"dtype": "i2", "scale_factor": 0.5, "add_offset": -3.0, "_FillValue": -9}}
    data.to_zarr(tmp_path / "x.zarr", zarr_format=zarr_format, encoding=encoding, consolidated=False)
    data["raw"] = data["t"].astype("f4")
    data[["raw"]].to_zarr(tmp_path / "x.zarr", mode="a", zarr_format=zarr_format, consolidated=False,
                          encoding={"raw": {"_FillValue": np.float32(7)}})  # fmt: skip
    values[values == 7] = np.nan
    with tegula.serve(tegula.open(tmp_path / "x.zarr"), port=0) as running:
        screen = Screen(browser, running.url)
        for name in ("t", "raw"):
            screen.show(f"#/{name}?map=grey&limits=0,60&at=1,0,0")
            screen.page.wait_for_selector("[aria-label=time][aria-valuetext='2021-03-02']")
            expected = (
                data["t"].values[1] if name == "t" else np.where(data["t"].values[1] == 7, np.nan, data["t"].values[1])
            )
            drawn(screen, expected, screen.until(f"d.path === '{name}'"))
        screen.page.get_by_label("time", exact=True).fill("2")
        screen.page.wait_for_selector("[aria-label=time][aria-valuetext='2021-03-03 12:00']")
        screen.close()


def test_zoom_drag_and_mark(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/sharded?map=grey&limits=0,50000")
    before = screen.ready()
    box = screen.page.locator("canvas.pixels").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    screen.page.mouse.move(*middle)
    screen.page.mouse.wheel(0, -300)
    after = screen.until(f"Number(d.scaleX) > 1.5 * {before['scaleX']}")
    drawn(screen, root["sharded"][0].astype("f8"), after)
    screen.page.mouse.down()
    screen.page.mouse.move(middle[0] + 50, middle[1] + 20, steps=3)
    screen.page.mouse.up()
    moved = screen.until(f"Number(d.x) < {after['x']}")
    assert float(after["x"]) - float(moved["x"]) == pytest.approx(50 / float(after["scaleX"]), abs=1e-6)
    drawn(screen, root["sharded"][0].astype("f8"), moved)
    # the value below the pointer, and the line through the mark
    screen.page.mouse.click(*middle)
    column = int(float(moved["x"]) + box["width"] / 2 / float(moved["scaleX"]))
    row = int(float(moved["y"]) + box["height"] / 2 / float(moved["scaleY"]))
    marked = screen.until(f"d.index === '0,{row},{column}'")
    line = screen.until("d.axis === '2'", ".below .plot")
    values = root["sharded"][0, row]
    assert (float(line["low"]), float(line["high"])) == (values.min(), values.max())
    screen.page.locator(".below select").select_option("0")
    line = screen.until("d.axis === '0'", ".below .plot")
    values = root["sharded"][:, row, column]
    assert (float(line["low"]), float(line["high"])) == (values.min(), values.max())
    screen.page.mouse.move(middle[0] + 1, middle[1])
    readout = screen.page.inner_text(".foot .readout")
    assert readout.replace("\u202f", "").endswith(f"axis 1 {row} · axis 2 {column} · {root['sharded'][0, row, column]}")
    assert marked["errors"] == "0"


def test_two_fingers_zoom(server: Any, browser: Any, root: tegula.Group) -> None:
    screen = Screen(browser, server.url)
    screen.show("#/sharded?map=grey&limits=0,50000")
    before = screen.ready()
    box = screen.page.locator("canvas.pixels").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = screen.context.new_cdp_session(screen.page)
    for kind, apart in (("touchStart", 40), ("touchMove", 50), ("touchMove", 80), ("touchMove", 120), ("touchEnd", 0)):
        points = [{"x": middle[0] + side * apart, "y": middle[1], "id": side + 1} for side in (-1, 1)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points if apart else []})
    after = screen.until(f"Number(d.scaleX) > 2 * {before['scaleX']}")
    drawn(screen, root["sharded"][0].astype("f8"), after)
    screen.close()


def test_keys_move_the_view(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/sharded?map=grey")
    screen.ready()
    page = screen.page
    page.keyboard.press("]")
    said = screen.until("d.index === '1,0,0'")
    drawn(screen, root["sharded"][1].astype("f8"), said)
    page.keyboard.press("t")
    said = screen.until("d.axes === '2,1'")
    drawn(screen, root["sharded"][1].T.astype("f8"), said)
    page.locator("canvas.pixels").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowRight")
    screen.until("d.index === '1,10,1'")
    page.keyboard.press("a")
    page.wait_for_selector("button[aria-pressed=false]")
    page.keyboard.press("d")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert "swap the axes" in page.inner_text("dialog")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    page.keyboard.press("/")
    page.keyboard.type("T2M clim")
    page.locator(".found a").click()
    screen.until("d.path === 'climate/t2m'")


def test_a_link_restores_the_view(screen: Screen, server: Any, browser: Any) -> None:
    screen.show("#/climate/t2m")
    screen.ready()
    screen.page.get_by_label("time", exact=True).fill("3")
    screen.page.get_by_label("Colour map").select_option("magma")
    box = screen.page.locator("canvas.pixels").bounding_box()
    screen.page.mouse.move(box["x"] + 100, box["y"] + 100)
    screen.page.mouse.wheel(0, -200)
    screen.page.mouse.click(box["x"] + 100, box["y"] + 100)
    screen.page.keyboard.press("a")  # holds the limits
    screen.until("d.index.startsWith('3,') && d.index !== '3,0,0'")
    screen.page.wait_for_timeout(400)
    said = screen.until("d.state === 'ready'")
    link = screen.page.evaluate("location.hash")
    other = Screen(browser, server.url)
    other.show(link)
    other.page.wait_for_selector("text=lat (°N)")
    result = other.until(f"d.index === '{said['index']}'")
    for name in ("x", "y", "scaleX", "scaleY", "low", "high"):
        assert float(result[name]) == pytest.approx(float(said[name]), rel=1e-6)
    assert np.array_equal(screen.pixels(), other.pixels())
    # backwards and forwards
    other.page.locator('a[data-path="sharded"]').click()
    other.until("d.path === 'sharded'")
    other.page.go_back()
    other.until("d.path === 'climate/t2m'")
    other.close()


def test_a_broken_chunk_is_shown_and_named(screen: Screen) -> None:
    screen.show("#/broken?map=grey&limits=0,64")
    said = screen.until("d.errors === '1'")
    pixels = screen.pixels()
    rows = elements(float(said["y"]), float(said["scaleY"]), pixels.shape[0], 8)
    columns = elements(float(said["x"]), float(said["scaleX"]), pixels.shape[1], 8)
    red = (pixels[..., 0].astype(int) - pixels[..., 1]) > 100
    broken = (rows >= 4)[:, None] & (columns >= 4)
    assert not red[~broken].any()
    assert 0.3 < red[broken].mean() < 0.7
    screen.page.locator(".errors summary").click()
    text = screen.page.inner_text(".errors ul")
    assert "broken [1,1]" in text
    assert "zstd" in text


@pytest.mark.sampled(one_in=27)
@pytest.mark.parametrize("damage", ["cut", "cut to the index", "index", "inner checksum", "checksum"])
def test_damage_that_only_checksums_show(damage: str, browser: Any, tmp_path: Path) -> None:
    """A shard that is cut off, or has a damaged index, has no chunk that may be drawn or counts as missing."""
    group = tegula.create_group(tmp_path / "x.zarr")
    values = np.arange(8 * 12, dtype="u2").reshape(8, 12)
    shards = None if damage == "checksum" else (8, 12)
    group.create_array(
        "a", data=values, chunks=(4, 3), shards=shards, codecs=None, checksum="checksum" in damage, fill_value=0
    )
    key = "a/c/0/0"
    raw = bytearray(group.store.get(key) or b"")
    if damage == "cut":
        raw = raw[:-40]
    elif damage == "cut to the index":
        raw = raw[-50:]
    else:
        raw[-9 if damage == "index" else 3] ^= 1
    group.store.set(key, bytes(raw))
    damaged = 8 if damage in ("cut", "cut to the index", "index") else 1
    with tegula.serve(group, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/a?map=grey&limits=0,100")
        screen.until(f"d.errors === '{damaged}'")
        screen.page.locator(".errors summary").click()
        text = screen.page.inner_text(".errors ul")
        assert text.count("checksum") + text.count("too short") == damaged
        pixels = screen.pixels()
        red = (pixels[..., 0].astype(int) - pixels[..., 1]) > 100
        assert red.mean() > 0.2 if damaged == 8 else 0 < red.mean() < 0.2
        screen.close()


def test_a_line_shows_the_values_of_one_axis(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/series")
    said = screen.until("d.path === 'series'", ".line-tab .plot")
    values = root["series"][:]
    assert (float(said["low"]), float(said["high"])) == (values.min(), values.max())
    plot = screen.page.locator(".line-tab .plot").bounding_box()
    screen.page.mouse.move(plot["x"] + 300, plot["y"] + 100)
    screen.page.mouse.wheel(0, -2000)
    said = screen.until("Number(d.scale) > 1", ".line-tab .plot")
    start, stop = (
        int(float(said["start"])),
        int(np.ceil(float(said["start"]) + (plot["width"] - 90) / float(said["scale"]))),
    )
    assert float(said["high"]) == values[start:stop].max()


def test_values_strings_and_scalars(screen: Screen) -> None:
    screen.show("#/names")
    screen.until("d.path === 'names'", ".table")
    cells = screen.page.locator(".table .line .cell:not(.row)").all_text_contents()
    assert cells[:3] == ["<b>0é", "<b>1é", "<b>2é"]
    screen.show("#/scalar")
    screen.page.wait_for_selector(".scalar:not([hidden]) >> text=3.25")
    assert screen.page.inner_text(".scalar") == "3.25"
    assert screen.page.inner_text(".values").strip() == "3.25"
    screen.show("#/sharded?tab=values&at=3,0,0")
    screen.until("d.path === 'sharded'", ".table")
    row = screen.page.locator(".table .line").nth(1).locator(".cell").all_text_contents()
    screen.show("#/words")
    screen.until("d.path === 'words'", ".table")
    screen.page.get_by_label("z", exact=True).fill("2")
    screen.page.wait_for_selector(".table .cell >> text=w59")
    words = screen.page.locator(".table .line").nth(3).locator(".cell").all_text_contents()
    assert words == ["3", "w55", "w56", "w57", "w58", "w59"]
    expected = 3 * 2400 + 60
    assert [text.replace("\u202f", "") for text in row[:3]] == ["1", str(expected), str(expected + 1)]


def test_integers_are_shown_exactly(browser: Any, tmp_path: Path) -> None:
    """Nanoseconds and hashes have more digits than a number of JavaScript, in tables and in planes."""
    values = np.array([2**63 - 1, -(2**63), 1577836800000000123, 1577836800000123])
    group = tegula.create_group(tmp_path / "x")
    group.create_array("line", shape=4, dtype="i8")[...] = values
    group.create_array("plane", shape=(4, 1), dtype="i8")[...] = values[:, None]
    group.create_array("scalar", shape=(), dtype="i8")[...] = values[0]
    with tegula.serve(group, port=0) as running:
        screen = Screen(browser, running.url)
        for name in ("line", "plane"):
            screen.show(f"#/{name}?tab=values")
            screen.until(f"d.path === '{name}'", ".table")
            cells = screen.page.locator(".table .line .cell:not(.row)").all_text_contents()
            assert [int(cell.replace("\u202f", "").replace("−", "-")) for cell in cells] == values.tolist()
        screen.show("#/scalar")
        screen.page.wait_for_selector(".scalar:not([hidden]) >> text=807")
        assert screen.page.inner_text(".scalar").replace("\u202f", "") == str(2**63 - 1)
        screen.close()


def test_error_of_one_node_is_not_shown_for_the_next(browser: Any, tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "x")
    group.create_array("broken", shape=3, dtype=str, codecs=["zstd"])[...] = ["a", "b", "c"]
    group.store.set("broken/c/0", b"garbage")
    group.create_array("scalar", shape=(), dtype="f8")[...] = 3.25
    with tegula.serve(group, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/broken")
        screen.page.wait_for_selector(".values .failed:not([hidden])")
        screen.page.evaluate("location.hash = '#/scalar'")
        screen.page.wait_for_selector(".scalar:not([hidden]) >> text=3.25")
        assert screen.page.inner_text(".values").strip() == "3.25"
        screen.close()


def test_the_about_tab_shows_shapes_codecs_and_chunks(screen: Screen) -> None:
    screen.show("#/sharded?tab=about")
    screen.page.wait_for_selector(".about .grid")
    text = screen.page.inner_text(".about")
    for part in ("20 × 40 × 60", "2 × 10 × 10", "10 × 20 × 30", "uint16", "blosc", "8 of 8 shards", "240 inner chunks"):
        assert part in text.replace("\u202f", "")
    screen.show("#/climate")
    screen.page.wait_for_selector(".about table")
    sections = screen.page.locator(".about section.wide")
    tables = {text.split("\n")[0].lower(): text for text in sections.all_inner_texts()}
    assert [*tables] == ["coordinates", "variables", "attributes"]
    for name, units in (("lat", "degrees_north"), ("lon", "degrees_east"), ("time", "days since 2020-01-01")):
        assert f"\n{name}\t" in tables["coordinates"]
        assert units in tables["coordinates"]
    for part in ("t2m", "air temperature", "time, lat, lon", "6 × 7 × 9", "int16", "\tK\t"):
        assert part in tables["variables"]
    screen.page.locator(".about table a", has_text="t2m").click()
    screen.until("d.path === 'climate/t2m'")


def test_downloads_have_the_values_in_sight(screen: Screen, root: tegula.Group, tmp_path: Path) -> None:
    screen.show("#/sharded?at=4,0,0&view=10,5,64,64")
    screen.ready()
    pixels = screen.pixels()
    height, width = (-(-pixels.shape[0] // 64), -(-pixels.shape[1] // 64))
    for name in ("npy", "csv", "png"):
        with screen.page.expect_download() as waiting:
            screen.page.locator(".files").get_by_text(name, exact=True).click()
        waiting.value.save_as(tmp_path / f"x.{name}")
    expected = root["sharded"][4, 5 : 5 + height, 10 : 10 + width]
    assert np.array_equal(np.load(tmp_path / "x.npy"), expected)
    lines = [line.split(",") for line in (tmp_path / "x.csv").read_text().splitlines()]
    assert lines[0] == ["axis 1\\axis 2", *map(str, range(10, 10 + width))]
    assert np.array_equal(np.array(lines[1:], "u2"), np.column_stack([np.arange(5, 5 + height), expected]))
    assert (tmp_path / "x.png").read_bytes()[1:4] == b"PNG"
    screen.page.locator(".files").get_by_text("Statistics").click()
    screen.page.wait_for_selector(".statistics dl")
    text = screen.page.inner_text(".side .statistics").replace("\u202f", "")
    assert str(expected.max()) in text


def test_a_table_of_a_hundred_million_rows(browser: Any, tmp_path: Path) -> None:
    table = tegula.create_group(tmp_path / "long.zarr")
    for name, dtype in (("id", "i8"), ("value", "f8")):
        table.create_array(name, shape=ROWS, dtype=dtype, chunks=10**6)
    table["id"][-1000:] = np.arange(ROWS - 1000, ROWS)
    table["id"][50_000_000:50_000_100] = np.arange(50_000_000, 50_000_100)
    with tegula.serve(table["id"], port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/?tab=values")
        said = screen.until("d.total", ".table")
        assert said["total"] == str(ROWS)
        page = screen.page
        page.locator(".scroller").focus()
        page.keyboard.press("End")
        screen.until(f"Number(d.first) > {ROWS - 100}", ".table")
        last = page.locator(".table .line").last.locator(".cell").all_text_contents()
        assert [text.replace("\u202f", "") for text in last] == [str(ROWS - 1)] * 2
        page.get_by_label("Go to row").fill("50000000")
        page.keyboard.press("Enter")
        screen.until("d.first === '50000000'", ".table")
        page.mouse.move(600, 300)
        page.mouse.wheel(0, 26 * 3)  # exact rows, although a pixel of the scroll bar is many
        screen.until("d.first === '50000003'", ".table")
        first = page.locator(".table .line").first.locator(".cell").all_text_contents()
        assert [text.replace("\u202f", "") for text in first] == ["50000003"] * 2
        page.wait_for_timeout(500)
        assert page.evaluate("location.hash") == "#/?tab=values&row=50000003"
        page.evaluate("() => { const s = document.querySelector('.scroller'); s.scrollTop = s.scrollHeight; }")
        screen.until(f"Number(d.first) > {ROWS - 100}", ".table")
        screen.close()


@pytest.mark.sampled(one_in=23)
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_every_format(format: str, browser: Any, tmp_path: Path) -> None:
    values = np.arange(60 * 50).reshape(60, 50).astype(">f4" if format == "zarr1" else "f8")
    array = tegula.create_array(tmp_path / "x", shape=values.shape, dtype=values.dtype, chunks=(16, 50), format=format)
    array[...] = values
    with tegula.serve(array, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/?map=grey")
        drawn(screen, values.astype("f8"), screen.ready())
        screen.close()


@pytest.mark.sampled(one_in=24)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_values_and_statistics_are_those_that_xarray_reads(zarr_format: int, browser: Any, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    path = tmp_path / "x.zarr"
    root = tegula.create_group(path, format=f"zarr{zarr_format}")
    stored = (np.arange(72).reshape(8, 9) - 36).astype("i1")
    for name, attributes in {
        "unsigned": {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.5},
        "range": {"valid_min": -20, "valid_max": 20, "valid_range": [0, 9], "add_offset": 3},
        "several": {"missing_value": -9, "_FillValue": -3},
    }.items():
        # a variable of Zarr v2 without a fill value has its mask in the attribute
        root.create_array(name, shape=(8, 9), dtype="i1", fill_value=None, dimension_names=("y", "x"),
                          attributes=attributes)[...] = stored  # fmt: skip
    with xarray.open_zarr(path, consolidated=False) as data, tegula.serve(root, port=0) as running:
        screen = Screen(browser, running.url)
        for name in ("unsigned", "range", "several"):
            expected = np.asarray(data[name].values, "f8")
            screen.show(f"#/{name}?map=grey&fill=value")
            drawn(screen, expected, screen.until(f"d.path === '{name}'"))
            screen.page.get_by_role("button", name="Statistics of what is shown").click()
            screen.page.wait_for_selector(".statistics dl")
            count, missing, *_ = screen.page.locator(".statistics dd").all_text_contents()
            assert (int(count), int(missing)) == (np.isfinite(expected).sum(), np.isnan(expected).sum())
        screen.close()


def test_the_histogram_of_times_has_dates(browser: Any, tmp_path: Path) -> None:
    root = tegula.create_group(tmp_path / "x.zarr")
    root["days"] = np.arange(400, dtype="i4")
    root["days"].attrs["units"] = "days since 2000-01-01"
    root["dates"] = np.array("2000-01-01", "M8[D]") + np.arange(400)
    with tegula.serve(root, port=0) as running:
        screen = Screen(browser, running.url)
        for name in ("days", "dates"):
            screen.show(f"#/{name}?tab=line")
            screen.page.get_by_role("button", name="Statistics of what is shown").click()
            screen.page.wait_for_selector(".statistics .histogram")
            shown = screen.page.locator(".statistics .histogram text").all_text_contents()
            assert shown == ["2000-01-01", "2001-02-03"]
        screen.close()


@pytest.mark.sampled(one_in=9)
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_attributes_that_json_can_not_hold(format: str, browser: Any, tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=(8, 9), dtype="f4", format=format)
    array[...] = values = np.arange(72.0, dtype="f4").reshape(8, 9)
    array.attrs.update({"missing_value": float("nan"), "valid_max": float("inf"), "units": "NaN"})
    with tegula.serve(array, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/?map=grey")
        drawn(screen, values.astype("f8"), screen.ready())
        screen.close()


def test_statistics_of_large_integers_have_all_digits(browser: Any, tmp_path: Path) -> None:
    columns = {"id": np.array([2**63 - 1, -(2**63), 2**62 + 1]), "small": np.array([1234567890123456, 0, 1])}
    with tegula.serve(tegula.create_table(tmp_path / "t.zarr", columns), port=0) as running:
        screen = Screen(browser, running.url)
        screen.show()
        for name, least, greatest in (("id", str(-(2**63)), str(2**63 - 1)), ("small", "0", "1234567890123456")):
            screen.page.get_by_role("button", name=name, exact=True).click()
            screen.page.wait_for_selector(f".statistics:has(h3:text-is('{name}')) dl")
            shown = [text.replace("\u202f", "").replace("−", "-")
                     for text in screen.page.locator(".statistics dd").all_text_contents()]  # fmt: skip
            assert shown[2:4] == [least, greatest]
            assert "NaN" not in screen.page.locator(".statistics .histogram text").all_text_contents()
        screen.close()


def test_a_table_with_statistics(browser: Any, tmp_path: Path) -> None:
    columns = {"day": np.arange("2024-01-01", "2024-04-10", dtype="M8[D]"), "close": np.linspace(90, 110, 100)}
    records = np.array([(1, b"a"), (2, b"b")], [("id", "i4"), ("key", "S3")])
    tegula.create_array(tmp_path / "records", shape=2, dtype=records.dtype, format="zarr2")[...] = records
    with tegula.serve(tegula.create_table(tmp_path / "t.bcolz", columns), port=0) as running:
        screen = Screen(browser, running.url)
        screen.show()
        screen.until("d.total === '100'", ".table")
        assert screen.page.locator(".table .line").first.locator(".cell").all_text_contents() == [
            "0",
            "2024-01-01",
            "90",
        ]
        screen.page.get_by_role("button", name="close", exact=True).click()
        screen.page.wait_for_selector(".statistics dl")
        assert {"90", "110", "100"} <= set(screen.page.locator(".statistics dd").all_text_contents())
        screen.close()
    with tegula.serve(tegula.open(tmp_path / "records"), port=0) as running:
        screen = Screen(browser, running.url)
        screen.show()
        screen.until("d.total === '2'", ".table")
        assert screen.page.locator(".table .line").nth(1).locator(".cell").all_text_contents() == ["1", "2", "b"]
        screen.close()


def test_a_token_reaches_every_request(root: tegula.Group, browser: Any) -> None:
    with tegula.serve(root, port=0, host="0.0.0.0", token="secret-token") as running:
        screen = Screen(browser, running.url.replace("0.0.0.0", "127.0.0.1"))
        screen.show("#/sharded", query="?token=secret-token")
        assert screen.ready()["errors"] == "0"
        assert not [url for url in screen.requests[1:] if "secret" in url]
        screen.close()


def test_a_view_of_a_member_has_its_coordinates(root: tegula.Group, browser: Any) -> None:
    shown = root["climate/t2m"].view()
    screen = Screen(browser, "")
    screen.page.goto(shown.url)
    screen.page.wait_for_selector("text=lat (°N)")
    assert screen.ready()["errors"] == "0"
    screen.close()
    shown.server.close()


def test_nothing_is_asked_of_other_machines(screen: Screen, server: Any) -> None:
    for path in ("", "climate/t2m", "cells", "names", "scalar", "sparse", "sharded", "words", "sparse?tab=values"):
        screen.show(f"#/{path}")
        screen.page.wait_for_timeout(300)
    screen.ready(".table")
    assert screen.console == []  # although there are chunks that are not stored, and no neuroglancer
    assert all(url.startswith((server.url, "data:", "blob:", "about:")) for url in screen.requests)
    assert json.dumps(screen.errors) == "[]"
