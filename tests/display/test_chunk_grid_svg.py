"""Pictures of chunk grids: every axis has its label, its borders, and a length that does not mislead."""

from __future__ import annotations

import re
from itertools import pairwise
from math import dist, prod
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula.display.chunk_grid_svg import chunk_grid_svg
from tegula.metadata.chunk_grids import chunk_grid, regular_grid

SVG = "{http://www.w3.org/2000/svg}"
NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]").search

Point = tuple[float, float]
shapes = st.lists(st.integers(0, 10) | st.integers(0, 2**62), max_size=6)


def faces(svg: str) -> list[list[Point]]:
    """Return the corners of all faces: of the strips, of the top and the right of the box, and of its front."""
    found = ElementTree.fromstring(svg).iter(f"{SVG}polygon")
    return [
        [(float(x), float(y)) for x, y in (point.split(",") for point in (face.get("points") or "").split())]
        for face in found
    ]


def labels(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def lines(svg: str) -> list[list[tuple[Point, Point]]]:
    """Return start and end of the lines of each path; those of shards, or chunks without shards, are in the last."""
    found = []
    for path in ElementTree.fromstring(svg).iter(f"{SVG}path"):
        numbers = [list(map(float, part.replace("l", " ").split())) for part in (path.get("d") or "").split("M")[1:]]
        found.append([((x, y), (x + dx, y + dy)) for x, y, dx, dy in numbers])
    return found


@given(shapes, st.data())
def test_a_picture_is_well_formed_and_small(shape: list[int], data: st.DataObject) -> None:
    chunks = [data.draw(st.integers(1, 12)) for _ in shape]
    shards = [length * data.draw(st.integers(1, 5)) for length in chunks]
    names = data.draw(st.none() | st.lists(st.none() | st.text(), min_size=len(shape), max_size=len(shape)))
    svg = chunk_grid_svg(shape, regular_grid(shards), names, data.draw(st.sampled_from([None, chunks])))
    if not shape or 0 in shape:
        assert svg == ""
        return
    assert len(svg) < 40_000
    root = ElementTree.fromstring(svg)  # names may hold characters that XML forbids
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert 0 < width < 600
    assert 0 < height < 400
    ends = [end for path in lines(svg) for line in path for end in line]
    for x, y in [point for face in faces(svg) for point in face] + ends:
        assert -0.2 <= x <= width + 0.2
        assert -0.2 <= y <= height + 0.2


@given(st.lists(st.integers(1, 2**62), min_size=1, max_size=7))
def test_every_axis_is_labelled_with_name_and_length(shape: list[int]) -> None:
    names = [f"axis{number}" for number in range(len(shape))]
    found = labels(chunk_grid_svg(shape, regular_grid([2**60] * len(shape)), names))
    wanted = [f"{name} {size}" for name, size in zip(names, shape)]
    assert sorted(found) == sorted(wanted)
    many = labels(chunk_grid_svg([2] * 20, regular_grid([1] * 20)))
    assert "and 13 more axes" in many
    assert len(many) == 8


@given(st.lists(st.integers(1, 2**20), min_size=2, max_size=3))
def test_a_longer_axis_is_not_drawn_shorter(shape: list[int]) -> None:
    found = faces(chunk_grid_svg(shape, regular_grid([2**20] * len(shape))))
    corner, right, _, below = found[-1]
    drawn = [dist(corner, below), dist(corner, right)]
    if len(shape) == 3:
        drawn.insert(0, dist(found[0][0], found[0][3]))  # up the roof
    for one, other in pairwise(sorted(zip(shape, drawn))):
        assert one[1] <= other[1] + 0.2
    assert max(drawn) == pytest.approx(120, abs=0.2)
    assert min(drawn) >= 15.8


def test_a_picture_has_the_borders_of_the_chunks() -> None:
    (heavy,) = lines(chunk_grid_svg((10, 10), chunk_grid([[1, 2, 7], 5])))
    left = min(x for (x, _), _ in heavy)
    assert sorted({y - 1 for (_, y), (_, end) in heavy if y == end}) == [0, 12, 36, 120]
    assert sorted({x - left for (x, _), (end, _) in heavy if x == end}) == pytest.approx([0, 60, 120])


def test_shards_have_the_heavier_lines() -> None:
    light, heavy = lines(chunk_grid_svg((8, 8), regular_grid((4, 8)), inner=(2, 4)))
    assert len(heavy) == 3 + 2
    assert len(light) == 5 + 3
    assert {*heavy} < {*light}


@pytest.mark.parametrize("shape", [(10**6,), (10**6, 10**6), (10**6, 10**6, 10**6)])
def test_too_many_borders_are_thinned_out(shape: tuple[int, ...]) -> None:
    ones = [1] * len(shape)
    found = lines(chunk_grid_svg(shape, regular_grid([100] * len(shape)), inner=ones))
    assert prod(map(len, found)) > 0
    assert sum(map(len, found)) <= 41 * 6
