"""Views of nodes in notebooks, and neuroglancer's client."""

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.asking import ask
from tests.server.browser import chromium

import tegula
from tegula.server import neuroglancer, notebook, pages
from tegula.server.content import Content

pytestmark = pytest.mark.once(executors="both")


@pytest.fixture(autouse=True)
def closed() -> Any:
    yield
    for server in notebook._servers.values():
        server.close()
    notebook._servers.clear()


@pytest.mark.parametrize("kind", ["array", "group", "table", "view"])
def test_a_view_is_a_frame(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "find_spec", lambda name: None)
    node: Any = {
        "array": lambda: tegula.create_array({}, shape=3, dtype="u1"),
        "group": lambda: tegula.create_group({}),
        "view": lambda: tegula.create_array({}, shape=3, dtype="u1").lazy[1:],
        "table": lambda: tegula.create_table({}, {"a": [1]}, format="bcolz"),
    }[kind]()
    shown = node.view(height=300)
    source = re.search('src="([^"]*)"', shown._repr_html_())
    assert source is not None
    assert 'height="300"' in shown._repr_html_()
    url, _, query = source[1].partition("/?")
    assert url == shown.server.url
    assert ask(url, f"/?{query}", accept="text/html").status == 200
    assert ask(url, "/", accept="text/html").status == 401  # other users of the machine
    assert shown.server.token not in repr(shown)
    if kind != "view":  # each of which is new
        assert node.view().server is shown.server  # one for all views of a node
    shown.server.close()
    assert node.view().server is not shown.server


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "theme"),
    [
        ('<body data-jp-theme-light="false">', "dark"),
        ('<body class="vscode-dark">', "dark"),
        ('<body data-jp-theme-light="true">', "light"),
    ],
)
def test_the_page_in_a_frame_has_the_theme_of_the_notebook(body: str, theme: str) -> None:
    shown = tegula.create_array({}, shape=(3, 4), dtype="u1").view()
    with chromium() as browser:
        page = browser.new_context(color_scheme="no-preference").new_page()  # nothing but the frame decides
        page.set_content(f"{body}{shown._repr_html_()}")
        page.frame_locator("iframe").locator(f"html[data-theme={theme}] canvas.pixels").wait_for()


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_view_of_a_member_serves_the_groups_above(format: str, tmp_path: Path) -> None:
    root = tegula.create_group(tmp_path / "many/x.zarr", format=format)
    for path in ("era/ü b/t", "era/lat", "lat", "other"):
        root.create_array(path, shape=3, dtype="u1")
    tegula.create_array(tmp_path / "many/y.zarr", shape=3, dtype="u1")
    many = tegula.store_of(tmp_path / "many", read_only=True)  # a directory of data sets, which is no group itself
    for array in (root["era/ü b/t"], tegula.open(many, path="x.zarr/era/ü b/t")):
        shown = array.view()
        assert shown.url == f"{shown.server.open_url}#/era/%C3%BC%20b/t"
        assert "#/era/%C3%BC%20b/t" in shown._repr_html_()
        query = f"?token={shown.server.token}"
        for path in ("era/lat", "lat", "era/%C3%BC%20b/t"):
            assert ask(shown.server.url, f"/{path}/zarr.json{query}").json["shape"] == [3]
        assert ask(shown.server.url, f"/y.zarr/zarr.json{query}").status == 404
    assert root["other"].view().server is root.view().server is root["era"].view().server
    assert root.view().url == root.view().server.open_url
    assert tegula.open(many, path="y.zarr").view().url.endswith("#/y.zarr")

    table = tegula.create_table({}, {"a": [1], "b": [2]})
    assert table.view().server is not table["a"].view().server
    loose = tegula.create_array({}, path="p/q/t", shape=3, dtype="u1", format="bcolz")
    assert loose.view().url.endswith("#/t")


def test_through_the_proxy_of_jupyter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "find_spec", lambda name: object())
    array = tegula.create_array({}, shape=3, dtype="u1")
    port = array.view().server.url.rpartition(":")[2]
    assert f'src="/proxy/{port}/?token=' in array.view()._repr_html_()
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/me/")
    assert f'src="/user/me/proxy/{port}/?token=' in array.view()._repr_html_()
    # a proxy passes on the name that the browser asked for
    answer = ask(array.view().server.url, f"/zarr.json?token={array.view().server.token}", host="hub.example.org")
    assert answer.status == 200


@pytest.mark.parametrize(("path", "base"), [("", "./"), ("a", "./"), ("a/b", "../"), ("a/b/c", "../../")])
def test_pages_name_files_relative_to_their_place(path: str, base: str) -> None:
    """Behind a proxy the server does not know the address that the browser has."""
    group = tegula.create_group({})
    group.create_group("a/b/c")
    assert f'<base href="{base}">' in pages.page(Content(group), path).body.decode()


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that has neuroglancer's client, as the wheel has it."""
    folder = tmp_path / "neuroglancer" / "static" / "client"
    folder.mkdir(parents=True)
    (tmp_path / "neuroglancer" / "__init__.py").touch()
    (folder / "index.html").write_text("<html>client</html>")
    (folder / "main.js").write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def first_event(url: str, target: str) -> Any:
    """Return the first event of a stream that stays open."""
    referer = f"{url}/behind/-/neuroglancer/v/x/"
    with urllib.request.urlopen(
        urllib.request.Request(url + target, headers={"Referer": referer}), timeout=60
    ) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        return json.loads(stream.readline().removeprefix(b"data: "))


def test_neuroglancer(client: Path) -> None:
    group = tegula.create_group({}, format="zarr2")
    group["volume"] = np.arange(27.0).reshape(3, 3, 3)
    group["text"] = np.array(["a"])
    with tegula.serve(group, port=0) as server:
        location = ask(server.url, "/-/neuroglancer/open?path=volume").headers["location"]
        assert ask(server.url, f"/-/neuroglancer/{location}").body == b"<html>client</html>"
        assert ask(server.url, f"/-/neuroglancer/{location}main.js").body == b"1"
        for name in ("nosuch.js", "../../__init__.py", "%2e%2e/__init__.py", "/etc/passwd"):
            assert ask(server.url, f"/-/neuroglancer/{location}{name}").status == 404
        state = first_event(server.url, f"/-/neuroglancer/events/{location.split('/')[1]}?gc=1&gs=0")
        assert state["s"]["layers"][0]["shaderControls"]["normalized"]["range"] == [0.0, 26.0]
        source = state["s"]["layers"][0]["source"]
        assert source == f"{server.url}/behind/-/as/float32/volume/|zarr3:"
        document = ask(server.url, source.removesuffix("|zarr3:").removeprefix(f"{server.url}/behind") + "zarr.json")
        assert document.json["data_type"] == "float32"
        assert ask(server.url, "/-/neuroglancer/events/!").status == 404
        assert ask(server.url, "/-/neuroglancer/open?path=text").status == 422
        assert ask(server.url, "/-/neuroglancer/open?path=").status == 400
        assert ask(server.url, "/-/neuroglancer/open?path=nothing").status == 404


def test_without_neuroglancer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neuroglancer, "find_spec", lambda name: None)
    with tegula.serve(tegula.create_group({}), port=0) as server:
        answer = ask(server.url, "/-/neuroglancer/")
        assert (answer.status, "pip install neuroglancer" in answer.json["error"]) == (422, True)
