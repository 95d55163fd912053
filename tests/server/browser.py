"""Chromium for the tests of the page."""

from __future__ import annotations

import base64
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

PATIENCE = 20_000  # milliseconds
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable() -> str:
    """Return where Chromium is, or skip the test."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    result = os.environ.get("TEGULA_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if result is None:
        pytest.skip("there is no Chromium on the PATH; Debian's package is called chromium")
    return result


@contextmanager
def chromium() -> Iterator[Any]:
    """Run Chromium."""
    path = executable()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - tests are skipped where there is no Chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


class Screen:
    """A tab of Chromium that shows a server's page, and notes errors and requests."""

    def __init__(self, browser: Any, url: str, *, width: int = 1100, height: int = 720) -> None:
        self.url = url
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.console.append(said.text))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def show(self, fragment: str = "", query: str = "") -> None:
        """Open the page again at a fragment of its URL."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/{query}{fragment}")

    def ready(self, selector: str = "canvas.pixels") -> dict[str, str]:
        """Wait until all that an element shows has been read, and return what it says of itself."""
        self.page.wait_for_selector(f"{selector}[data-state=ready]", state="attached")
        return self.data(selector)

    def data(self, selector: str = "canvas.pixels") -> dict[str, str]:
        """Return the ``data-`` attributes of an element."""
        return self.page.eval_on_selector(selector, "element => ({...element.dataset})")

    def until(self, expression: str, selector: str = "canvas.pixels") -> dict[str, str]:
        """Wait until an expression of the ``data-`` attributes ``d`` is true and everything is read."""
        script = f"""selector => {{
            const d = {{...document.querySelector(selector)?.dataset}};
            return [d.state === 'ready' && ({expression}), d];
        }}"""
        deadline = time.monotonic() + PATIENCE / 1000
        # the page's security policy forbids what Playwright's own waiting does
        while not (result := self.page.evaluate(script, selector))[0]:
            assert time.monotonic() < deadline, f"{expression} is not true of {result[1]}"
            time.sleep(0.01)
        said: dict[str, str] = result[1]
        return said

    def pixels(self, selector: str = "canvas.pixels") -> np.ndarray[Any, Any]:
        """Return the pixels of an image: red, green, blue and opacity."""
        result = self.page.evaluate(
            """selector => {
                const canvas = document.querySelector(selector);
                const {data, width, height} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
                let text = '';
                for (let at = 0; at < data.length; at += 32768) {
                    text += String.fromCharCode(...data.subarray(at, at + 32768));
                }
                return [width, height, btoa(text)];
            }""",
            selector,
        )
        width, height, text = result
        return np.frombuffer(base64.b64decode(text), "u1").reshape(height, width, 4)

    def close(self) -> None:
        """Close the tab; an error in the page fails the test."""
        self.context.close()
        assert self.errors == []


def elements(start: float, scale: float, count: int, length: int, factor: int = 1) -> np.ndarray[Any, Any]:
    """Return the element that each pixel along an axis shows, -1 outside."""
    at = start + (np.arange(count) + 0.5) / scale
    result = np.floor(at / factor).astype("i8")
    return np.where((at >= 0) & (at < length * factor), np.minimum(result, length - 1), -1)


def grey(values: np.ndarray[Any, Any], low: float, high: float) -> np.ndarray[Any, Any]:
    """Return the greys that stand for values between limits."""
    with np.errstate(invalid="ignore", over="ignore"):
        level = np.floor((values.astype("f8") - low) / (high - low) * 256)
    return np.clip(level, 0, 255)
