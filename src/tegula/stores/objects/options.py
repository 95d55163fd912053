"""Options for opening object storage: those of obstore, by where it accepts them, credentials, and tegula's own.

Credentials in the options take precedence over the environment, and over an AWS profile. obstore always reads the
environment, too, and has its own precedence: it would combine a session token of the environment with the keys of the
options, and prefer an account key of the environment to a signature in the options. So credentials in the options
become a credential provider, which obstore prefers to everything else. If obstore has no provider for a kind of
credentials, an environment variable that it would prefer is an error.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from tegula.errors import MetadataError
from tegula.runtime.quantities import is_finite
from tegula.stores.objects.requests import Retries

__all__ = [
    "KNOWN", "SCHEMES", "Options", "ProfileCredentials", "StaticCredentials", "names_server", "obstore_words",
    "sort_options", "truth", "unknown_option",
]  # fmt: skip

SCHEMES: Final = {
    "s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az", "abfs": "az", "abfss": "az",
    "http": "http", "https": "http",
}  # fmt: skip
"""The schemes of URLs of object storage and web servers, and their services."""

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
_SYNONYMS: Final = {"gs": {"endpoint": "base_url"}}  # the name that the other services have
_ENDPOINTS: Final = ("endpoint", "endpoint_url", "endpoint_url_s3", "base_url")
_ENVIRONMENT: Final = {
    "s3": ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
}
_TRUTHS: Final = {
    **dict.fromkeys(("true", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "0"), False),
}
_is_address = re.compile(r"https?://[\w.~:/?#\[\]@!$&'()*+,;=%-]+", re.IGNORECASE | re.ASCII).fullmatch
_has_controls = re.compile(r"[\x00-\x1f\x7f]").search


class Options(NamedTuple):
    """Options, sorted by where they are used."""

    config: dict[str, Any]  # of obstore
    client: dict[str, Any]  # ``client_options`` of obstore
    retries: Retries
    provider: Any  # returns credentials, or ``None``
    store: dict[str, Any]  # arguments of `tegula.stores.ObjectStore`


def sort_options(kind: str, options: Mapping[str, Any]) -> Options:
    """Sort the options for opening object storage of a service, ``s3 gs az http``, by where they are used.

    Names may be in lower or upper case, with or without a prefix such as ``aws_``; ``config``, ``client_options`` and
    ``retry_config`` may be mappings of further options, as in obstore.

    Raises
    ------
    MetadataError
        If an option can't be used.
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
    unsigned = [_checked_truth(name, ours.pop(name, False)) for name in ("anonymous", "anon")]
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
    elif any(address.lower().startswith("http:") for address in _endpoints(kind, flat)):
        client.setdefault("allow_http", True)
    if provider is None and not truth(flat.get("skip_signature")):
        provider = _own_credentials(kind, flat)
        if provider is None and kind == "s3":
            provider = _profile_credentials(flat)
        elif provider is not None:
            flat.setdefault("skip_signature", False)  # whatever the environment says
    return Options(flat, client, Retries.of(retries), provider, ours)


def unknown_option(kind: str, name: str) -> MetadataError:
    """Return the error for an unknown option, with the most similar names."""
    known = sorted({*_OURS, *_RETRIES, "retry_config", *_CLIENT, *KNOWN[kind]})
    service = "web servers" if kind == "http" else f"{kind}: storage"
    close = import_module("difflib").get_close_matches(name, known, 2)
    hint = f"did you mean {' or '.join(close)}? The" if close else "the"
    text = (
        f'there is no option {name!r:.60} for {service}; {hint} page "Storage options" of the documentation lists all'
    )
    return MetadataError(text, field=name)


def names_server(url: str) -> bool:
    """Return whether a URL names a server, and a port of it only if there may be such a port."""
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
            plain = plain.removeprefix(prefix)
            break
    return _SYNONYMS.get(kind, {}).get(plain, plain)


def _client_value(name: str, value: Any) -> Any:
    if name in _DURATIONS and isinstance(value, (int, float)) and not isinstance(value, bool) and is_finite(value):
        return f"{round(value * 1000)}ms" if value % 1 else f"{int(value)}s"
    return str(value) if name == "pool_max_idle_per_host" else value


def truth(value: Any) -> bool | None:
    """Return what the value of an option means, by the same words as obstore; ``None`` if it is none of them."""
    return _TRUTHS.get(str(value).lower())


def _checked_truth(name: str, value: Any) -> bool:
    """Convert the value of an option to a bool, or raise an error."""
    known = truth(value) if isinstance(value, (str, int)) else None
    if known is None:
        raise MetadataError(f"{name} must be true or false", field=name)
    return known


def _endpoints(kind: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the endpoints given by options or, if there are none, by environment variables."""
    named = {name: str(settings[name]) for name in _ENDPOINTS if name in settings}
    named = named or {name: os.environ[name] for name in _ENVIRONMENT[kind] if os.environ.get(name)}
    for name, endpoint in named.items():
        if not (_is_address(endpoint) and names_server(endpoint)):  # obstore would panic
            raise MetadataError(f"{name} must be a URL such as https://host.example:9000", field=name)
    return [*named.values()]


# -- credentials

_ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {"token": "session_token"},
    "gs": {"service_account_path": "service_account"},
    "az": {
        "access_key": "account_key", "master_key": "account_key", "sas_token": "sas_key", "bearer_token": "token",
    },
    "http": {},
}  # fmt: skip
_PROVIDED: Final[Mapping[str, Sequence[Mapping[str, str]]]] = {
    "s3": [{"access_key_id": "access_key_id", "secret_access_key": "secret_access_key"}],
    "az": [{"token": "token"}, {"account_key": "access_key"}, {"sas_key": "sas_token"}],
}
"""Settings that become a provider, in the order in which obstore checks them, and their names in the provider."""

_IN_TURN: Final[Mapping[str, Sequence[str]]] = {
    "s3": (
        "access_key_id", "web_identity_token_file", "container_credentials_relative_uri",
        "container_credentials_full_uri",
    ),
    "az": ("token", "account_key", "federated_token_file", "client_secret", "sas_key", "use_azure_cli"),
    "gs": ("service_account", "service_account_key", "application_credentials"),
}  # fmt: skip
"""Settings for credentials; if the environment and the options have different ones, obstore uses the first of them."""
_is_parameter = re.compile(r"\w+=").match
_EXCLUSIVE: Final = ("service_account", "service_account_key")  # obstore refuses the combination


class StaticCredentials:
    """A credential provider for credentials in the options, by the names that a provider returns."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __call__(self) -> dict[str, Any]:
        """Return the credentials, which never expire."""
        return {**self._values, "expires_at": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}=...' for name in self._values)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticCredentials) and other._values == self._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))


def _own_credentials(kind: str, settings: Mapping[str, Any]) -> StaticCredentials | None:
    """Return a provider for the credentials in the settings of obstore; ``None`` if they need none.

    Raises
    ------
    MetadataError
        If obstore would use credentials of the environment instead, or one of two settings that belong together is
        missing.
    """
    aliases = _ALIASES[kind]
    given = {aliases.get(name, name): value for name, value in settings.items() if value}
    if "use_emulator" in given:  # has a key of its own
        return None
    _check_values(kind, given)
    for names in _PROVIDED.get(kind, ()):
        values = {inner: given[name] for name, inner in names.items() if isinstance(given.get(name), str)}
        if len(values) == len(names):
            if kind == "s3" and given.get("session_token"):
                values["token"] = given["session_token"]
            return StaticCredentials(values)
        absent = [name for name in names if name not in given and not os.environ.get(f"AWS_{name.upper()}")]
        if values and absent:
            raise MetadataError(f"{' and '.join(names)} belong together", field=absent[0])
    order = _IN_TURN.get(kind, ())
    chosen = next((name for name in order if name in given), None)
    if chosen is not None:
        first = {*order[: order.index(chosen)], *(_EXCLUSIVE if chosen in _EXCLUSIVE else ())} - {chosen}
        for variable in sorted(os.environ):
            name = _set_by(variable, kind)
            if os.environ[variable] and aliases.get(name, name) in first:
                raise MetadataError(
                    f"the environment variable {variable} would take precedence over this option; remove it "
                    "from the environment of this process",
                    field=chosen,
                )
    return None


def _check_values(kind: str, given: Mapping[str, Any]) -> None:
    """Raise an error for credentials of another type, of which obstore would only say that their provider fails."""
    for name in ("session_token", *(name for names in _PROVIDED.get(kind, ()) for name in names)):
        if not isinstance(given.get(name, ""), str):
            raise MetadataError(f"{name} is text, not {type(given[name]).__name__}", field=name)
    try:
        b64decode(given.get("account_key", ""), validate=True)
    except ValueError:
        raise MetadataError("account_key is text in base64", field="account_key") from None
    key = given.get("sas_key", "")
    if not _is_query(key) and not _is_query(unquote(key)):
        raise MetadataError(
            "sas_key is the query of a signed URL, such as sv=…&sig=…, and not the URL", field="sas_key"
        )


def _is_query(text: str) -> bool:
    return all(_is_parameter(part.strip()) for part in text.lstrip("?").split("&") if part.strip())


def _set_by(variable: str, kind: str) -> str:
    """Return the setting that an environment variable sets; ``""`` if it sets none."""
    name = variable.lower()
    prefix = next((prefix for prefix in _PREFIXES[kind] if name.startswith(prefix)), None)
    return name.removeprefix(prefix) if prefix else "service_account" if variable == "SERVICE_ACCOUNT" else ""


# -- credentials of AWS profiles, which obstore leaves to boto3


def _profile_credentials(settings: Mapping[str, Any]) -> ProfileCredentials | None:
    """Return credentials of ``~/.aws`` if no others are given, such files exist, and boto3 is installed."""
    elsewhere = ("access_key_id", "skip_signature", "web_identity_token_file", "container_credentials_relative_uri",
                 "container_credentials_full_uri")  # fmt: skip
    if any(settings.get(name) or os.environ.get(f"AWS_{name.upper()}") for name in elsewhere):
        return None
    files = [os.environ.get(name) for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")]
    paths = [*filter(None, files), *(os.path.expanduser(f"~/.aws/{name}") for name in ("credentials", "config"))]
    named = bool(os.environ.get("AWS_PROFILE")) or any(os.path.isfile(path) for path in paths)
    return ProfileCredentials(os.environ.get("AWS_PROFILE")) if named and find_spec("boto3") is not None else None


@dataclass(frozen=True)
class ProfileCredentials:
    """Credentials of a profile in ``~/.aws``, or of the default one, fetched by boto3 when they are needed."""

    profile: str | None

    @property
    def config(self) -> dict[str, str]:
        """The settings that obstore takes from the profile: its region, if it names one."""
        region = import_module("boto3").Session(profile_name=self.profile).region_name
        return {} if region is None else {"region": region}

    def __call__(self) -> Any:
        """Return credentials."""
        return self._provider()

    @cached_property
    def _provider(self) -> Any:
        session = import_module("boto3").Session(profile_name=self.profile)
        return import_module("obstore.auth.boto3").Boto3CredentialProvider(session)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProfileCredentials, (self.profile,)  # any process can fetch them


# -- the names of options in fsspec

_TRANSLATIONS: Final[Mapping[str, Mapping[str, str]]] = {
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
    """Return settings, named as in fsspec or obstore, by the names of obstore, without those that it does not need.

    Settings for URLs whose scheme is not one of obstore's are returned as they are.

    Examples
    --------
    >>> obstore_words("s3", {"anon": True, "client_kwargs": {"region_name": "eu-north-1"}, "default_block_size": 1024})
    {'anon': True, 'region': 'eu-north-1'}
    """
    kind = SCHEMES.get(scheme)
    if kind is None:
        return options
    words = _TRANSLATIONS[kind]
    translated: dict[str, Any] = {}
    flat = {**options, **given} if isinstance(given := options.get("client_kwargs"), Mapping) else dict(options)
    flat.pop("client_kwargs", None)
    for name, value in flat.items():
        if name in _NOT_NEEDED or value is None:
            continue
        if kind == "gs" and name == "token":  # a way to find credentials, or a file of them
            translated.update({"anon": True} if value == "anon" else _google_credentials(value))
        else:
            translated[words.get(name, name)] = value
    return translated


def _google_credentials(value: Any) -> dict[str, Any]:
    usual = value in ("google_default", "cloud", "browser", "cache") or not isinstance(value, str)
    return {} if usual else {"application_credentials": value}
