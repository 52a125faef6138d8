"""Generates the reference pages for developers from the commands, the HTTP API, the ABIs and the Python client."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import typer
from fastapi import FastAPI
from typer._click.core import Command, Context  # typer keeps its click to itself
from typer.core import TyperGroup

from bridge import client
from bridge.cli.app import app
from bridge.cli.output import ExitCode
from bridge.protocol.deployment import Deployment
from bridge.protocol.events import load_abi
from bridge.web.api import add_api
from bridge.web.listing import MessageList
from bridge.web.sources import Sources

ROOT: Final = Path(__file__).resolve().parents[1]


def commands(command: Command, path: tuple[str, ...] = ("waybill",)) -> Iterator[tuple[tuple[str, ...], Command]]:
    """Returns every leaf command with the words that call it."""
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    for name in command.list_commands(Context(command)):
        found = command.get_command(Context(command), name)
        if found is not None:
            yield from commands(found, (*path, name))


def cli() -> str:
    """Returns every command with its options."""
    parts = ["# Commands", _EXITS]
    for path, command in commands(typer.main.get_command(app)):
        text, _, example = (command.help or "").partition("Example: ")
        parts.append(f"## {' '.join(path)}\n\n{text.strip()}")
        if example:
            parts.append(f"```\n{example.strip()}\n```")
        rows = [_option(option) for option in command.params]
        parts.append("| option | variable | meaning |\n|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _option(option: object) -> str:
    names = getattr(option, "opts", [])
    shown = (
        ", ".join(names) if str(names[0]).startswith("-") else str(getattr(option, "metavar", None) or names[0].upper())
    )
    variable = getattr(option, "envvar", None) or ""
    meaning = str(getattr(option, "help", "") or "").replace("|", "\\|")
    return f"| `{shown}` | {f'`{variable}`' if variable else ''} | {meaning} |"


_EXITS: Final = (
    "Results go to stdout, everything else to stderr. Exit codes: "
    + ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode)
    + ", 130 for Ctrl-C."
)


def _described(kind: str) -> str:
    lines = []
    for contract in ("Router", "IAdapter"):
        rows = [
            f"| `{item['name']}` | {', '.join(_parameter(field) for field in item['inputs'])} |"
            for item in sorted(load_abi(contract), key=lambda item: item.get("name", ""))
            if item["type"] == kind
        ]
        if rows:
            lines.append(f"## {contract}\n\n| {kind} | parameters |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(lines)


def _parameter(field: dict[str, str]) -> str:
    return f"`{field['type']}{' indexed' if field.get('indexed') else ''} {field['name']}`"


def events() -> str:
    """Returns the contracts' events from the ABIs."""
    said = "What each of them says is in [formats](../formats.md)."
    return "\n\n".join(["# Events", said, _described("event")]) + "\n"


def errors() -> str:
    """Returns the contracts' errors from the ABIs."""
    said = "When each is thrown is documented in [the interfaces](../../contracts/interfaces)."
    return "\n\n".join(["# Errors", said, _described("error")]) + "\n"


def http_api() -> str:
    """Returns the JSON API from its OpenAPI document."""
    app = FastAPI()
    sources = Sources(deployment=cast(Deployment, None), index=lambda: None, store=lambda: None)
    add_api(app, sources, cast(MessageList, None), None)  # the document follows from the routes alone
    document = app.openapi()
    parts = ["# HTTP API", _HTTP]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            parts.append(f"## {method.upper()} {path}\n\n{route['summary']}.")
            fields = [_argument(field) for field in route.get("parameters", [])] + _body(route, document)
            if fields:
                parts.append("| name | in | type | needed |\n|---|---|---|---|\n" + "\n".join(fields))
    return "\n\n".join(parts) + "\n"


_HTTP: Final = (
    "`waybill web` serves it; the whole document is at `/openapi.json`. Reading is open. Changes and the contents of dead letters"
    ' take `Authorization: Bearer` with `WAYBILL_API_TOKEN`. An error is `{"error": {"code", "message", "next"}}`.'
)


def _argument(field: dict[str, Any]) -> str:
    return f"| `{field['name']}` | {field['in']} | {_type(field['schema'])} | {'yes' if field['required'] else ''} |"


def _body(route: dict[str, Any], document: dict[str, Any]) -> list[str]:
    if "requestBody" not in route:
        return []
    name = route["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    model = document["components"]["schemas"][name]
    needed = model.get("required", [])
    return [
        f"| `{field}` | body | {_type(schema)} | {'yes' if field in needed else ''} |"
        for field, schema in model["properties"].items()
    ]


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    shown = [_type(one) if "$ref" in one else str(one.get("type", "any")) for one in kinds]
    limits = [f"{word} {kinds[0][word]}" for word in ("minimum", "maximum", "maxLength") if word in kinds[0]]
    return ", ".join([" or ".join(shown), *limits])


def python() -> str:
    """Returns the Python client's public names with signatures and docstrings."""
    parts = ["# Python client", "Everything that `bridge.client` exports. Amounts are in wei, times in seconds."]
    for name in client.__all__:
        exported = getattr(client, name)
        parts.append(f"## {name}\n\n{_signature(name, exported)}\n\n{_docstring(exported)}")
        for method, function in inspect.getmembers(exported, inspect.isfunction) if inspect.isclass(exported) else ():
            if not method.startswith("_") and function.__doc__:
                parts.append(f"### {name}.{method}\n\n{_signature(method, function)}\n\n{_docstring(function)}")
    return "\n\n".join(parts) + "\n"


def _signature(name: str, called: Any) -> str:
    try:
        text = str(inspect.signature(called)).replace("(self, ", "(").replace("(self)", "()")
    except ValueError:  # an exception has no signature of its own
        text = "(...)"
    return f"```text\n{name}{text}\n```"


def _docstring(documented: Any) -> str:
    """Converts a Google-style docstring to Markdown, with arguments and errors as lists."""
    text = inspect.cleandoc(documented.__doc__ or "")
    text = re.sub(r"^(Args|Raises|Returns|Yields|Example):\n", r"**\1**\n\n", text, flags=re.MULTILINE)
    return re.sub(r"^    (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/cli.md": cli,
    "reference/events.md": events,
    "reference/http.md": http_api,
    "reference/errors.md": errors,
    "reference/python.md": python,
}
"""By place in the documentation, what makes the page."""
