"""`waybill config`: what is set, where it was set, and whether it can be used."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any, Final

import typer
from pydantic import BaseModel, SecretStr

from bridge.cli import options
from bridge.cli.output import CliError, UsageError, progress, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.protocol.deployment import DeploymentError
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.rpc.policy import without_secrets
from bridge.service.startup_checks import check_tripwire
from bridge.settings import Settings, SettingsError
from bridge.settings.sources import unknown_variables

app = typer.Typer(help="See and check the relayer's settings.", no_args_is_help=True)

# Variables that commands read in addition to the settings.
_OTHER_VARIABLES: Final = frozenset(
    f"WAYBILL_{name}"
    for name in (
        "ABIS",
        "CONFIG",
        "HOME",
        "INDEX_ENGINE",
        "KEY",
        "NETWORK",
        "OPERATOR_KEY",
        "PORT",
        "REQUESTS_PER_MINUTE",
        "SPARK_MASTER",
        "STALL_AFTER",
        "TRUSTED_PROXY",
        "WEB_HTTP",
    )
)

_CORRECT: Final = "correct each where it is set: `waybill config show` says what sets a value"


@app.command()
def show(*, network: options.Network = DEVNET, config: options.Config = None, as_json: options.Json = False) -> None:
    """Print every value that holds, and what set it: flags, environment, waybill.toml, the profile, or the default.

    Example: waybill config show
    """
    settings = Workspace.of(network, config).settings()
    rows = [row for name in Settings.model_fields for row in _rows(settings, settings, (name,))]
    drawn = table(
        None, ["setting", "value", "set by", "meaning"], [[str(value) for value in row.values()] for row in rows]
    )
    result(rows, as_json=as_json, render=lambda console: console.print(drawn))


class Process(StrEnum):
    """What starts with the settings."""

    RELAYER = "relayer"
    TRIPWIRE = "tripwire"


@app.command()
def check(
    process: Annotated[
        Process | None,
        typer.Argument(
            help="Check for this one alone; else for the relayer, and for the tripwire if a setting in `tripwire` is set.",
            show_default=False,
        ),
    ] = None,
    *,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Check what `relayer run` and `tripwire run` check before they connect to anything: settings, network, keys, endpoints.

    Everything that is wrong is listed at once. `waybill doctor` asks the chains besides.

    Example: waybill config check relayer --config waybill.toml
    """
    workspace = Workspace.of(network, config)
    for name in (unread := unknown_variables(Settings, _OTHER_VARIABLES)):
        progress(f"warning: nothing reads {name}; is it misspelt?")
    try:
        settings = workspace.settings()
        deployment = workspace.deployment()
    except (SettingsError, DeploymentError) as error:
        raise UsageError(str(error), next_step=_CORRECT) from error
    starting: dict[Process, Callable[[], object]] = {
        Process.RELAYER: partial(workspace.check_relayer, settings),
        Process.TRIPWIRE: partial(check_tripwire, settings, deployment, is_dry_run=False),
    }
    is_watching = "tripwire" in settings.model_fields_set
    checked = [process] if process else [Process.RELAYER, *([Process.TRIPWIRE] if is_watching else [])]
    problems = []
    for one in checked:
        try:
            starting[one]()
        except (SettingsError, CliError) as error:
            problems.append(f"{one} run would not start:\n{indent(str(error), '  ')}")
    if problems:
        raise UsageError("\n".join(problems), next_step=_CORRECT)
    file = workspace.settings_file
    value = {"valid": True, "file": str(file) if file else None, "unread": unread, "checked": checked}
    source = f"with {file}" if file else f"no {workspace.root / 'waybill.toml'}: defaults and environment"
    drawn = f"{' and '.join(checked)} can start on network {network} ({source})"
    result(value, as_json=as_json, render=lambda console: console.print(drawn, markup=False))


def _by_kind(values: Mapping[Kind, Any]) -> dict[str, Any]:
    return {kind.name.lower(): value for kind, value in values.items()}


# A settings file names only the kinds that differ from the defaults. These have what holds for every kind.
_TABLES_BY_KIND: Final[Mapping[tuple[str, ...], Callable[[Settings], dict[str, Any]]]] = {
    ("policies",): lambda settings: {
        kind: asdict(policy) for kind, policy in _by_kind(settings.delivery_policies()).items()
    },
    ("atomicity",): lambda settings: _by_kind(settings.relay().atomicity),
    ("reliability", "ttls"): lambda settings: _by_kind(
        settings.reliability.values(settings.delivery_policies(), settings.retention).ttls
    ),
}


def _rows(settings: Settings, table: BaseModel, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """A row for each value of one field of a table, which is the last name of the path."""
    meaning = type(table).model_fields[path[-1]].description or ""
    value = _TABLES_BY_KIND[path](settings) if path in _TABLES_BY_KIND else getattr(table, path[-1])
    yield from _rows_of(settings, value, path, meaning)


def _rows_of(settings: Settings, value: Any, path: tuple[str, ...], meaning: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _rows(settings, value, (*path, name))
    elif isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _rows_of(settings, item, (*path, str(name)), meaning)
    else:
        yield {
            "setting": ".".join(path),
            "value": _shown(value),
            "origin": settings.origin(*path),
            "meaning": meaning,
        }


def _shown(value: Any) -> Any:
    """A value as it may be shown: never a key, never a password."""
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
    if "://" not in text:
        return text
    if text.startswith(("http", "ws")):
        return without_secrets(text)
    if text.startswith("sqlite"):
        return text  # a file has no password, and a small installation no stores
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(text).render_as_string(hide_password=True)
    except ArgumentError:
        return text


@app.command()
def schema() -> None:
    """Print the JSON Schema of waybill.toml, by which an editor completes and checks it.

    Example: waybill config schema
    """
    print(json.dumps(Settings.model_json_schema(), indent=2))
