"""Reads the sources of settings in order of precedence, and knows the origin of each value."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic_settings import BaseSettings, EnvSettingsSource

from bridge.settings.problems import SettingsError

PREFIX: Final = "WAYBILL_"
FILE_NAME: Final = "waybill.toml"

_PROFILE: Final = "profile"


@dataclass(frozen=True, slots=True)
class Origin:
    """A source of settings, with its values."""

    name: str
    values: Mapping[str, Any]


def origins(
    model: type[BaseSettings],
    arguments: Mapping[str, Any],
    file: Path | None,
    defaults: Mapping[str, Any],
    profiles: Mapping[str, Mapping[str, Any]],
) -> list[Origin]:
    """Returns all sources in order of precedence, highest first.

    Args:
        model: the known settings.
        arguments: values of flags. A value of None is ignored.
        file: a TOML file, or None.
        defaults: defaults of the network or the folder, with the lowest precedence.
        profiles: sets of values by name. Any source may select one of them.

    Raises:
        SettingsError: a file or variable can't be read, or a profile does not exist.
    """
    try:
        environment = EnvSettingsSource(model)()
    except ValueError as error:
        raise SettingsError(f"invalid settings:\n  environment: {error}") from None
    found = [
        Origin("argument", {name: value for name, value in arguments.items() if value is not None}),
        Origin("environment", environment),
    ]
    if file is not None:
        found.append(Origin(str(file), read_file(file)))
    profile = next((origin.values[_PROFILE] for origin in found if _PROFILE in origin.values), "default")
    if profile not in profiles:
        raise SettingsError(f"invalid settings:\n  unknown profile {profile!r}; the profiles are {', '.join(profiles)}")
    return [*found, Origin(f"profile {profile}", profiles[profile]), Origin("default of this network", defaults)]


def merged(sources: Sequence[Origin]) -> dict[str, Any]:
    """Merges all sources by precedence. Tables are merged key by key."""
    values: dict[str, Any] = {}
    for origin in reversed(sources):
        _put_over(values, origin.values)
    return values


def _put_over(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        name = next((known for known in below if known.lower() == key.lower()), key)  # kinds may be in capitals
        under = below.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            table = dict(under)
            _put_over(table, value)
            below[name] = table
        else:
            below[name] = value


def read_file(file: Path) -> dict[str, Any]:
    """Reads a TOML file.

    Raises:
        SettingsError: the file is missing or not valid TOML.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {file} can't be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"settings file {file} is not valid TOML: {error}") from None


def origin_name(sources: Sequence[Origin], setting: str) -> str:
    """Returns a description of a setting's source, so that the user knows where to change the setting."""
    variable = f"{PREFIX}{setting.upper()}"
    for origin in sources:
        if setting.lower() in (name.lower() for name in origin.values):
            match origin.name:
                case "argument":
                    return f"argument, or {variable}"
                case "environment":
                    return variable
                case name:
                    return name
    return f"default; {variable}"


def unknown_variables(model: type[BaseSettings], others: frozenset[str]) -> list[str]:
    """Returns the environment variables with Waybill's prefix that no setting reads.

    They are probably misspelt.
    """
    known = {f"{PREFIX}{name.upper()}" for name in model.model_fields} | others
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
