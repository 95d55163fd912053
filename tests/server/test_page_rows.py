"""The page's tables, complex numbers, and arrays that are empty but for a point, in Chromium."""

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


def numbers(screen: Screen) -> list[int]:
    """Return the numbers of the rows in sight."""
    return [int(text.replace("\u202f", "")) for text in screen.page.locator(".table .line .row").all_text_contents()]


def prices(path: Path, format: str) -> tegula.Table:
    random = np.random.default_rng(1)
    close = random.normal(100, 10, 5000).round(2)
    close[7] = np.nan
    day = np.datetime64("2001-01-01") + np.arange(5000)
    return tegula.create_table(path, {"day": day, "close": close, "lot": random.integers(0, 9, 5000)}, format=format)


@pytest.mark.parametrize("format", ["bcolz", "zarr3"])
def test_rows_are_filtered_sorted_and_exported(format: str, browser: Any, tmp_path: Path) -> None:
    table = prices(tmp_path / "t", format)
    day, close, lot = (table[name][:] for name in ("day", "close", "lot"))
    with tegula.serve(table, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show()
        screen.until("d.total === '5000'", ".table")
        field = screen.page.get_by_label("Condition on the rows")
        field.fill("close > 110 and day < '2010-01-01'")
        field.press("Enter")
        matching = np.flatnonzero((close > 110) & (day < np.datetime64("2010-01-01")))
        screen.until(f"d.total === '{len(matching)}'", ".table")
        seen = numbers(screen)
        assert seen == matching[: len(seen)].tolist()
        assert f"of {len(matching)} that match, of 5000" in screen.page.inner_text(".table footer").replace(
            "\u202f", ""
        )
        # equal values keep the order of their rows, in both directions
        for order, sign in (("ascending", 1), ("descending", -1)):
            screen.page.get_by_role("button", name="Sort by lot").click()
            screen.page.wait_for_selector(f".head [aria-sort={order}] >> text=lot")
            screen.until("d.first === '0'", ".table")
            wanted = matching[np.argsort(sign * lot[matching], kind="stable")]
            seen = numbers(screen)
            assert seen == wanted[: len(seen)].tolist()
        screen.page.locator(".scroller").focus()
        screen.page.keyboard.press("End")
        screen.until("Number(d.first) > 100", ".table")
        seen = numbers(screen)
        assert seen == wanted[-len(seen) :].tolist()
        for suffix in ("csv", "json"):
            with screen.page.expect_download() as waiting:
                screen.page.locator(".export").get_by_text(suffix, exact=True).click()
            waiting.value.save_as(tmp_path / f"x.{suffix}")
        lines = (tmp_path / "x.csv").read_text().splitlines()
        assert lines[0] == "day,close,lot"
        assert lines[1:] == [f"{day[at]},{close[at]},{lot[at]}" for at in wanted]
        assert [row["close"] for row in json.loads((tmp_path / "x.json").read_text())] == close[wanted].tolist()
        # the link restores it
        screen.page.wait_for_timeout(400)
        link = screen.page.evaluate("location.hash")
        other = Screen(browser, running.url)
        other.show(link)
        other.until(f"d.total === '{len(matching)}'", ".table")
        assert field.input_value() == other.page.get_by_label("Condition on the rows").input_value()
        assert numbers(other)[-1] == numbers(screen)[-1]
        other.close()
        screen.close()


def test_statistics_of_a_column_follow_the_filter(browser: Any, tmp_path: Path) -> None:
    table = prices(tmp_path / "t", "bcolz")
    close, lot = table["close"][:], table["lot"][:]
    with tegula.serve(table, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show()
        screen.until("d.total === '5000'", ".table")
        field = screen.page.get_by_label("Condition on the rows")
        screen.page.get_by_role("button", name="close", exact=True).click()
        shown = screen.page.locator(".values-tab .statistics")
        shown.get_by_text("4\u202f999", exact=True).wait_for()  # one is missing
        assert "match" not in shown.inner_text()
        for where, chosen in (("lot == 3 and close > 90", (lot == 3) & (close > 90)), ("lot < 2", lot < 2)):
            field.fill(where)
            field.press("Enter")
            shown.get_by_text(
                f"of the {chosen.sum()} rows that match"
                if chosen.sum() < 1000
                else f"of the 1\u202f{chosen.sum() - 1000:03} rows that match"
            ).wait_for()
            facts = dict(zip(shown.locator("dt").all_text_contents(), shown.locator("dd").all_text_contents()))
            here = close[chosen]
            assert int(facts["count"].replace("\u202f", "")) == np.isfinite(here).sum()
            assert float(facts["min"]) == pytest.approx(np.nanmin(here))
            assert float(facts["mean"]) == pytest.approx(np.nanmean(here), rel=1e-5)
        field.fill("")
        field.press("Enter")
        shown.get_by_text("4\u202f999", exact=True).wait_for()
        # a column that is asked for while the filter is there
        field.fill("close > 120")
        field.press("Enter")
        screen.until(f"d.total === '{(close > 120).sum()}'", ".table")
        screen.page.get_by_role("button", name="lot", exact=True).click()
        screen.page.locator(".statistics h3 >> text=lot").wait_for()
        shown.get_by_text(f"of the {(close > 120).sum()} rows that match").wait_for()
        assert screen.console == []
        screen.close()


def test_missing_values_come_last(browser: Any, tmp_path: Path) -> None:
    table = prices(tmp_path / "t", "zarr3")
    close = table["close"][:]
    with tegula.serve(table, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/?where=lot%20%3C%20100&rising=lot&row=100")
        field = screen.page.get_by_label("Condition on the rows")
        field.fill("")
        field.press("Enter")
        screen.until("d.total === '5000'", ".table")
        screen.page.get_by_role("button", name="Sort by close").click()
        screen.page.get_by_role("button", name="Sort by close").click()
        screen.page.wait_for_selector(".head [aria-sort=descending] >> text=close")
        screen.until("d.first === '0'", ".table")
        assert numbers(screen)[0] == np.nanargmax(close)
        screen.page.locator(".scroller").focus()
        screen.page.keyboard.press("End")
        screen.until("Number(d.first) > 4000", ".table")
        assert numbers(screen)[-1] == 7
        screen.page.get_by_role("button", name="Sort by close").click()
        screen.page.wait_for_selector(".head [aria-sort=none] >> text=close")
        assert screen.console == []
        screen.close()


def test_a_condition_that_is_wrong_is_explained(browser: Any, tmp_path: Path) -> None:
    with tegula.serve(prices(tmp_path / "t", "bcolz"), port=0) as running:
        screen = Screen(browser, running.url)
        wrong = {"close >": "is not an expression", "cloze > 1": "cloze", "__import__('os')": "there is no function"}
        for where, said in wrong.items():
            screen.show(f"#/?where={where}")
            screen.page.wait_for_selector(f".values .failed:not([hidden]) >> text={said}")
            assert screen.page.get_by_label("Condition on the rows").input_value() == where
        field = screen.page.get_by_label("Condition on the rows")
        field.fill("lot == 3")
        field.press("Enter")
        screen.until("Number(d.total) > 0", ".table")
        assert screen.page.locator(".values .failed").is_hidden()
        screen.close()


def test_elements_of_an_array_are_filtered(browser: Any, tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "x.zarr")
    values = np.random.default_rng(2).integers(0, 1000, 3000)
    group["x"] = values
    with tegula.serve(group, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/x?tab=values&where=value%20%3E%20990&rising=value")
        matching = np.flatnonzero(values > 990)
        matching = matching[np.argsort(values[matching], kind="stable")]
        screen.until(f"d.total === '{len(matching)}'", ".table")
        seen = numbers(screen)
        assert seen == matching[: len(seen)].tolist()
        screen.close()


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_have_parts(dtype: str, format: str, browser: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    values = (random.normal(size=(20, 30)) + 1j * random.normal(size=(20, 30))).astype(dtype)
    values[3, 4] = np.nan
    group = tegula.create_group(tmp_path / "x.zarr", format=format)
    group.create_array("z", data=values, chunks=(8, 7))
    group.create_array("line", data=values[5])
    with tegula.serve(group, port=0) as running:
        screen = Screen(browser, running.url)
        screen.show("#/z?map=grey")
        low = -np.inf
        for part, function in (("magnitude", np.abs), ("phase", np.angle), ("real", np.real), ("imaginary", np.imag)):
            screen.page.get_by_label("Part").select_option(part)
            said = screen.until(f"d.path === 'z' && Number(d.low) !== {low if np.isfinite(low) else -1e300}")
            low = float(said["low"])
            pixels, plane = screen.pixels(), function(values)
            rows = elements(float(said["y"]), float(said["scaleY"]), pixels.shape[0], 20)
            columns = elements(float(said["x"]), float(said["scaleX"]), pixels.shape[1], 30)
            inside = (rows >= 0)[:, None] & (columns >= 0)
            shown = plane[np.ix_(rows, columns)]
            drawn = inside & np.isfinite(shown)
            wanted = grey(shown, low, float(said["high"]))
            # NumPy and the browser may round differently where a value lies between two greys
            assert (np.abs(pixels[drawn][:, 0].astype(int) - wanted[drawn]) <= 1).all()
            assert (pixels[drawn][:, 0] == wanted[drawn]).mean() > 0.999
        assert (
            screen.page.evaluate("location.hash").endswith("part=imaginary")
            or screen.page.wait_for_timeout(300) is None
        )
        screen.show("#/line?part=phase")
        said = screen.until("d.path === 'line'", ".line-tab .plot")
        phases = np.angle(values[5])
        assert (float(said["low"]), float(said["high"])) == (phases.min(), phases.max())
        assert "line (rad)" in screen.page.locator(".line-tab .plot text").all_text_contents()
        screen.show("#/line?tab=values")
        screen.until("d.path === 'line'", ".table")
        cell = screen.page.locator(".table .line .cell:not(.row)").first
        text = cell.inner_text().replace(" ", "").replace("−", "-").replace("+-", "-").replace("i", "j")
        assert complex(text) == pytest.approx(complex(values[5, 0]), rel=1e-6)
        assert cell.get_attribute("title").startswith("magnitude ")
        assert screen.console == []
        screen.close()


def test_a_lone_point_is_seen_and_nothing_has_no_limits(browser: Any, tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "x.zarr")
    line = np.full(100_000, np.nan)
    line[40_000] = 3.5
    group.create_array("line", data=line)
    group.create_array("short", data=line[39_997:40_003])
    group.create_array("nothing", shape=50, chunks=10, dtype="f8", fill_value=np.nan)
    spot = group.create_array("spot", shape=(3000, 3000), chunks=(1000, 1000), dtype="f4", fill_value=np.nan)
    spot[1234, 2345] = 7
    group.create_array("values", data=np.arange(600.0).reshape(20, 30))
    empty = group.create_array("empty", shape=(2, 30, 40), chunks=(1, 10, 10), dtype="f4", fill_value=np.nan)
    empty[1] = 5
    with tegula.serve(group, port=0) as running:
        screen = Screen(browser, running.url)
        for name in ("line", "short"):
            screen.show(f"#/{name}")
            said = screen.until(f"d.path === '{name}'", ".line-tab .plot")
            assert (said["low"], said["high"]) == ("3.5", "3.5")
            assert screen.page.locator(".line-tab .dot").count() == 1
            assert screen.page.locator(".line-tab .dot").bounding_box()["width"] >= 4
        screen.show("#/nothing")
        said = screen.until("d.path === 'nothing'", ".line-tab .plot")
        assert (said["low"], said["high"]) == ("NaN", "NaN")
        assert screen.page.locator(".line-tab .guide").count() == 0
        screen.show("#/spot?map=grey")
        said = screen.until("d.path === 'spot' && d.low === '7'")
        assert said["high"] == "7"
        pixels = screen.pixels()
        coloured = np.argwhere(pixels[..., 0] == 127)
        assert 1 <= len(coloured) <= 9
        row, column = coloured.mean(0)
        assert float(said["y"]) + row / float(said["scaleY"]) == pytest.approx(1234, abs=3 / float(said["scaleY"]))
        assert float(said["x"]) + column / float(said["scaleX"]) == pytest.approx(2345, abs=3 / float(said["scaleX"]))
        # the limits are those of what is shown, in whatever order arrays are looked at
        fields = [screen.page.get_by_label(f"{name} limit") for name in ("Lower", "Upper")]
        for name, at, limits in (("values", "0,0", None), ("empty", "0,0,0", ("", "")), ("empty", "1,0,0", ("5", "5")),
                                 ("empty", "0,0,0", ("", ""))):  # fmt: skip
            screen.page.evaluate(f"location.hash = '#/{name}?map=grey&at={at}'")
            said = screen.until(f"d.path === '{name}' && d.index === '{at}'")
            screen.page.wait_for_timeout(100)
            if limits is not None:
                assert tuple(field.input_value() for field in fields) == limits
        assert screen.console == []
        screen.close()


@pytest.mark.filterwarnings("ignore")
def test_the_fill_value_is_shown_as_the_store_has_it(browser: Any, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    data = xarray.Dataset({"t": ("x", [1.0, 2.0])})
    for zarr_format in (2, 3):
        path = tmp_path / f"{zarr_format}.zarr"
        data.to_zarr(path, zarr_format=zarr_format, encoding={"t": {"_FillValue": -9.0}}, consolidated=False)
        name = ".zattrs" if zarr_format == 2 else "zarr.json"
        stored = json.loads((path / "t" / name).read_text())
        stored = stored if zarr_format == 2 else stored["attributes"]
        with tegula.serve(path, port=0) as running:
            screen = Screen(browser, running.url)
            screen.show("#/t?tab=about")
            screen.page.wait_for_selector(".about .facts")
            shown = screen.page.locator(".attributes dt").all_text_contents()
            values = screen.page.locator(".attributes dd").all_text_contents()
            assert dict(zip(shown, values)) == {
                name: value if isinstance(value, str) else json.dumps(value) for name, value in stored.items()
            }
            facts = screen.page.locator(".about .facts").inner_text().split("\n")
            assert "-9" in facts[facts.index("Fill value") + 1] if zarr_format == 2 else True
            screen.close()
