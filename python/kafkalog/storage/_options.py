"""Options of a store: names of the object_store crate, values from the environment, and what must stay secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from kafkalog import _arguments

_ENV = "env:"
# What a name may contain that stands for a secret.
_SECRET = re.compile(
    r"secret|password|passwd|token|signature|sas|credential|account_key|access_key\Z|_key\Z|\Akey\Z", re.IGNORECASE
)
_NO_SECRET = frozenset(
    {"aws_access_key_id", "access_key_id", "skip_signature", "aws_skip_signature", "google_skip_signature"}
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|)\Z")
_LONGEST = 86_400
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}
# The password in a URL, of a proxy for instance.
_PASSWORD = re.compile(r"://[^/?#@:]*:([^/?#]+)@")
_FLAGS = frozenset({"allow_http", "virtual_hosted_style_request", "skip_signature", "use_emulator"})
_YES, _NO = frozenset({"1", "true", "yes", "on", "y", "t"}), frozenset({"0", "false", "no", "off", "n", "f"})

# By their shortest name: the names under which each is known, as object_store has them, and fsspec for S3.
KNOWN = {
    "access_key_id": ("aws_access_key_id",),
    "secret_access_key": ("aws_secret_access_key", "secret"),
    "session_token": ("aws_session_token", "aws_token", "token"),
    "region": ("aws_region", "default_region", "aws_default_region", "region_name"),
    "endpoint": (
        "aws_endpoint_url",
        "aws_endpoint",
        "endpoint_url",
        "azure_endpoint",
        "azure_storage_endpoint",
        "google_base_url",
    ),
    "allow_http": ("aws_allow_http", "azure_allow_http", "google_allow_http"),
    "virtual_hosted_style_request": ("aws_virtual_hosted_style_request",),
    "skip_signature": ("aws_skip_signature", "azure_skip_signature", "google_skip_signature", "anon", "anonymous"),
    "account_name": ("azure_storage_account_name",),
    "account_key": (
        "azure_storage_account_key",
        "azure_storage_access_key",
        "azure_storage_master_key",
        "access_key",
        "master_key",
    ),
    "sas_token": ("azure_storage_sas_token", "azure_storage_sas_key", "sas_key"),
    "client_id": ("azure_storage_client_id", "azure_client_id"),
    "client_secret": ("azure_storage_client_secret", "azure_client_secret"),
    "tenant_id": ("azure_storage_tenant_id", "azure_storage_authority_id", "azure_tenant_id", "authority_id"),
    "use_emulator": ("azure_storage_use_emulator",),
    "service_account": ("google_service_account", "google_service_account_path", "service_account_path"),
    "service_account_key": ("google_service_account_key",),
    "application_credentials": ("google_application_credentials",),
    "timeout": (),
    "connect_timeout": (),
    "max_retries": (),
    "proxy_url": (),
}
_SHORT = {name: short for short, others in KNOWN.items() for name in (short, *others)}


class StorageOptions:
    """Options as they were given. Its ``repr`` names them without values."""

    __slots__ = ("given",)

    def __init__(self, given: Mapping[str, Any]) -> None:
        if not isinstance(given, Mapping):
            raise TypeError(f"storage_options must be a mapping of names to values, not a {type(given).__name__}")
        for name in given:
            if not isinstance(name, str):
                raise TypeError(f"storage_options takes names, not {name!r}")
        self.given = dict(given)

    def __repr__(self) -> str:
        return f"<storage options {', '.join(sorted(self.given)) or 'none'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self.given == other.given

    __hash__ = None  # type: ignore[assignment]

    def resolved(self) -> dict[str, Any]:
        """Return the options with values from the environment."""
        return {name: _resolved(name, value) for name, value in self.given.items()}

    def known(self) -> dict[str, str]:
        """Return the resolved options by their shortest names, without those that are None; others are refused."""
        found: dict[str, str] = {}
        # fsspec's ``key`` and what it hands on to its client.
        flat = self.resolved()
        more = flat.pop("client_kwargs", None)
        if isinstance(more, Mapping):
            flat |= {name: value for name, value in StorageOptions(more).given.items() if value is not None}
        elif more is not None:
            raise TypeError(f"storage option 'client_kwargs' must be a mapping, not a {type(more).__name__}")
        if "key" in flat:
            flat["access_key_id"] = flat.pop("key")
        for name, value in flat.items():
            short = _SHORT.get(name.lower())
            if short is None:
                hint = _arguments.did_you_mean(name.lower(), _SHORT)
                raise ValueError(
                    f"unknown storage option {name!r}{hint}; valid are those of object_store, such as "
                    f"{', '.join(list(KNOWN)[:6])}"
                )
            if value is not None:
                found[short] = _text(name, value, is_flag=short in _FLAGS)
        return found

    def secrets(self) -> list[str]:
        """Return the values that must not be shown."""
        found = []
        for name, value in self._leaves(self.resolved()):
            password = _PASSWORD.search(str(value))
            if is_secret(name) and value:
                found.append(str(value))
            elif password is not None:
                found.append(password[1])
        return found

    def require_no_secrets(self, what: str) -> None:
        """Refuse to write secrets that were given as text into a pickle or a plan."""
        for name, value in self._leaves(self.given):
            has_password = _PASSWORD.search(str(value)) is not None
            if value and (is_secret(name) or has_password) and not str(value).startswith(_ENV):
                raise ValueError(
                    f"storage option {name!r} {'has' if has_password else 'is'} a secret, which would get into {what}: "
                    f'give {name}="env:NAME", the name of an environment variable of the processes that read'
                )

    def _leaves(self, options: Mapping[str, Any]) -> list[tuple[str, Any]]:
        found = []
        for name, value in options.items():
            found += self._leaves(value) if isinstance(value, Mapping) else [(name, value)]
        return found

    @property
    def retries(self) -> int:
        """Attempts after the first one."""
        given = self._own("max_retries", 5)
        if isinstance(given, str):
            try:
                given = int(given)
            except ValueError:
                raise ValueError(f"storage option max_retries is {given!r}; expected a whole number") from None
        return _arguments.integer("storage option max_retries", given, 0, 100)

    @property
    def timeout(self) -> float:
        """Seconds after which an attempt without an answer is given up."""
        given = self._own("timeout", 30)
        return seconds("timeout", given)

    def _own(self, name: str, default: Any) -> Any:
        given = next((value for each, value in self.given.items() if each.lower() == name), None)
        return default if given is None else _resolved(name, given)


def is_secret(name: str) -> bool:
    """Report whether an option's value must not be shown."""
    return name.lower() not in _NO_SECRET and _SECRET.search(name) is not None


def seconds(name: str, given: Any) -> float:
    """Return a duration such as ``30``, ``"30s"`` or ``"500ms"`` in seconds."""
    found = _DURATION.match(str(given).strip())
    if found is None or not 0 < float(found[1]) * _UNITS[found[2]] <= _LONGEST:
        raise ValueError(f"storage option {name} is {given!r}; expected a time such as '30s' or '500ms'")
    return float(found[1]) * _UNITS[found[2]]


def _text(name: str, value: Any, *, is_flag: bool) -> str:
    """Return a value as text; the error does not show it, since it may be secret."""
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, (str, int, float, os.PathLike)):
        raise TypeError(f"storage option {name!r} must be text, not a {type(value).__name__}")
    if not is_flag:
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    flag = str(value).strip().lower()
    if flag not in _YES | _NO:
        raise ValueError(f"storage option {name!r} is {value!r}; expected true or false")
    return str(flag in _YES).lower()


def _resolved(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {inner: _resolved(inner, each) for inner, each in value.items()}
    if not isinstance(value, str) or not value.startswith(_ENV):
        return value
    variable = value.removeprefix(_ENV)
    if variable not in os.environ:
        raise ValueError(f"storage option {name!r} is {value!r}, and there is no environment variable {variable}")
    return os.environ[variable]


def truth(value: Any) -> bool:
    """Return a flag that may be given as text."""
    return str(value).strip().lower() in _YES
