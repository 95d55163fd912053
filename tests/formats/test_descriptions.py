"""The cache of descriptions: arrays share what is in equal documents, and nothing that a program may change."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tegula
from tegula.formats import find_format, parse
from tegula.formats.descriptions import Recent
from tegula.metadata.nodes import ArrayMetadata


def documents_of(format: str, **options: Any) -> dict[str, bytes]:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=(4, 5), chunks=(2, 5), format=format, **{"dtype": "i4", **options})
    array.attrs["about"] = {"names": ["x"]}
    return {key: store.get(key) for key in store.list()}


def parsed(documents: dict[str, bytes]) -> ArrayMetadata:
    found = parse(dict(documents))
    assert isinstance(found, ArrayMetadata)
    return found


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_equal_documents_are_parsed_once_and_attributes_are_not_shared(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = documents_of(format)
    first = parsed(documents)
    first.attributes["about"]["names"].append("y")
    key = find_format(format).shape_key
    loaded: list[str] = []
    for module in ("zarr2", "zarr3"):
        load = __import__(f"tegula.formats.{module}", fromlist=["load"]).load
        monkeypatch.setattr(
            f"tegula.formats.{module}.load", lambda raw, name, load=load: (loaded.append(name), load(raw, name))[1]
        )
    again = parsed(documents)
    assert key not in loaded
    assert again.attributes["about"] == {"names": ["x"]}
    assert again.codecs is first.codecs
    assert again == parsed({**documents, key: documents[key] + b"\n"}) != first


def test_arrays_of_bcolz_share_what_does_not_depend_on_their_length() -> None:
    documents = documents_of("bcolz")
    first = parsed(documents)
    sizes, storage = documents["meta/sizes"], documents["meta/storage"]
    longer = parsed(
        {
            **documents,
            "meta/sizes": sizes.replace(b"[4, 5]", b"[9, 5]"),
            "meta/storage": storage.replace(b'"expectedlen": 4', b'"expectedlen": 70'),
        }
    )
    assert longer.shape == (9, 5)
    assert (first.extra["expectedlen"], longer.extra["expectedlen"]) == (4, 70)
    for shared in ("data_type", "grid", "codecs", "fill_value"):
        assert getattr(longer, shared) is getattr(first, shared)
    wider = parsed({**documents, "meta/sizes": sizes.replace(b"[4, 5]", b"[4, 6]")})
    assert wider.grid != first.grid
    other = parsed({**documents, "meta/storage": storage.replace(b'"dflt": 0', b'"dflt": 7')})
    assert (first.fill_value, other.fill_value) == (0, 7)


def test_documents_that_compare_equal_as_json_are_told_apart() -> None:
    documents = documents_of("zarr3")
    assert parsed(documents).ndim == 2
    for wrong in (b"3.0", b"true"):
        changed = documents["zarr.json"].replace(b'"zarr_format": 3', b'"zarr_format": ' + wrong)
        with pytest.raises(tegula.MetadataError):
            parse({"zarr.json": changed})


@pytest.mark.parametrize("dtype", [[("a", "i4"), ("b", "f8")], object])
def test_what_a_program_could_change_in_place_is_not_kept(dtype: Any) -> None:
    options = {"codecs": "pickle", "allow_pickle": True} if dtype is object else {}
    documents = documents_of("zarr2", dtype=dtype, **options)
    recent, metadata = Recent(), parsed(documents)
    recent.keep(documents[".zarray"], metadata, {})
    assert recent.get(documents[".zarray"]) is None


def test_cache_of_documents_skips_large_ones_and_is_bounded() -> None:
    recent, metadata = Recent(), parsed(documents_of("zarr3"))
    large = json.dumps({"text": "x" * 2**14}).encode()
    recent.keep(large, metadata, {})
    assert recent.get(large) is None
    for number in range(1000):
        recent.keep(b"%d" % number, metadata, {"number": number})
        assert recent.get(b"%d" % number) == (metadata, {"number": number})
    assert sum(recent.get(b"%d" % number) is not None for number in range(1000)) <= 256
