"""Generates the reference pages for operators from the code: settings, metrics, alerts, failures, kinds, states and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer.main import get_command

from bridge.cli.app import app
from bridge.cli.settings import WaybillSettings
from bridge.metrics import METRICS
from bridge.protocol.classification import FAILURES, UNKNOWN, Disposition
from bridge.protocol.delivery_policy import DEFAULT_POLICIES, JITTER
from bridge.protocol.failures import FailureKind
from bridge.protocol.guarantee import DEFAULT_ATOMICITY, LEAST_TTL, RECOMMENDED_TTL, default_ttl
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from bridge.queries.advice import Circumstances, Standing, next_action
from bridge.service.settings import PROFILES
from indexer.model import dictionary
from scripts.reference_pages import commands

ROOT: Final = Path(__file__).resolve().parents[1]
ALERTS: Final = ROOT / "ops" / "alerts.yml"

_NEXT_TRY: Final = {
    FailureKind.TRANSIENT: "retried, counts as a try",
    FailureKind.TERMINAL: "not retried",
    FailureKind.REFUSED: "retried, counts as a try",
    FailureKind.UNKNOWN: "retried, counts as a try",
    FailureKind.INTERRUPTED: "retried, counts as a try",
    FailureKind.UNANSWERED: "retried, does not count as a try",
    FailureKind.UNDONE: "delivered again, does not count as a try",
}

_DISPOSITIONS: Final = {
    Disposition.REJECT: "the message is rejected and not tried again",
    Disposition.RETRY: "tried again, as often as the policy of its kind allows",
    Disposition.ROLLBACK: "the sender may undo what it did, on the destination's report",
    Disposition.ESCALATE: "an operator or governance decides",
    Disposition.DIVERGE: "the chains differ, and the primary record decides",
    Disposition.IGNORE: "the effect is there already: OIP's “silently ignored”, which is success",
}


def metrics() -> str:
    """Returns all metrics, grouped by the question that they answer."""
    rows = [
        (metric.question, f"`{metric.name}`", metric.type.value, ", ".join(metric.labels), metric.meaning)
        for metric in METRICS
    ]
    return _page(
        "Metrics",
        "Served at `/metrics`. Everything is read from the store and the chains at each scrape. Counters never fall: not by a"
        " restart, a takeover, a replay or a reorg. [Alerts](alerts.md) use them, and a dashboard for Grafana is in"
        " `ops/dashboard.json`.",
        _table(("question", "metric", "type", "labels", "meaning"), rows),
    )


def alerts() -> str:
    """Returns all alerts with their conditions and remedies."""
    parts = ["The rules are in `ops/alerts.yml`; `ops/alerts.test.yml` shows when each fires and when it does not."]
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"] if "alert" in rule):
        annotations = rule["annotations"]
        summary = re.sub(r"\{\{ \$value.*?\}\}", "*n*", annotations["summary"])
        summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", summary)
        parts.append(
            f"## {rule['alert']}\n\n{summary}. Severity: {rule['labels']['severity']}.\n\n{annotations['description']}\n\n"
            f"```promql\n{rule['expr'].strip()}\n```\n\nfor {rule.get('for', '0s')}"
        )
    return _page("Alerts", *parts)


def failures() -> str:
    """Returns the relayer's handling of each delivery failure."""
    rows = [
        (
            _code(*row.recorded),
            row.disposition,
            row.kind or "",
            _code(*row.reverts),
            _code(*row.theirs),
            row.handling,
        )
        for row in (*FAILURES, UNKNOWN)
    ]
    return _page(
        "Failures and their handling",
        "Relayer, stores, commands and API go by this table. The first seven codes and the dispositions are OIP's. A failure"
        " that is in no row is UNKNOWN: it is retried, counted, and raises an alert. When a recipient refuses a message with a"
        " code whose disposition is REJECT, in a final block, the relayer does not execute it again until it is asked to, or"
        " until another GMP delivers.",
        _table(("disposition", "meaning"), ((_code(name), meaning) for name, meaning in _DISPOSITIONS.items())),
        _table(("kind of failure", "next try"), ((_code(kind), meaning) for kind, meaning in _NEXT_TRY.items())),
        _table(("code", "disposition", "kind of failure", "contracts' errors", "StreamForge", "handling"), rows),
    )


def kinds() -> str:
    """Returns the policy of each kind of message."""
    rows = [
        (
            _code(kind.name.lower()),
            str(kind.value),
            _seconds(RECOMMENDED_TTL[kind] or None, "for ever"),
            _seconds(default_ttl(kind) or None, "for ever"),
            "without end" if policy.max_retries is None else str(policy.max_retries),
            _seconds(policy.base),
            _seconds(policy.cap),
            _seconds(policy.retry_window, "without end"),
            "yes" if policy.dead_letter else "no",
            DEFAULT_ATOMICITY[kind],
        )
        for kind, policy in DEFAULT_POLICIES.items()
    ]
    head = ("kind", "number", "recommended TTL", "default TTL", "retries", "first wait", "longest wait", "window")
    return _page(
        "Kinds of messages",
        "The TTL that `waybill send` and both kits give a message whose sender names none, and how often a relayer tries to"
        f" deliver it. Waits double and vary by {JITTER:.0%}; the window is the most that all waits take together. Routers refuse"
        f" a TTL below {LEAST_TTL} s. Where a source takes longer to become final, the clients raise the TTL further.",
        _table((*head, "dead letter", "atomicity"), rows),
    )


def states() -> str:
    """Returns the states of a message with the next action in each."""
    refused = (Status.EXECUTION_FAILED, Status.EXECUTION_DEFERRED)
    usual = Circumstances(retriable=True, has_letter=True)
    rows = []
    for status in Status:
        standing = Standing(status=status, kind=Kind.PLAIN, has_quorum=status in refused, circumstances=usual)
        action = next_action(standing, bytes(32)).replace(f"0x{bytes(32).hex()}", "ID")
        rows.append((_code(status), "yes" if status.is_final else "", action))
    return _page("States of a message", _table(("state", "final", "next action"), rows))


def tables() -> str:
    """Returns the lake's tables with their columns."""
    parts = [cleandoc(dictionary.__doc__ or "").partition("\n\n")[2]]
    for name, (_, about) in dictionary.TABLES.items():
        columns = dictionary.described(name)
        rows = [(_code(field.name), f"{field.type}", field.metadata[b"comment"].decode()) for field in columns]
        parts.append(f"## {name}\n\n{about[:1].upper()}{about[1:]}.\n\n" + _table(("column", "type", "meaning"), rows))
    return _page("Tables of the lake", *parts)


def settings() -> str:
    """Returns all settings by table, with the commands' environment variables and the profiles."""
    top = [
        (_code(name), _code(f"WAYBILL_{name.upper()}"), _default(field.default), field.description or "")
        for name, field in WaybillSettings.model_fields.items()
    ]
    head = (
        "A flag takes precedence over the environment, the environment over `waybill.toml`, the file over the profile, and the"
        ' profile over the default. Times are in seconds, amounts in wei or with their unit (`"0.5 ether"`). In the'
        " environment, a table's variable holds all of it as JSON."
    )
    parts = [head, _table(("in `waybill.toml`", "variable", "default", "meaning"), top)]
    for heading, table in _tables_of(WaybillSettings):
        rows = [
            (
                _code(name),
                "required" if field.is_required() else _default(field.default),
                field.description or "",
            )
            for name, field in table.model_fields.items()
        ]
        about = cleandoc(table.__doc__ or "").partition("\n\n")[0]
        parts.append(f"## `{heading}`\n\n{about}\n\n" + _table(("setting", "default", "meaning"), rows))
    profiles = [
        (_code(name), ", ".join(f"`{key} = {value}`" for key, value in _flat(values)) or "the defaults")
        for name, values in PROFILES.items()
    ]
    parts.append("## Profiles\n\n" + _table(("profile", "sets"), profiles))
    parts.append(
        "## Variables of commands\n\n"
        + _table(("variable", "meaning"), ((_code(name), meaning) for name, meaning in sorted(_variables().items())))
    )
    return _page("Settings", *parts)


def _tables_of(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yields the tables of a settings model with their TOML headings, depth first."""
    for name, field in model.model_fields.items():
        for table, is_list, is_keyed in _models_in(field.annotation):
            place = f"{path}{name}" + (".NAME" if is_keyed else "")
            yield (f"[[{place}]]" if is_list else f"[{place}]"), table
            yield from _tables_of(table, f"{place}.")


def _models_in(
    annotation: Any, *, is_list: bool = False, is_keyed: bool = False
) -> Iterator[tuple[type[BaseModel], bool, bool]]:
    """Returns the models in a field's annotation, and whether the field is a list of them or maps names to them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, is_list, is_keyed
        return
    origin = get_origin(annotation)
    is_container = isinstance(origin, type)
    for part in get_args(annotation):
        yield from _models_in(
            part,
            is_list=is_list or (is_container and issubclass(origin, tuple | list)),
            is_keyed=is_keyed or (is_container and issubclass(origin, Mapping)),
        )


def _variables() -> dict[str, str]:
    """Returns the environment variables that commands read in addition to the settings."""
    found = {
        "WAYBILL_HOME": "the folder with `deployments/`, `waybill.toml` and `.waybill/`; by default the current one"
    }
    for _, command in commands(get_command(app)):
        for option in command.params:
            if name := getattr(option, "envvar", None):
                found.setdefault(str(name), str(getattr(option, "help", None) or ""))
    return found


def _default(value: Any) -> str:
    """Returns a default value as a table cell."""
    if isinstance(value, BaseModel):
        return "see below"
    if value is PydanticUndefined or value is None:
        return "none"
    if isinstance(value, frozenset):
        return "all" if value else "none"
    if isinstance(value, tuple | dict):
        return _code(*value) or "none"
    return _code(str(value).lower() if isinstance(value, bool) else value)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Returns each value in TOML syntax by its dotted name."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value)


def _code(*names: object) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _seconds(value: float | None, absent: str = "") -> str:
    return absent if value is None else f"{value:g} s"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Returns a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", *parts]) + "\n"


PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/settings.md": settings,
    "reference/metrics.md": metrics,
    "reference/alerts.md": alerts,
    "reference/failures.md": failures,
    "reference/kinds.md": kinds,
    "reference/states.md": states,
    "reference/tables.md": tables,
}
"""The function that makes each page, by the page's place in the documentation."""
