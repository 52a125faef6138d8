"""Writes the reference pages that other pages link to, from the code: metrics, settings, runbooks, states, tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Final

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer.main import get_command

from bridge.cli.app import app
from bridge.domain import classification
from bridge.domain.classification import FAILURES, UNKNOWN, Disposition
from bridge.domain.delivery_policy import DEFAULT_POLICIES, JITTER
from bridge.domain.failures import FailureKind
from bridge.domain.guarantee import DEFAULT_ATOMICITY, LEAST_TTL, RECOMMENDED_TTL, default_ttl
from bridge.metrics import METRICS
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from bridge.queries import Circumstances, Standing, next_action
from bridge.settings import PROFILES, Settings
from bridge.settings.sections import (
    ActionsTable,
    AlertSettings,
    AssetClassTable,
    AttestationTable,
    ChainSettings,
    DeadLetterTable,
    DeadLetterTopicTable,
    EmailSettings,
    GovernanceTable,
    GuaranteeTable,
    HeartbeatTable,
    IndexTable,
    KafkaTable,
    PaymentsTable,
    PhaseLimitTable,
    PhaseTable,
    PolicyOverride,
    PropagationTable,
    ReliabilityTable,
    SenderChoiceTable,
    SignerSource,
    SpendingTable,
    SpendLimit,
    SponsorTable,
    TopicTable,
    TripwireTable,
    TrustTable,
    WebhooksTable,
    WebhookTargetTable,
)
from indexer.model import dictionary
from scripts.reference_pages import commands

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "operate"
ALERTS: Final = ROOT / "ops" / "alerts.yml"

TABLES: Final[dict[str, tuple[type[BaseModel], str]]] = {
    "[chains.NAME]": (ChainSettings, "One chain's endpoints, where they differ from the deployments file."),
    "[[signers]]": (SignerSource, "Where one key is: exactly one of `environment`, `keystore` and `remote`."),
    "[spending]": (SpendingTable, "Bounds on the cost of transactions on each chain, in that chain's currency. A transaction without room waits."),
    "[payments]": (PaymentsTable, "Whether senders must pay for deliveries, and whom ([payments](../payments.md))."),
    "[[sponsors]]": (SponsorTable, "Who pays for some senders' messages."),
    "[[spend_limits]]": (SpendLimit, "The most that a lane may cost per day (UTC); `[[retry_budgets]]` is the same for the fees of its retries."),
    "[policies.KIND]": (PolicyOverride, "Changes to a kind's row of the policy table."),
    '[guarantees."0x…"]': (GuaranteeTable, "Other guarantees for a sender's messages, or for one message."),
    "[sender_choices]": (SenderChoiceTable, "What senders may choose on chain for their messages (`chooseDelivery`)."),
    "[asset_classes.NAME]": (AssetClassTable, "How long messages about a class of assets live at least."),
    "[[phase_limits]]": (PhaseLimitTable, "Phase timeouts of a lane, of a kind, or of both. They never touch a message's TTL."),
    "[phase_timeouts]": (PhaseTable, "How long each phase of a delivery may take. They never touch a message's TTL."),
    "[heartbeats]": (HeartbeatTable, "Messages that show lag and loss on destinations."),
    "[sync]": (PropagationTable, "How state changes are followed to their application."),
    "[actions]": (ActionsTable, "Which atomic actions are followed; see [atomic actions](actions.md)."),
    "[trust]": (TrustTable, "What lanes are expected to trust, and how often the chains are compared with it."),
    "[tripwire]": (TripwireTable, "Settings of `waybill tripwire run` ([tripwire](../tripwire.md)); times in seconds."),
    "[reliability]": (ReliabilityTable, "Values that must fit each other; the dedup window is `retention`."),
    "[attestations]": (AttestationTable, "Whom to ask for what a GMP's own parties signed. A devnet signs itself."),
    "[dlq]": (DeadLetterTable, "Where dead letters are kept, who signs them, and who is notified."),
    "[dlq.governance]": (GovernanceTable, "Who decides what operators may not: `chain` and `address` of a recipient of messages."),
    "[dlq.alerts]": (AlertSettings, "Each channel that is named is notified of each dead letter."),
    "[dlq.alerts.email]": (EmailSettings, "A mail server, and whom to write to."),
    "[kafka]": (KafkaTable, "Where streams are published ([streams](../streams.md)). Off while `bootstrap_servers` is not set."),
    "[kafka.topics]": (TopicTable, "The topic of each stream."),
    "[kafka.dead_letter_queue]": (DeadLetterTopicTable, "The topic of what another topic refused, and of messages whose deliveries died."),
    "[webhooks]": (WebhooksTable, "How records are POSTed to HTTP targets ([webhooks](../webhooks.md)). Off while there is no target."),
    "[webhooks.targets.NAME]": (WebhookTargetTable, "One target. A record must pass all filters; one that is empty lets everything pass."),
    "[index]": (IndexTable, "Settings of `waybill index run`. Endpoints, their pace and their batches are those of `[chains.NAME]`."),
}  # fmt: skip
"""Tables of the settings file, in the order of the page."""

_NEXT_TRY: Final = {
    FailureKind.TRANSIENT: "tried again, costs a try",
    FailureKind.TERMINAL: "not tried again",
    FailureKind.REFUSED: "tried again, costs a try",
    FailureKind.UNKNOWN: "tried again, costs a try",
    FailureKind.INTERRUPTED: "tried again, costs a try",
    FailureKind.UNANSWERED: "tried again, costs no try",
    FailureKind.UNDONE: "made again, costs no try",
}

_DISPOSITIONS: Final = {
    Disposition.REJECT: "the message is refused, and not tried again",
    Disposition.RETRY: "tried again, as often as the policy of its kind allows",
    Disposition.ROLLBACK: "its sender undoes what it did, on the destination's report",
    Disposition.ESCALATE: "an operator or governance decides",
    Disposition.DIVERGE: "the chains differ, and the primary record decides",
    Disposition.IGNORE: "the effect is there already: OIP's “silently ignored”, which is success",
}

_NO_OPTION: Final = {
    "WAYBILL_HOME": "the folder with `deployments/`, `waybill.toml` and `.waybill/`; by default the current one",
}

_MADE: Final = "<!-- Made by `python -m scripts.generate_operate`; edit the code instead. -->\n"


def pages() -> dict[Path, str]:
    """Every generated page and its text."""
    return {
        FOLDER / "metrics.md": _metrics(),
        FOLDER / "settings.md": _settings(),
        FOLDER / "runbooks.md": _runbooks(),
        ROOT / "docs" / "dead-letter-errors.md": _failures(),
        ROOT / "docs" / "reference" / "kinds.md": _kinds(),
        ROOT / "docs" / "reference" / "states.md": _states(),
        ROOT / "docs" / "reference" / "tables.md": _tables(),
    }


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
            "Served at `/metrics` by `waybill relayer run --http HOST:PORT` and by `waybill api`. Everything is read from the",
            "store and the chains at each scrape. Counters never fall: not by a restart, a takeover by another worker, a",
            "replay or a reorg. `retention` adds what it deletes to them. What a relayer counts in memory (commits, TTL",
            "violations, requests) it writes every 5 s. All relayers of one store count together; restoring a backup resets.",
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


def _runbooks() -> str:
    """What to do about each alert."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    parts = ["# Runbooks", _MADE.strip(), "One for each alert in `ops/alerts.yml`: what it means, and where to begin."]
    for rule in (rule for group in groups for rule in group["rules"] if "alert" in rule):
        said = rule["annotations"]
        summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", re.sub(r"\{\{ \$value.*?\}\}", "*n*", said["summary"]))
        condition = f"```promql\n{rule['expr'].strip()}\n```\n\nfor {rule.get('for', '0s')}"
        parts.append(f"## {rule['alert']}\n\n{summary}.\n\n{said['description']}\n\n{condition}")
    return "\n\n".join(parts) + "\n"


def _failures() -> str:
    """What is done about each failure."""
    rows = [
        _row(
            ", ".join(f"`{name}`" for name in ((one.code, *one.errors) if one.code else one.errors)),
            one.disposition,
            one.kind or "",
            ", ".join(f"`{name}`" for name in one.reverts),
            ", ".join(f"`{name}`" for name in one.theirs),
            one.handling,
        )
        for one in (*FAILURES, UNKNOWN)
    ]
    return "\n".join(
        [
            "# Errors and their handling",
            "",
            _MADE,
            (classification.__doc__ or "").split("\n\n", 1)[1].strip(),
            "",
            "The first seven rows are OIP's codes with its dispositions. A failed try is recorded with its code; `waybill dlq show`,",
            "the HTTP API and the dead letter's document name the disposition. When a recipient refuses a message by a code that is",
            "REJECT, and that is final, the relayer does not execute it again. `waybill message explain` says so.",
            "A delivery by another GMP, or a retry asked of the relayer, has it tried again.",
            "",
            "| disposition | meaning |",
            "| --- | --- |",
            *(_row(f"`{name}`", meaning) for name, meaning in _DISPOSITIONS.items()),
            "",
            "The kind says what a failed delivery costs. The last column of the table below names the exceptions.",
            "",
            "| kind of failure | next try |",
            "| --- | --- |",
            *(_row(f"`{kind}`", meaning) for kind, meaning in _NEXT_TRY.items()),
            "",
            _row(
                "code",
                "disposition",
                "kind of failure",
                "contracts' errors",
                "StreamForge",
                "what is done",
            ),
            _row(*["---"] * 6),
            *rows,
            "",
        ]
    )


def _kinds() -> str:
    """What each kind of message is promised."""
    rows = [
        _row(
            f"`{kind.name.lower()}`",
            str(kind.value),
            f"{RECOMMENDED_TTL[kind]} s" if RECOMMENDED_TTL[kind] else "for ever",
            f"{default_ttl(kind)} s" if default_ttl(kind) else "for ever",
            "without end" if policy.max_retries is None else str(policy.max_retries),
            f"{policy.base:g} s",
            f"{policy.cap:g} s",
            "without end" if policy.retry_window is None else f"{policy.retry_window:g} s",
            "yes" if policy.dead_letter else "no",
            DEFAULT_ATOMICITY[kind],
        )
        for kind, policy in DEFAULT_POLICIES.items()
    ]
    head = (
        "kind",
        "number",
        "recommended TTL",
        "TTL if none is named",
        "retries",
        "first wait",
        "longest wait",
        "window",
    )
    return "\n".join(
        [
            "# Kinds of messages",
            "",
            _MADE,
            "What `waybill send` and both kits give a message whose sender names no TTL, and how often a relayer tries to deliver",
            "it. `[policies.KIND]` changes the tries of a kind, and `[guarantees]` those of a sender. Waits double and vary by",
            f"{JITTER:.0%}; the window is the longest that all waits take together. Routers refuse a TTL below {LEAST_TTL} s, so that the",
            "recommended TTL of some kinds is raised. `waybill send` and the Python client raise it further where the source takes",
            "longer to become final.",
            "",
            _row(*head, "dead letter", "atomicity"),
            _row(*["---"] * 10),
            *rows,
            "",
        ]
    )


def _states() -> str:
    """The states of a message and what to do about each."""
    refused = (Status.EXECUTION_FAILED, Status.EXECUTION_DEFERRED)
    usual = Circumstances(retriable=True, has_letter=True)
    rows = []
    for status in Status:
        standing = Standing(status=status, kind=Kind.PLAIN, has_quorum=status in refused, circumstances=usual)
        advice = next_action(standing, bytes(32)).replace(f"0x{bytes(32).hex()}", "ID")
        rows.append(f"| `{status}` | {'yes' if status.is_final else ''} | {advice.replace('|', '/')} |")
    head = "| state | end | what to do |\n|---|---|---|"
    return "\n\n".join(["# States of a message", _MADE.strip(), "\n".join([head, *rows])]) + "\n"


def _tables() -> str:
    """What the lake's tables and their columns mean."""
    parts = ["# Tables of the lake", _MADE.strip(), (dictionary.__doc__ or "").split("\n\n", 1)[1].strip()]
    for name, (_, about) in dictionary.TABLES.items():
        rows = [
            _row(f"`{field.name}`", f"{field.type}", field.metadata[b"comment"].decode())
            for field in dictionary.described(name)
        ]
        parts.append(
            "\n".join(
                [f"## {name}\n\n{about.capitalize()}.\n", _row("column", "type", "meaning"), _row(*["---"] * 3), *rows]
            )
        )
    return "\n\n".join(parts) + "\n"


def _settings() -> str:
    rows = [
        _row(f"`{name}`", f"`WAYBILL_{name.upper()}`", _default(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    profiles = [
        _row(f"`{name}`", ", ".join(f"`{key} = {value}`" for key, value in _flat(values)) or "the defaults")
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
            "## Variables of commands",
            "",
            "Commands also read these. A flag of the command takes precedence.",
            "",
            _row("variable", "meaning"),
            _row("---", "---"),
            *(_row(f"`{name}`", meaning) for name, meaning in sorted(_variables().items())),
            "",
            "## Tables",
            "",
            "In the environment, a table's variable has all of it as JSON.",
            "",
            *(line for name, (table, about) in TABLES.items() for line in _table(name, table, about)),
            "## Profiles",
            "",
            _row("profile", "sets"),
            _row("---", "---"),
            *profiles,
            "",
        ]
    )


def _variables() -> dict[str, str]:
    """What commands read from the environment beside the settings: their options', and those of no option."""
    found = dict(_NO_OPTION)
    for _, command in commands(get_command(app)):
        for option in command.params:
            if name := getattr(option, "envvar", None):
                found.setdefault(str(name), str(getattr(option, "help", None) or ""))
    return found


def _table(name: str, table: type[BaseModel], about: str) -> list[str]:
    """The settings in a table of its own."""
    return [
        f"### `{name}`",
        "",
        about,
        "",
        _row("setting", "default", "meaning"),
        _row(*["---"] * 3),
        *(
            _row(f"`{key}`", "needed" if field.is_required() else _default(field.default), field.description or "")
            for key, field in table.model_fields.items()
        ),
        "",
    ]


def _default(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "see below"
    if value is PydanticUndefined or isinstance(value, NoneType):
        return "none"
    if isinstance(value, frozenset):
        return "all" if value else "none"
    if isinstance(value, tuple | dict):
        return ", ".join(f"`{one}`" for one in value) or "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _words(labels: tuple[str, ...]) -> str:
    return ", ".join(labels) or "none"


def _plain(rule: dict[str, Any]) -> str:
    return str(rule["annotations"]["description"])


def _flat(values: Mapping[str, Any], table: str = "") -> Iterator[tuple[str, str]]:
    """Each value, as TOML writes it, by its dotted name."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{table}{name}.")
        else:
            yield f"{table}{name}", json.dumps(value)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path.relative_to(ROOT))
