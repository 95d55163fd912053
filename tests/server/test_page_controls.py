"""The controls of the page: sliders, colours, channels, the greatest along an axis, and two arrays side by side."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.server.browser import Screen, chromium, elements, grey
from tests.server.test_page import drawn
from tests.server.test_page_figures import fill

import tegula

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> tegula.Group:
    group = tegula.create_group(tmp_path_factory.mktemp("controls") / "all.zarr")
    fill(group)
    hourly = group.create_group("hourly")
    times = hourly.create_array("time", shape=336, dtype="i4", dimension_names=["time"],
                                attributes={"units": "hours since 2024-02-25 05:00"})  # fmt: skip
    times[...] = np.arange(336)
    hourly.create_array("t", shape=(336, 4, 5), dtype="f8", dimension_names=["time", "y", "x"])[...] = (
        np.arange(336 * 20).reshape(336, 4, 5) + 1
    )
    falling = group.create_group("falling")
    falling.create_array("lat", data=np.linspace(90, -90, 73), dimension_names=["lat"])
    for name in "ab":
        values = np.arange(2 * 73 * 60.0).reshape(2, 73, 60)
        falling.create_array(name, data=values, dimension_names=["time", "lat", "lon"])
    group.create_group("later").create_array("t2m", data=group["climate/t2m"][...])
    return group


@pytest.fixture(scope="module")
def screen(root: tegula.Group) -> Iterator[Screen]:
    with tegula.serve(root, port=0) as running, chromium() as browser:
        screen = Screen(browser, running.url)
        screen.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield screen
        screen.close()


def test_sliders_take_dates_values_names_and_numbers(screen: Screen) -> None:
    screen.show("#/hourly/t")
    page = screen.page
    page.wait_for_selector(".marks >> text=2024-03-06")
    value, number = page.get_by_label("time: value"), page.get_by_label("time: number")
    for typed, index in (("2024-02-26", 19), ("2024-03-02 07:20", 146), ("#7", 7), ("2030-01-01", 335)):
        value.fill(typed)
        page.keyboard.press("Enter")
        screen.until(f"d.index === '{index},0,0'")
        assert number.input_value() == str(index)
    assert value.input_value() == "2024-03-10 04:00"
    value.fill("nonsense")
    page.keyboard.press("Enter")
    page.wait_for_timeout(100)
    assert value.input_value() == "2024-03-10 04:00"
    number.fill("12")
    page.keyboard.press("Enter")
    screen.until("d.index === '12,0,0'")
    page.get_by_label("time: step").fill("24")
    page.get_by_role("button", name="One step on").click()
    screen.until("d.index === '36,0,0'")
    page.keyboard.press("[")
    screen.until("d.index === '12,0,0'")
    # a value of an axis without dates
    screen.show("#/climate/t2m?axes=0,1&at=0,0,0")
    page.wait_for_selector(".marks >> text=75")
    page.get_by_label("lon: value").fill("41")
    page.keyboard.press("Enter")
    screen.until("d.index === '0,0,4'")
    assert page.get_by_label("lon: value").input_value() == "40"


def test_a_slider_plays(screen: Screen) -> None:
    screen.show("#/hourly/t?at=332,0,0")
    screen.ready()
    button = screen.page.get_by_role("button", name="Play time")
    button.click()
    screen.until("Number(d.index.split(',')[0]) < 330")  # from the last on it begins again
    button.click()
    said = screen.ready()
    screen.page.wait_for_timeout(400)
    assert screen.data()["index"] == said["index"]
    assert button.get_attribute("aria-pressed") == "false"


def test_coordinates_may_fall_and_their_labels_do_not_overlap(screen: Screen) -> None:
    page = screen.page
    screen.show("#/falling/a?axes=0,2")
    page.wait_for_selector(".marks >> text=−50")
    assert page.locator(".marks >> nth=0").locator("span").all_text_contents() == ["50", "0", "−50"]
    screen.show("#/falling/a?other=falling/b&difference=1")
    page.wait_for_selector(".axes >> nth=2 >> text=−50")
    for at in range(3):
        labels = page.locator(f".axes >> nth={at}").locator("text[text-anchor=end]")
        boxes = [label.bounding_box() for label in labels.all()]
        assert len(boxes) > 1
        assert all(above["y"] >= below["y"] + 11 for above, below in pairwise(boxes))


def test_a_directory_of_data_sets_says_what_it_is(screen: Screen, tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "a.zarr", data=[1, 2])
    with tegula.serve(tmp_path, port=0) as running:
        other = Screen(screen.context.browser, running.url)
        other.show()
        other.page.wait_for_selector(".facts >> text=plain directory")
        assert other.page.locator(".summary").text_content() == "plain directory · 1 member"
        assert "Format" not in other.page.locator(".facts").text_content()
        other.close()


def test_a_name_has_the_whole_width_of_a_phone(screen: Screen) -> None:
    narrow = Screen(screen.context.browser, screen.url, width=390, height=780)
    narrow.show("#/climate/t2m")
    narrow.ready()
    box = narrow.page.locator(".title").bounding_box()
    after = narrow.page.locator(".top > button").first.bounding_box()
    assert after["x"] - (box["x"] + box["width"]) < 30
    narrow.close()


def test_members_are_told_apart_by_their_kinds(screen: Screen, tmp_path: Path) -> None:
    tegula.save(tmp_path / "d/x.zarr", [1.0])
    tegula.save(tmp_path / "d/y.zarr", a=[1.0])
    tegula.create_table(tmp_path / "d/prices.bcolz", {"day": [1]})
    tegula.save(tmp_path / "d/broken.zarr", [1.0])
    (tmp_path / "d/broken.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type"')
    with tegula.serve(str(tmp_path / "d"), port=0) as server:
        screen.page.goto(server.url)
        sections = screen.page.locator(".about section.wide")
        sections.first.wait_for()
        found = {section.locator("h2").text_content(): section.text_content() for section in sections.all()}
    assert [*found] == ["Arrays", "Tables", "Groups", "Unreadable"]
    names = ("x.zarr", "prices.bcolz", "y.zarr", "broken.zarr")
    assert all(name in text for name, text in zip(names, found.values()))
    assert "not valid JSON" in found["Unreadable"]


def test_values_have_coordinates_as_heads(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/climate/t2m?tab=values&at=3,0,0")
    screen.page.wait_for_selector(".head >> text=80")
    heads = screen.page.locator(".head .cell").all_text_contents()
    assert heads == ["lat \\ lon", *map(str, range(0, 90, 10))]
    assert screen.page.locator(".stored").text_content() == "as stored: value = stored × 0.5 + 100 K"
    assert screen.page.locator(".summary").text_content() == "air temperature (K) · 6 × 7 × 9 · int16 · zarr3"
    screen.page.wait_for_selector(".table .line >> text=−60")
    row = screen.page.locator(".table .line").first.locator(".cell").all_text_contents()
    stored = root["climate/t2m"][3, 0]
    assert [text.replace("\u202f", "") for text in row] == ["−60", *map(str, stored)]


@pytest.mark.parametrize("norm", ["log", "symlog"])
def test_colours_follow_logarithms(norm: str, screen: Screen, root: tegula.Group) -> None:
    screen.show(f"#/hourly/t?map=grey&norm={norm}&limits=1,7000&at=100,0,0")
    said = screen.ready()
    plane = root["hourly/t"][100]
    even = 7.0
    place = {"log": np.log10, "symlog": lambda value: np.sign(value) * np.log1p(np.abs(value) / even)}[norm]
    pixels = screen.pixels()
    rows = elements(float(said["y"]), float(said["scaleY"]), pixels.shape[0], 4)
    columns = elements(float(said["x"]), float(said["scaleX"]), pixels.shape[1], 5)
    inside = (rows >= 0)[:, None] & (columns >= 0)
    wanted = grey(place(plane[np.ix_(rows, columns)]), place(1.0), place(7000.0))
    assert (np.abs(pixels[inside][:, 0].astype("f8") - wanted[inside]) <= 1).all()


def test_ten_maps_reversed_and_percentiles(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/hourly/t?map=grey&reversed=1&limits=0,6720&at=100,0,0")
    said = screen.ready()
    pixels = screen.pixels()
    [x], [y] = [elements(float(said[at]), float(said[f"scale{at.upper()}"]), 1, 5) for at in "xy"]
    value = root["hourly/t"][100, max(y, 0), max(x, 0)]
    inside = pixels[..., 3] == 255
    assert pixels[inside][0, 0] == 255 - grey(np.array(value), 0, 6720)
    page = screen.page
    assert page.get_by_label("Colour map").locator("option").count() == 10
    page.get_by_label("Percentiles").select_option("0")
    plane = root["hourly/t"][100]
    said = screen.until(f"Number(d.low) === {plane.min()}")
    assert float(said["high"]) == plane.max()
    page.get_by_label("Percentiles").select_option("0.1")
    screen.until(f"Number(d.low) > {plane.min()} && Number(d.high) < {plane.max()}")
    page.wait_for_timeout(300)
    assert "share=0.1" in page.evaluate("location.hash")


def test_the_link_holds_everything_and_says_that_it_was_copied(screen: Screen) -> None:
    screen.show("#/climate/t2m?at=3,0,0")
    page = screen.page
    page.wait_for_selector("text=lat (°N)")
    page.keyboard.press("f")
    screen.until("d.turned === 'true'")
    page.get_by_label("Scale of the colours").select_option("symlog")
    page.get_by_label("reversed").check()
    page.get_by_role("button", name="The greatest values along time").click()
    screen.until("d.through === '0'")
    page.keyboard.press("l")
    page.wait_for_selector("text=link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    pixels = screen.pixels()
    screen.show(f"#{link.partition('#')[2]}")
    page.wait_for_selector("text=lat (°N)")
    said = screen.until("d.turned === 'true'")
    assert said["through"] == "0"
    assert np.array_equal(screen.pixels(), pixels)
    assert page.title() == "climate/t2m · air temperature – all.zarr"


# --- channels


def composite(root: tegula.Group, said: dict[str, str], shape: tuple[int, ...], planes: dict[int, Any]) -> Any:
    """Return the colours of channels that are added up, by their limits."""
    rows = elements(float(said["y"]), float(said["scaleY"]), shape[0], 16)
    columns = elements(float(said["x"]), float(said["scaleX"]), shape[1], 20)
    result = np.zeros((*shape[:2], 3))
    for channel, (plane, low, high) in planes.items():
        result[..., (0, 1, 2)[channel]] = grey(plane[np.ix_(rows, columns)], low, high)
    return result, (rows >= 0)[:, None] & (columns >= 0)


def test_channels_are_added_up_and_switched(screen: Screen, root: tegula.Group) -> None:
    group = root["channels"]
    ome = group.attrs["ome"]
    names = ("red", "green", "blue")
    colours = ("FF0000", "00FF00", "0000FF")
    ome["omero"] = {
        "channels": [
            {"color": colour, "label": name, "active": at != 1, "window": {"start": 100 * at, "end": 800}}
            for at, (name, colour) in enumerate(zip(names, colours))
        ]
    }
    group.attrs["ome"] = ome
    values = root["channels/0"][:, 2]
    screen.show("#/channels?at=0,2,0,0")
    said = screen.until("d.channels === 'red,blue'")
    pixels = screen.pixels()
    wanted, inside = composite(root, said, pixels.shape, {at: (values[at], 100 * at, 800) for at in (0, 2)})
    assert (np.abs(pixels[inside][:, :3] - wanted[inside]) <= 1).all()
    assert (pixels[..., 3] == np.where(inside, 255, 0)).all()
    page = screen.page
    assert page.locator(".scale text").text_content() in ("1 µm", "2 µm", "500 nm")
    bar, canvas = page.locator(".scale .under").bounding_box(), page.locator("canvas.pixels").bounding_box()
    row, first = round(bar["y"] - canvas["y"]), round(bar["x"] - canvas["x"])
    assert inside[row, first : first + round(bar["width"])].all()  # not around the image
    page.get_by_label("green").check()
    page.get_by_label("red").uncheck()
    said = screen.until("d.channels === 'green,blue'")
    pixels = screen.pixels()
    wanted, inside = composite(root, said, pixels.shape, {at: (values[at], 100 * at, 800) for at in (1, 2)})
    assert (np.abs(pixels[inside][:, :3] - wanted[inside]) <= 1).all()
    page.get_by_label("channels together").uncheck()
    page.get_by_label("Colour map").select_option("grey")
    page.get_by_label("c: value").fill("green")
    page.keyboard.press("Enter")
    said = screen.until("d.index === '1,2,0,0' && d.channels === ''")
    drawn(screen, values[1].astype("f8"), said)


def test_the_greatest_along_an_axis(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/channels?composite=0&at=1,0,0,0&map=grey&limits=0,1000")
    screen.ready()
    screen.page.get_by_role("button", name="The greatest values along z").click()
    said = screen.until("d.through === '1'")
    drawn(screen, root["channels/0"][1].max(0).astype("f8"), said)
    screen.page.get_by_label("z", exact=True).fill("2")  # one element again
    said = screen.until("d.through === '' && d.index === '1,2,0,0'")
    drawn(screen, root["channels/0"][1, 2].astype("f8"), said)
    # elements that are missing in some planes have the greatest of the others
    screen.show("#/climate/t2m?map=grey&limits=100,2000&through=0")
    screen.page.wait_for_selector("text=lat (°N)")
    stored = root["climate/t2m"][...].astype("f8")
    plane = np.where(stored == -999, np.nan, stored * 0.5 + 100)
    plane = np.where(np.isnan(plane).all(0), np.nan, np.nan_to_num(plane, nan=-np.inf).max(0))
    drawn(screen, plane[::-1], screen.until("d.through === '0'"))


# --- side by side


def test_two_arrays_and_their_difference(screen: Screen, root: tegula.Group) -> None:
    screen.show("#/climate/t2m?map=grey&at=3,0,0")
    page = screen.page
    page.wait_for_selector("text=lat (°N)")
    screen.ready()
    page.get_by_label("Compare with").fill("climate/mean")
    page.keyboard.press("Enter")
    page.get_by_label("and the difference").check()
    screen.until("d.path === 'climate/mean'", "canvas.beside")
    page.get_by_label("time", exact=True).fill("4")
    said = screen.until("d.index.startsWith('4,')")
    beside = screen.until("d.index.startsWith('4,')", "canvas.beside")
    for name in ("x", "y", "scaleX", "scaleY"):
        assert said[name] == beside[name]
    page.wait_for_timeout(100)
    stored = root["climate/t2m"][4].astype("f8")
    one = np.where(stored == -999, np.nan, stored * 0.5 + 100)
    pixels = screen.pixels("canvas.beside")
    rows = elements(float(said["y"]), float(said["scaleY"]), pixels.shape[0], 7)
    columns = elements(float(said["x"]), float(said["scaleX"]), pixels.shape[1], 9)
    inside = (rows >= 0)[:, None] & (columns >= 0)
    plane = root["climate/mean"][4][::-1][np.ix_(rows, columns)]
    wanted = grey(plane, float(beside["low"]), float(beside["high"]))
    assert (pixels[inside][:, 0] == wanted[inside]).all()
    # the value below the pointer is that of both, and their difference
    box = page.locator("canvas.beside").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    column = int(float(said["x"]) + box["width"] / 2 / float(said["scaleX"]))
    row = 6 - int(float(said["y"]) + box["height"] / 2 / float(said["scaleY"]))
    other = root["climate/mean"][4, row, column]
    text = page.inner_text(".foot .readout").replace("\u202f", "").replace("−", "-")
    assert text.endswith(f"{one[row, column]:g} K · mean {other:g} K · difference {one[row, column] - other:g} K")
    # where one is missing there is no difference; reds are above zero
    screen.ready("canvas.difference")
    pixels = screen.pixels("canvas.difference").astype(int)
    difference = (one[::-1] - root["climate/mean"][4][::-1])[np.ix_(rows, columns)]
    missing = inside & np.isnan(difference)
    assert missing.any()
    assert np.isin(pixels[missing][:, 0], (214, 236)).all()
    large = inside & (np.abs(np.nan_to_num(difference)) > 20)
    assert ((pixels[large][:, 0] > pixels[large][:, 2]) == (difference[large] > 0)).all()
    captions = [text for text in page.locator("h3").all_text_contents() if text]
    assert captions[:2] == ["t2m", "mean"]
    # arrays of the same name have their paths
    page.get_by_label("Compare with").fill("later/t2m")
    page.keyboard.press("Enter")
    page.wait_for_selector("h3 >> text=later/t2m")
    captions = [text for text in page.locator("h3").all_text_contents() if text]
    assert captions[:2] == ["climate/t2m", "later/t2m"]
    # another shape is refused
    page.get_by_label("Compare with").fill("climate/lat")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=climate/lat has another shape: 7")


# --- what is drawn is what xarray decodes


@st.composite
def variables(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any], Any]:
    """Return stored values, attributes, and a fill value."""
    dtype = np.dtype(draw(st.sampled_from(["i1", "u1", "i2", "u2", "i4", "f4", "f8"])))
    numbers = st.integers(-90 if dtype.kind in "if" else 0, 120)
    values = np.array(draw(st.lists(numbers, min_size=30, max_size=30))).astype(dtype).reshape(5, 6)
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from([0.5, 2.0, 0.01]))
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.sampled_from([-10.0, 273.15]))
    marks = st.sampled_from([value.item() for value in values.reshape(-1)])
    for name in ("_FillValue", "missing_value"):
        if draw(st.booleans()):
            attributes[name] = draw(marks)
    if dtype.kind in "iu" and dtype.itemsize < 4 and draw(st.booleans()):
        attributes["_Unsigned"] = "true" if dtype.kind == "i" else "false"
    return values, attributes, draw(st.sampled_from([None, 0]))


@pytest.mark.filterwarnings("ignore")
@given(variable=variables(), zarr_format=st.sampled_from([2, 3]))
@settings(max_examples=examples(30, slow=True), deadline=None, suppress_health_check=[*HealthCheck])
def test_what_is_drawn_is_what_xarray_decodes(
    screen: Screen, root: tegula.Group, tmp_path_factory: pytest.TempPathFactory, variable: Any, zarr_format: int
) -> None:
    xarray = pytest.importorskip("xarray")
    values, attributes, fill_value = variable
    if zarr_format == 3 and values.dtype.kind == "f" and "_FillValue" in attributes:  # as xarray stores it
        mark = base64.b64encode(struct.pack("<d", attributes["_FillValue"])).decode()
        attributes = {**attributes, "_FillValue": mark}
    path = tmp_path_factory.mktemp("law") / "x.zarr"
    group = tegula.create_group(path, format=f"zarr{zarr_format}")
    group.create_array("a", shape=values.shape, dtype=values.dtype, chunks=(2, 4), dimension_names=("y", "x"),
                       fill_value=fill_value, attributes=attributes)[...] = values  # fmt: skip
    with xarray.open_zarr(path, consolidated=False) as data:
        expected = np.asarray(data["a"].values, "f8")
    finite = expected[np.isfinite(expected)]
    low, high = (float(finite.min()), float(finite.max()) + 1) if finite.size else (0.0, 1.0)
    with tegula.serve(group, port=0) as running:
        other = Screen(screen.context.browser, running.url, width=700, height=500)
        other.show(f"#/a?map=grey&fill=value&limits={low!r},{high!r}")
        said = other.ready()
        pixels = other.pixels()
        other.close()
    rows = elements(float(said["y"]), float(said["scaleY"]), pixels.shape[0], 5)
    columns = elements(float(said["x"]), float(said["scaleX"]), pixels.shape[1], 6)
    inside = (rows >= 0)[:, None] & (columns >= 0)
    plane = expected[np.ix_(rows, columns)]
    shown, missing = inside & ~np.isnan(plane), inside & np.isnan(plane)
    # unpacked numbers may be of float32 in xarray: a colour may be the next one
    wanted = grey(plane, low, high)
    assert (np.abs(pixels[shown][:, 0].astype("f8") - wanted[shown]) <= 1).all()
    assert np.isin(pixels[missing][:, 0], (236, 214)).all()
    assert (pixels[missing][:, 0] == pixels[missing][:, 1]).all()
