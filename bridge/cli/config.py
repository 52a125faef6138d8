"""`waybill config`: what is set, where it was set, and whether it can be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import BaseModel, SecretStr

from bridge.cli import options
from bridge.cli.output import progress, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.rpc.policy import without_secrets
from bridge.service.keys import require_keys
from bridge.settings import Settings, SettingsError, check_chains
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


@app.command()
def show(*, network: options.Network = DEVNET, config: options.Config = None, as_json: options.Json = False) -> None:
    """Print every setting, its value, and what set it: flags, environment, waybill.toml, the profile, or the default.

    Example: waybill config show
    """
    settings = Workspace.of(network, config).settings()
    rows = [
        {
            "setting": name,
            "value": _shown(getattr(settings, name)),
            "origin": settings.origin(name),
            "meaning": field.description or "",
        }
        for name, field in Settings.model_fields.items()
    ]
    drawn = table(
        None, ["setting", "value", "set by", "meaning"], [[str(value) for value in row.values()] for row in rows]
    )
    result(rows, as_json=as_json, render=lambda console: console.print(drawn))


@app.command()
def check(*, network: options.Network = DEVNET, config: options.Config = None, as_json: options.Json = False) -> None:
    """Check the settings without starting anything; everything that is wrong is listed at once.

    Example: waybill config check --config waybill.toml
    """
    workspace = Workspace.of(network, config)
    settings = workspace.settings()
    if deployed := workspace.deployments_file.exists():
        _check_network(settings, workspace.deployment())
    else:
        progress(f"warning: no {workspace.deployments_file}, so names of chains and keys are not checked")
    unread = unknown_variables(Settings, _OTHER_VARIABLES)
    for name in unread:
        progress(f"warning: nothing reads {name}; is it misspelt?")
    file = workspace.settings_file
    value = {"valid": True, "file": str(file) if file else None, "unread": unread, "networkChecked": deployed}
    source = f"with {file}" if file else f"no {workspace.root / 'waybill.toml'}: defaults and environment"
    result(value, as_json=as_json, render=lambda console: console.print(f"the settings can be used ({source})"))


def _check_network(settings: Settings, deployment: Deployment) -> None:
    problems = []
    for find in (check_chains, require_keys):
        try:
            find(settings, deployment)
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("\n".join(problems))


def _shown(value: Any) -> Any:
    """A value as it may be shown: never a key, never a password."""
    if isinstance(value, BaseModel):
        return {name: _shown(getattr(value, name)) for name in sorted(value.model_fields_set)}
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
