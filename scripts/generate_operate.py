"""Writes the operator's reference pages from the code: docs/operate/metrics.md and docs/operate/settings.md."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import Any, Final

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from bridge.metrics import METRICS
from bridge.settings import PROFILES, Settings
from bridge.settings.index import IndexTable

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "operate"
ALERTS: Final = ROOT / "ops" / "alerts.yml"

_MADE: Final = "<!-- Made by `python -m scripts.generate_operate`; edit the code instead. -->\n"


def pages() -> dict[Path, str]:
    """Every generated page and its text."""
    return {FOLDER / "metrics.md": _metrics(), FOLDER / "settings.md": _settings()}


def _metrics() -> str:
    rows = [
        _row(metric.question, f"`{metric.name}`", metric.type.value, _words(metric.labels), metric.meaning)
        for metric in METRICS
    ]
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    alerts = [
        _row(rule["alert"], rule["labels"]["severity"], f"`{rule['expr']}`", rule.get("for", "at once"), _plain(rule))
        for rule in rules
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            _MADE,
            "Served at `/metrics` by `waybill relayer run --http HOST:PORT` and by `waybill api`. All but the requests to",
            "endpoints and the commits are read from the store at each scrape: a restart resets nothing.",
            "",
            _row("question", "metric", "type", "labels", "what is counted"),
            _row(*["---"] * 5),
            *rows,
            "",
            "## Alerts",
            "",
            "The rules are in `ops/alerts.yml`; `ops/alerts.test.yml` shows when each one fires and when it does not",
            "(`promtool test rules`). A dashboard for Grafana is in `ops/dashboard.json`.",
            "",
            _row("alert", "severity", "condition", "for", "what to do"),
            _row(*["---"] * 5),
            *alerts,
            "",
        ]
    )


def _settings() -> str:
    rows = [
        _row(f"`{name}`", f"`WAYBILL_{name.upper()}`", _default(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    profiles = [
        _row(f"`{name}`", ", ".join(f"`{key} = {value}`" for key, value in values.items()) or "the defaults")
        for name, values in PROFILES.items()
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            _MADE,
            "A flag goes over the environment, the environment over `waybill.toml`, the file over the profile, the profile over",
            "the default. `waybill config show` prints what holds and who said it; `waybill config check` lists everything that",
            'can\'t be used. Times are in seconds, amounts in wei or with their unit (`"0.5 ether"`).',
            "",
            _row("in `waybill.toml`", "variable", "default", "meaning"),
            _row(*["---"] * 4),
            *rows,
            "",
            "## `[index]`",
            "",
            "What `waybill index run` goes by; in the environment, `WAYBILL_INDEX` has all of it as JSON. Endpoints, their pace and their batches",
            "are those of `[chains.NAME]`.",
            "",
            *_table(Settings.model_fields["index"].default),
            "",
            "## Profiles",
            "",
            _row("profile", "sets"),
            _row("---", "---"),
            *profiles,
            "",
        ]
    )


def _table(table: BaseModel) -> list[str]:
    """The settings in a table of its own."""
    return [
        _row("setting", "default", "meaning"),
        _row(*["---"] * 3),
        *(
            _row(f"`{name}`", _default(field.default), field.description or "")
            for name, field in type(table).model_fields.items()
        ),
    ]


def _default(value: Any) -> str:
    if isinstance(value, IndexTable):
        return "see below"
    if value is PydanticUndefined or isinstance(value, NoneType):
        return "none"
    if isinstance(value, frozenset | tuple | dict):
        return "all" if value else "none"
    return f"`{value}`"


def _words(labels: tuple[str, ...]) -> str:
    return ", ".join(labels) or "none"


def _plain(rule: dict[str, Any]) -> str:
    return str(rule["annotations"]["description"])


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path.relative_to(ROOT))
