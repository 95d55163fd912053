"""Options for opening object storage: which of them obstore takes where, and which are tegula's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from tegula.errors import MetadataError
from tegula.stores.object_retries import Retries

__all__ = ["KNOWN", "Options", "ProfileCredentials", "sort_options"]

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
"""The settings of obstore for each kind of storage, by the names that it gives them; it knows others for some."""

_PREFIXES: Final = {"s3": ("aws_",), "gs": ("google_", "gcp_"), "az": ("azure_storage_", "azure_"), "http": ()}
_ENDPOINTS: Final = ("endpoint", "endpoint_url", "endpoint_url_s3", "base_url")
_ENVIRONMENT: Final = {
    "s3": ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
}


_is_address = re.compile(r"https?://[^/\s]+[^\s]*", re.IGNORECASE).fullmatch


class Options(NamedTuple):
    """Options, sorted by who takes them.

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
    """Sort the options for opening object storage by who takes them.

    Parameters
    ----------
    kind : str
        The service: ``s3 gs az http``.
    options : mapping
        Names in any case, with or without a prefix such as ``aws_``; ``config``, ``client_options`` and
        ``retry_config`` may hold some of them in mappings of their own, as obstore takes them.

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
        else:
            flat[_plain(kind, name)] = value
    client = {name: _client_value(name, flat.pop(name)) for name in [*flat] if name in _CLIENT}
    retries = {_RETRIES.get(name, name): flat.pop(name) for name in [*flat] if name in (*_RETRIES, "backoff")}
    ours = {str(name): flat.pop(name) for name in _OURS if name in flat}
    if any([ours.pop("anonymous", False), ours.pop("anon", False)]) and kind != "http":
        flat["skip_signature"] = True
    provider = ours.pop("credential_provider", None)
    if kind == "http":
        if flat or provider is not None:
            raise unknown_option(kind, min(flat, default="credential_provider"))
    elif _is_plain_http(_endpoints(kind, flat)):
        client.setdefault("allow_http", True)
    if kind == "s3" and provider is None and _needs_profile(flat):
        provider = ProfileCredentials(os.environ.get("AWS_PROFILE"))
    return Options(flat, client, Retries.of(retries), provider, ours)


def unknown_option(kind: str, name: str) -> MetadataError:
    """Return the error for an unknown option, with the names that are most like it.

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


def _plain(kind: str, name: object) -> str:
    if not isinstance(name, str):
        raise MetadataError(f"the name of an option is text, not {name!r:.60}")
    plain = name.lower()
    for prefix in _PREFIXES[kind]:
        if plain.startswith(prefix) and plain not in KNOWN[kind]:
            return plain.removeprefix(prefix)
    return plain


def _client_value(name: str, value: Any) -> Any:
    if name in _DURATIONS and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{round(value * 1000)}ms" if value % 1 else f"{int(value)}s"
    return str(value) if name == "pool_max_idle_per_host" else value


def _endpoints(kind: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the endpoints that options or, without such options, environment variables name."""
    named = {name: str(settings[name]) for name in _ENDPOINTS if name in settings}
    named = named or {name: os.environ[name] for name in _ENVIRONMENT[kind] if os.environ.get(name)}
    for name, endpoint in named.items():
        if not _is_address(endpoint):  # obstore would panic
            raise MetadataError(f"{name} must be a URL such as https://host.example:9000", field=name)
    return named


def _is_plain_http(endpoints: Mapping[str, str]) -> bool:
    return any(endpoint.lower().startswith("http:") for endpoint in endpoints.values())


# -- credentials of AWS profiles, which obstore leaves to boto3


def _needs_profile(settings: Mapping[str, Any]) -> bool:
    """Return whether credentials are to come from ``~/.aws``: nothing else names any, and boto3 is installed."""
    elsewhere = ("access_key_id", "skip_signature", "web_identity_token_file", "container_credentials_relative_uri",
                 "container_credentials_full_uri")  # fmt: skip
    if any(settings.get(name) or os.environ.get(f"AWS_{name.upper()}") for name in elsewhere):
        return False
    files = [os.environ.get(name) for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")]
    places = [*filter(None, files), *(os.path.expanduser(f"~/.aws/{name}") for name in ("credentials", "config"))]
    named = bool(os.environ.get("AWS_PROFILE")) or any(os.path.isfile(place) for place in places)
    return named and find_spec("boto3") is not None


class ProfileCredentials:
    """Credentials of a profile in ``~/.aws``, fetched by boto3 when they are needed, in any process.

    Parameters
    ----------
    profile : str or None
        Its name, ``None`` for the default one.
    """

    def __init__(self, profile: str | None) -> None:
        self.profile = profile
        self._provider: Any = None

    @property
    def config(self) -> dict[str, str]:
        """The settings that obstore takes from the profile: its region, if it names one."""
        region = import_module("boto3").Session(profile_name=self.profile).region_name
        return {} if region is None else {"region": region}

    def __call__(self) -> Any:
        """Return credentials."""
        if self._provider is None:
            session = import_module("boto3").Session(profile_name=self.profile)
            self._provider = import_module("obstore.auth.boto3").Boto3CredentialProvider(session)
        return self._provider()

    def __reduce__(self) -> tuple[Any, ...]:
        return ProfileCredentials, (self.profile,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfileCredentials) and other.profile == self.profile

    def __hash__(self) -> int:
        return hash(self.profile)
