"""neuroglancer, for volumes: the client from its package, and the requests that the client makes.

The client in the package belongs to neuroglancer's own server for Python: it takes the name of a view from its address,
and the state of the view from a stream of events. Here the name is that of an array, and the state shows this array.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from tegula.arrays.array import Array
from tegula.engine.reading.costs import reading_cost
from tegula.errors import NotFoundError, SelectionError, TegulaError, UnsupportedError
from tegula.runtime.optional import how_to_install
from tegula.server.consistency import Work
from tegula.server.content import Content
from tegula.server.pages import file_reply
from tegula.server.values import Reply, not_found
from tegula.zarr3_view.casting import cast, suggested_cast

__all__ = ["is_offered", "neuroglancer"]

_PLAIN: Final = frozenset("uint8 int8 uint16 int16 uint32 int32 uint64 float32".split())
_MOST_AXES: Final = 8
_ROUTE: Final = "/-/neuroglancer/"
_SAMPLE: Final = 2**18  # elements
_SAMPLE_BYTES: Final = 2**24  # of memory, together with their copies as floats
_GENERATION: Final = "1"  # generation of the state, which the server never changes


def neuroglancer(
    content: Content, name: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> Reply | Work[Reply]:
    """Return the answer to a request below ``/-/neuroglancer/``, or the work to find it.

    ``open?path=`` leads to the view of an array. ``v/<name>/`` has the client's files, and ``events/<name>`` its state.
    """
    folder = _client()
    if folder is None:
        raise UnsupportedError(f"the package neuroglancer is not installed: {how_to_install('neuroglancer')}")
    if name == "open":
        path = query.get("path", "").strip("/")
        _source(content, path)  # raises the error here if the array can't be shown
        location = f"v/{base64.urlsafe_b64encode(path.encode()).decode().rstrip('=') or '-'}/"
        return Reply(307, {"location": location, "content-length": "0", "cache-control": "no-store"})
    kind, _, view_path = name.partition("/")
    view, slash, file = view_path.partition("/")
    if kind == "v" and slash:
        return file_reply(folder, file or "index.html", headers)
    if kind == "events" and not slash:
        array, source = _source(content, _path(view))
        watch, part = content.watch(array), _middle(array)
        cost = _SAMPLE_BYTES + reading_cost(
            array.stored, [range(*chosen.indices(size)) for chosen, size in zip(part, array.shape)]
        )

        def run() -> Reply:
            return _events(_state(array, part, f"{_base(headers)}/{source}"), query)

        return Work(cost, partial(watch.guard, run))
    return not_found()


def is_offered(facts: Mapping[str, Any]) -> bool:
    """Return whether neuroglancer is installed, and can show the node of these facts."""
    return facts.get("cast") is not None and 0 < len(facts["shape"]) <= _MOST_AXES and _client() is not None


def _path(view: str) -> str:
    """Return the path that the name of a view stands for."""
    try:
        padded = view + "=" * (-len(view) % 4)
        return "" if view == "-" else base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise NotFoundError("there is no such view") from error


def _base(headers: Mapping[str, str]) -> str:
    """Return the address of the server as the browser knows it, which a proxy may have changed."""
    before, route, _ = headers.get("referer", "").partition(_ROUTE)
    return before if route and before.startswith("http") else f"http://{headers.get('host', 'localhost')}"


def _events(state: dict[str, Any], query: Mapping[str, str]) -> Reply:
    """Return the stream that sends the state once, and stays open so that the client does not ask again."""
    known: list[tuple[str, str, dict[str, Any]]] = [("gc", "c", {}), ("gs", "s", state)]
    events = [{"k": key, "s": value, "g": _GENERATION} for name, key, value in known if query.get(name) != _GENERATION]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) or ": nothing new\n\n"
    return Reply(
        200, {"content-type": "text/event-stream", "cache-control": "no-store"}, body.encode(), stays_open=True
    )


def _source(content: Content, path: str) -> tuple[Array, str]:
    """Return an array, and the address below the server's at which neuroglancer's client reads it."""
    array = content.open(path)
    if not isinstance(array, Array):
        raise SelectionError("neuroglancer shows arrays, and this is not an array", path=f"/{path}")
    to = suggested_cast(array.metadata.data_type)
    if to is None or not 0 < array.ndim <= _MOST_AXES:
        raise UnsupportedError(f"neuroglancer can't show {array.ndim} axes of {array.metadata.data_type}")
    is_plain = array.format == "zarr3" and str(array.dtype) in _PLAIN
    to = "float32" if to == "float64" else to
    return array, "/".join(part for part in ("" if is_plain else f"-/as/{to}", quote(path)) if part)


def _state(array: Array, part: tuple[slice, ...], address: str) -> dict[str, Any]:
    """Return the state of neuroglancer's client that shows an array."""
    layer: dict[str, Any] = {"type": "image", "name": array.name or "array", "source": f"{address}/|zarr3:"}
    limits = _limits(array, part)
    if limits is not None:
        layer["shaderControls"] = {"normalized": {"range": limits}}
    return {"layers": [layer], "layout": "4panel" if array.ndim >= 3 else "xy", "showSlices": False}


def _middle(array: Array) -> tuple[slice, ...]:
    """Return the selection of some elements in the middle."""
    span = max(1, round(_SAMPLE ** (1 / array.ndim)))
    return tuple(slice(max(0, (size - span) // 2), (size + span) // 2 + 1) for size in array.shape)


def _limits(array: Array, part: tuple[slice, ...]) -> list[float] | None:
    """Return the smallest and the largest value of a part of an array, for black and white."""
    try:
        values = cast(np.asarray(array[part]), np.dtype("f8"))
    except TegulaError:  # a request for such a chunk reports the reason
        return None
    values = values[np.isfinite(values)]
    if not values.size or values.min() == values.max():
        return None
    return [float(values.min()), float(values.max())]


def _client() -> Path | None:
    """Return the folder of neuroglancer's client, if the package is installed, without importing it."""
    spec = find_spec("neuroglancer")
    locations = [] if spec is None else [*(spec.submodule_search_locations or [])]
    candidates = [Path(location) / "static" / "client" for location in locations]
    return next((folder for folder in candidates if (folder / "index.html").is_file()), None)
