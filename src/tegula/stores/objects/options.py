"""Options for opening object storage: those of obstore, by where it accepts them, and tegula's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from math import isfinite
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from tegula.errors import MetadataError
from tegula.stores.objects.credentials import own_credentials, profile_credentials
from tegula.stores.objects.retries import Retries

__all__ = ["KNOWN", "Options", "names_server", "sort_options", "unknown_option"]

_OURS: Final = ("missing", "concurrency", "credential_provider", "anonymous", "anon")
_RETRIES: Final = {"retries": "max_retries", "max_retries": "max_retries", "retry_timeout": "retry_timeout"}
_GROUPS: Final = ("config", "client_options", "retry_config")
_DURATIONS: Final = (
    "timeout", "connect_timeout", "read_timeout", "pool_idle_timeout", "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
)  # fmt: skip
_CLIENT: Final = (
    *_DURATIONS, "allow_http", "allow_invalid_certificates", "default_content_type", "default_headers", "http1_only",
    "http2_keep_alive_while_idle", "http2_only", "http2_max_frame_size", "pool_max_idle_per_host",
    "proxy_url", "proxy_ca_certificate", "proxy_excludes", "root_certificate", "randomize_addresses", "user_agent",
)  # fmt: skip
KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "s3": (
        "access_key_id", "secret_access_key", "session_token", "skip_signature", "endpoint", "region", "request_payer",
        "virtual_hosted_style_request", "role_arn", "role_session_name", "web_identity_token_file",
        "container_credentials_relative_uri", "container_credentials_full_uri", "container_authorization_token_file",
        "metadata_endpoint", "imdsv1_fallback", "checksum_algorithm", "conditional_put",
        "copy_if_not_exists", "disable_tagging", "disable_bulk_delete", "s3_express", "server_side_encryption",
        "sse_bucket_key_enabled", "sse_customer_key_base64", "sse_kms_key_id", "unsigned_payload",
    ),
    "gs": (
        "service_account", "service_account_key", "application_credentials", "bearer_token", "skip_signature",
        "base_url",
    ),
    "az": (
        "account_name", "account_key", "sas_key", "token", "client_id", "client_secret", "tenant_id", "authority_host",
        "skip_signature", "endpoint", "use_emulator", "use_fabric_endpoint", "use_azure_cli", "credential_type",
        "federated_token_file", "msi_endpoint", "msi_resource_id", "object_id", "encryption_key", "disable_tagging",
    ),
    "http": (),
}  # fmt: skip
"""The settings of obstore for each kind of storage, by its own names; it accepts other names for some of them."""

_PREFIXES: Final = {"s3": ("aws_",), "gs": ("google_", "gcp_"), "az": ("azure_storage_", "azure_"), "http": ()}
_ENDPOINTS: Final = ("endpoint", "endpoint_url", "endpoint_url_s3", "base_url")
_ENVIRONMENT: Final = {
    "s3": ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
}


_WORDS: Final[dict[object, bool]] = {
    **dict.fromkeys((True, "true", "yes", "y", "on", "1"), True),
    **dict.fromkeys((False, "false", "no", "n", "off", "0"), False),
}

_is_address = re.compile(r"https?://[\w.~:/?#\[\]@!$&'()*+,;=%-]+", re.IGNORECASE | re.ASCII).fullmatch
_has_controls = re.compile(r"[\x00-\x1f\x7f]").search


class Options(NamedTuple):
    """Options, sorted by where they are used.

    Attributes
    ----------
    config, client : dict
        ``config`` and ``client_options`` of obstore.
    retries : Retries
        How requests are repeated.
    provider : callable or None
        Returns credentials.
    store : dict
        Arguments of `tegula.stores.ObjectStore`.
    """

    config: dict[str, Any]
    client: dict[str, Any]
    retries: Retries
    provider: Any
    store: dict[str, Any]


def sort_options(kind: str, options: Mapping[str, Any]) -> Options:
    """Sort the options for opening object storage by where they are used.

    Parameters
    ----------
    kind : str
        The service: ``s3 gs az http``.
    options : mapping
        Options by name, in lower or upper case, with or without a prefix such as ``aws_``; ``config``,
        ``client_options`` and ``retry_config`` may be mappings of further options, as in obstore.

    Raises
    ------
    MetadataError
        If an option can't be used.

    Examples
    --------
    >>> found = sort_options("s3", {"AWS_REGION": "eu-north-1", "timeout": 5, "retries": 3, "missing": (403, 404)})
    >>> found.config, found.client, found.retries.count, found.store
    ({'region': 'eu-north-1'}, {'timeout': '5s'}, 3, {'missing': (403, 404)})
    """
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if name in _GROUPS and isinstance(value, Mapping):
            flat.update({_plain(kind, inner): each for inner, each in value.items()})
        elif name in _GROUPS:
            raise MetadataError(f"{name} is a mapping of options to values", field=name)
        else:
            flat[_plain(kind, name)] = value
    for name, value in flat.items():
        # obstore would panic; a key of Google is JSON, which may have lines
        if isinstance(value, str) and name != "service_account_key" and _has_controls(value):
            raise MetadataError("the value holds a line break or another control character", field=name)
    client = {name: _client_value(name, flat.pop(name)) for name in [*flat] if name in _CLIENT}
    retries = {_RETRIES.get(name, name): flat.pop(name) for name in [*flat] if name in (*_RETRIES, "backoff")}
    ours = {str(name): flat.pop(name) for name in _OURS if name in flat}
    unsigned = [_truth(name, ours.pop(name, False)) for name in ("anonymous", "anon")]
    if any(unsigned) and kind != "http":
        flat["skip_signature"] = True
    provider = ours.pop("credential_provider", None)
    if provider is not None and not callable(provider):
        raise MetadataError(
            "credential_provider must be a callable that returns credentials", field="credential_provider"
        )
    if kind == "http":
        if flat or provider is not None:
            raise unknown_option(kind, min(flat, default="credential_provider"))
    elif _is_plain_http(_endpoints(kind, flat)):
        client.setdefault("allow_http", True)
    if provider is None and not _WORDS.get(str(flat.get("skip_signature")).lower()):
        provider = own_credentials(kind, flat, _PREFIXES[kind])
        if provider is None and kind == "s3":
            provider = profile_credentials(flat)
        elif provider is not None:
            flat.setdefault("skip_signature", False)  # whatever the environment says
    return Options(flat, client, Retries.of(retries), provider, ours)


def unknown_option(kind: str, name: str) -> MetadataError:
    """Return the error for an unknown option, with the most similar names.

    Examples
    --------
    >>> print(unknown_option("s3", "regoin"))
    there is no option 'regoin' for s3: storage; did you mean region? The page "Storage options" ...
    """
    known = sorted({*_OURS, *_RETRIES, "retry_config", *_CLIENT, *KNOWN[kind]})
    place = {"http": "web servers"}.get(kind, f"{kind}: storage")
    close = import_module("difflib").get_close_matches(name, known, 2)
    hint = f"did you mean {' or '.join(close)}? The" if close else "the"
    text = f'there is no option {name!r:.60} for {place}; {hint} page "Storage options" of the documentation lists all'
    return MetadataError(text, field=name)


def names_server(url: str) -> bool:
    """Return whether a URL names a server, and a port of it only if there may be such a port.

    Examples
    --------
    >>> names_server("https://host:9000/path"), names_server("https://host:99999"), names_server("https://[::1")
    (True, False, False)
    """
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _plain(kind: str, name: object) -> str:
    if not isinstance(name, str):
        raise MetadataError(f"the name of an option must be text, not {name!r:.60}")
    plain = name.lower()
    for prefix in _PREFIXES[kind]:
        if plain.startswith(prefix) and plain not in KNOWN[kind]:
            return plain.removeprefix(prefix)
    return plain


def _client_value(name: str, value: Any) -> Any:
    if name in _DURATIONS and isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value):
        return f"{round(value * 1000)}ms" if value % 1 else f"{int(value)}s"
    return str(value) if name == "pool_max_idle_per_host" else value


def _truth(name: str, value: Any) -> bool:
    """Convert the value of an option to a bool; accept the same words as obstore."""
    found = _WORDS.get(value.lower() if isinstance(value, str) else value) if isinstance(value, (str, int)) else None
    if found is None:
        raise MetadataError(f"{name} must be true or false", field=name)
    return found


def _endpoints(kind: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the endpoints given by options or, if there are none, by environment variables."""
    named = {name: str(settings[name]) for name in _ENDPOINTS if name in settings}
    named = named or {name: os.environ[name] for name in _ENVIRONMENT[kind] if os.environ.get(name)}
    for name, endpoint in named.items():
        if not (_is_address(endpoint) and names_server(endpoint)):  # obstore would panic
            raise MetadataError(f"{name} must be a URL such as https://host.example:9000", field=name)
    return named


def _is_plain_http(endpoints: Mapping[str, str]) -> bool:
    return any(endpoint.lower().startswith("http:") for endpoint in endpoints.values())
