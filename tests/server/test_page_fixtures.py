"""Every fixture on the page in Chromium: the pixels, lines and cells are the values that the array holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pytest
from tests.server.browser import Screen, chromium, elements, grey
from tests.server.test_readers import TOGETHER, arrays, path_of_case
from tests.zarr.test_fixtures import unpacked

import tegula
from tegula.zarr3_view.casting import cast, suggested_cast

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow, pytest.mark.sampled(one_in=80)]

__all__ = ["unpacked"]


@pytest.fixture(scope="module")
def screen(unpacked: Path) -> Iterator[Screen]:
    with tegula.serve(tegula.open_group(unpacked, "a"), port=0) as running, chromium() as browser:
        screen = Screen(browser, running.url, width=760, height=520)
        screen.show()
        yield screen
        screen.close()


def numbers(array: tegula.Array) -> np.ndarray[Any, Any] | None:
    """Return the elements as the page shows them, ``None`` if they are no numbers."""
    if suggested_cast(array.metadata.data_type) is None:
        return None
    values = np.asarray(array[...])
    if values.dtype.kind in "Mm":
        try:
            return cast(values, np.dtype("f8"))
        except tegula.UnsupportedError:  # years have no length in seconds
            return None
    with np.errstate(invalid="ignore"):
        return values.astype("f8")


def expected_pixels(said: dict[str, str], plane: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Any:
    """Return the greys of a plane, and where it has values and missing elements."""
    height, width = shape[:2]
    rows = elements(float(said["y"]), float(said["scaleY"]), height, plane.shape[0])
    columns = elements(float(said["x"]), float(said["scaleX"]), width, plane.shape[1])
    inside = (rows >= 0)[:, None] & (columns >= 0)
    values = plane[np.ix_(rows, columns)]
    low, high = float(said["low"]), float(said["high"])
    return grey(values, low, high), inside & ~np.isnan(values), inside & np.isnan(values)


def check_image(screen: Screen, path: str, values: np.ndarray[Any, Any]) -> None:
    index = tuple(length // 2 for length in values.shape[:-2])
    at = ",".join(map(str, (*index, 0, 0)))
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low == high or not np.isfinite(high - low):
        low, high = -1.0, 1.0
    screen.page.evaluate(
        "hash => location.hash = hash", f"#/{path}?tab=image&at={at}&map=grey&limits={low!r},{high!r}&fill=value"
    )
    limits = f"Number(d.low) === {low!r} && Number(d.high) === {high!r}"
    drawn = f"d.path === {path_of(path)} && d.index === '{at}' && {limits}"
    said, pixels = screen.until(drawn), screen.pixels()
    while (now := screen.until(drawn)) != said:  # the image has less room once what is beside it is read
        said, pixels = now, screen.pixels()
    assert said["errors"] == "0", screen.page.inner_text(".errors ul")
    wanted, shown, missing = expected_pixels(said, values[index], pixels.shape)
    assert (pixels[shown][:, :3] == wanted[shown][:, None]).all()
    assert (pixels[..., 3] == np.where(shown | missing, 255, 0)).all()
    assert np.isin(pixels[missing][:, 0], (236, 214)).all()
    assert shown.any() or missing.any()


def path_of(path: str) -> str:
    return json.dumps(unquote(path))


def check_line(screen: Screen, path: str, values: np.ndarray[Any, Any]) -> None:
    screen.page.evaluate("hash => location.hash = hash", f"#/{path}?tab=line&fill=value")
    plot = ".line-tab .plot"
    said = screen.until(f"d.path === {path_of(path)}", plot)
    finite = values[np.isfinite(values)]
    if finite.size:
        assert (float(said["low"]), float(said["high"])) == (finite.min(), finite.max())


def check_cells(screen: Screen, path: str, total: int) -> None:
    screen.page.evaluate("hash => location.hash = hash", f"#/{path}?tab=values")
    said = screen.until(f"d.path === {path_of(path)}", ".table")
    assert int(said["total"]) == total
    assert screen.page.locator(".table .failed").count() == 0


@pytest.mark.parametrize(("archive", "case"), TOGETHER, ids=[f"{a}-{c['case']}" for a, c in TOGETHER])
def test_what_is_drawn_are_the_values(archive: str, case: dict[str, Any], screen: Screen, unpacked: Path) -> None:
    path = path_of_case(archive, case)
    for name, array in arrays(tegula.open(unpacked / path)).items():
        try:
            values = numbers(array)
        except tegula.UnsupportedError:
            continue
        below = f"{quote(path)}/{quote(name)}".rstrip("/")
        if values is None or not values.size or not array.conventions.is_plain:
            if array.ndim == 1:
                check_cells(screen, below, len(array))
        elif array.ndim == 1:
            check_line(screen, below, values)
        elif array.ndim > 1:
            check_image(screen, below, values)
    assert screen.errors == []
