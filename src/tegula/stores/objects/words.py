"""Translation of settings of object storage from the names of fsspec's file systems to those of obstore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["obstore_words"]

_KINDS: Final = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az", "abfs": "az",
                 "abfss": "az", "http": "http", "https": "http"}  # fmt: skip
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {
        "key": "access_key_id", "username": "access_key_id", "secret": "secret_access_key",
        "password": "secret_access_key", "token": "session_token", "endpoint_url": "endpoint",
        "region_name": "region", "requester_pays": "request_payer",
    },
    "gs": {"endpoint_url": "base_url", "requester_pays": "request_payer"},
    "az": {"sas_token": "sas_key", "credential": "token"},
    "http": {"headers": "default_headers"},
}  # fmt: skip
_NOT_NEEDED: Final = frozenset(
    "asynchronous loop skip_instance_cache use_listings_cache listings_expiry_time max_paths default_block_size "
    "default_fill_cache default_cache_type cache_regions config_kwargs s3_additional_kwargs version_aware project "
    "block_size cache_type cache_options simple_links same_scheme size_policy encoded consistency access "
    "use_ssl".split()
)


def obstore_words(scheme: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings by the names of obstore, without those that obstore does not need.

    Parameters
    ----------
    scheme : str
        The scheme of the URLs; settings for other storage than obstore's are returned as they are.
    options : mapping
        Settings by the names of fsspec or obstore.

    Examples
    --------
    >>> obstore_words("s3", {"anon": True, "client_kwargs": {"region_name": "eu-north-1"}, "default_block_size": 1024})
    {'anon': True, 'region': 'eu-north-1'}
    """
    kind = _KINDS.get(scheme)
    if kind is None:
        return options
    words = _WORDS[kind]
    found: dict[str, Any] = {}
    flat = {**options, **given} if isinstance(given := options.get("client_kwargs"), Mapping) else dict(options)
    flat.pop("client_kwargs", None)
    for name, value in flat.items():
        if name in _NOT_NEEDED or value is None:
            continue
        if kind == "gs" and name == "token":  # a way to find credentials, or a file of them
            found.update({"anon": True} if value == "anon" else _credentials(value))
        else:
            found[words.get(name, name)] = value
    return found


def _credentials(value: Any) -> dict[str, Any]:
    usual = value in ("google_default", "cloud", "browser", "cache") or not isinstance(value, str)
    return {} if usual else {"application_credentials": value}
