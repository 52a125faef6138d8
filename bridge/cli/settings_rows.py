"""Lists the settings for `waybill doctor --settings`: each value, its source, and its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, SecretStr

from bridge.cli.settings import WaybillSettings
from bridge.evm.endpoint_policy import without_secrets
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.settings import unknown_variables

_PASSWORD: Final = re.compile(r"(://[^:/@]+):.*@")
"""User and password in a database's URL."""

# Variables that commands read in addition to the settings.
_OTHER_VARIABLES: Final = frozenset(
    f"WAYBILL_{name}"
    for name in (
        "CONFIG",
        "HOME",
        "KEY",
        "NETWORK",
        "PORT",
        "REQUESTS_PER_MINUTE",
        "SPARK_MASTER",
        "STALL_AFTER",
        "TRUSTED_PROXY",
        "WEB_HTTP",
    )
)


def setting_rows(settings: WaybillSettings) -> list[dict[str, Any]]:
    """Returns every value with its source: a flag, the environment, waybill.toml, the profile or the default.

    Secrets are masked.
    """
    return [row for name in WaybillSettings.model_fields for row in _rows(settings, settings, (name,))]


def unread_variables() -> list[str]:
    """Returns the environment variables with the prefix WAYBILL_ that no setting or command reads."""
    return list(unknown_variables(WaybillSettings, _OTHER_VARIABLES))


def _by_kind(values: Mapping[Kind, Any]) -> dict[str, Any]:
    return {kind.name.lower(): value for kind, value in values.items()}


# A settings file names only the kinds that differ from the defaults. These functions return the values of every kind.
_TABLES_BY_KIND: Final[Mapping[tuple[str, ...], Callable[[WaybillSettings], dict[str, Any]]]] = {
    ("policies",): lambda settings: {
        kind: asdict(policy) for kind, policy in _by_kind(settings.delivery_policies()).items()
    },
    ("atomicity",): lambda settings: _by_kind(settings.operator_policies().atomicity),
    ("reliability", "ttls"): lambda settings: _by_kind(settings.reliability.all_ttls),
}


def _rows(settings: WaybillSettings, table: BaseModel, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yields the rows for one field of a table. The field is the last name of the path."""
    meaning = type(table).model_fields[path[-1]].description or ""
    value = _TABLES_BY_KIND[path](settings) if path in _TABLES_BY_KIND else getattr(table, path[-1])
    yield from _rows_of(settings, value, path, meaning)


def _rows_of(settings: WaybillSettings, value: Any, path: tuple[str, ...], meaning: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _rows(settings, value, (*path, name))
    elif isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _rows_of(
                settings, item, (*path, name.name.lower() if isinstance(name, Kind) else str(name)), meaning
            )
    else:
        yield {
            "setting": ".".join(path),
            "value": _shown(value),
            "origin": settings.origin(*path),
            "meaning": meaning,
        }


def _shown(value: Any) -> Any:
    """Returns a value without keys and passwords."""
    if isinstance(value, BaseModel):
        return {name: _shown(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: _shown(item) for name, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(_shown(item) for item in value)
    if isinstance(value, tuple):
        return [_shown(item) for item in value]
    return _word(value)


def _word(value: Any) -> Any:
    if isinstance(value, Gmp):
        return value.label
    if isinstance(value, SecretStr):
        return "set, not shown"
    if isinstance(value, str | Path):
        return _without_password(str(value))
    return value


def _without_password(text: str) -> str:
    if text.startswith(("http://", "https://", "ws://", "wss://")):
        return without_secrets(text)
    return _PASSWORD.sub(r"\1:***@", text)
