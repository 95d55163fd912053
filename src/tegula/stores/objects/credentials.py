"""The choice of credentials: those in the options take precedence over the environment, and over an AWS profile.

obstore always reads the environment, too, and has its own precedence: it would combine a session token of the
environment with the keys of the options, and prefer an account key of the environment to a signature in the options. So
credentials in the options become a credential provider, which obstore prefers to everything else. If obstore has no
provider for a kind of credentials, an environment variable that it would prefer is an error.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import unquote

from tegula.errors import MetadataError

__all__ = ["ProfileCredentials", "StaticCredentials", "own_credentials", "profile_credentials"]

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
    """A credential provider for credentials in the options.

    Parameters
    ----------
    values : mapping
        Names and values as a credential provider returns them.

    Examples
    --------
    >>> StaticCredentials({"token": "secret"})
    StaticCredentials(token=...)
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __call__(self) -> dict[str, Any]:
        """Return the credentials, which never expire."""
        return {**self._values, "expires_at": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}=...' for name in self._values)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticCredentials, (self._values,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticCredentials) and other._values == self._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))


def own_credentials(kind: str, settings: Mapping[str, Any], prefixes: Sequence[str]) -> StaticCredentials | None:
    """Return a provider for the credentials in the settings of obstore; ``None`` if they need none.

    Parameters
    ----------
    kind : str
        The service: ``s3 gs az http``.
    settings : mapping
        Settings for obstore, by names without prefixes.
    prefixes : sequence of str
        The prefixes of the names in the environment, in lower case.

    Raises
    ------
    MetadataError
        If obstore would use credentials of the environment instead, or one of two settings that belong together is
        missing.

    Examples
    --------
    >>> own_credentials("az", {"sas_key": "sv=1&sig=secret"}, ("azure_",))
    StaticCredentials(sas_token=...)
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
            name = _plain(variable, prefixes)
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


def _plain(variable: str, prefixes: Sequence[str]) -> str:
    """Return the setting that an environment variable sets; ``""`` if it sets none."""
    name = variable.lower()
    found = next((prefix for prefix in prefixes if name.startswith(prefix)), None)
    return name.removeprefix(found) if found else "service_account" if variable == "SERVICE_ACCOUNT" else ""


# -- credentials of AWS profiles, which obstore leaves to boto3


def profile_credentials(settings: Mapping[str, Any]) -> ProfileCredentials | None:
    """Return credentials of ``~/.aws`` if no others are given, such files exist, and boto3 is installed."""
    elsewhere = ("access_key_id", "skip_signature", "web_identity_token_file", "container_credentials_relative_uri",
                 "container_credentials_full_uri")  # fmt: skip
    if any(settings.get(name) or os.environ.get(f"AWS_{name.upper()}") for name in elsewhere):
        return None
    files = [os.environ.get(name) for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")]
    places = [*filter(None, files), *(os.path.expanduser(f"~/.aws/{name}") for name in ("credentials", "config"))]
    named = bool(os.environ.get("AWS_PROFILE")) or any(os.path.isfile(place) for place in places)
    return ProfileCredentials(os.environ.get("AWS_PROFILE")) if named and find_spec("boto3") is not None else None


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
