"""Atomic actions: the newest, and one with its participants."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import structlog
from eth_utils import decode_hex
from fastapi import Response

from bridge.atomic.answers import ActionList, FoundAction, action_value
from bridge.protocol.numbers import duration
from bridge.protocol.ports import TransientError
from bridge.protocol.times import timestamp
from bridge.web.cells import (
    Cell,
    Section,
    Table,
    account,
    copyable,
    cut,
    joined,
    link,
    message_link,
    moment,
    quiet,
    shortened,
    state,
    words,
)
from bridge.web.explorer import Explorer

_log = structlog.get_logger(__name__)

_PATIENCE: Final = 4.0  # seconds that a page waits for the chains, which alone know actions
_NO_ANSWER: Final = "A chain gives no usable answer."  # errors name endpoints, and go to the log


def ids(explorer: Explorer) -> Collection[str]:
    """Returns the ids of the newest actions that the chains report in time."""
    found, _ = _listed(explorer)
    return [one["actionId"] for one in (found.values if found else ())]


def actions(explorer: Explorer) -> Response:
    """Shows the newest actions."""
    listed, problem = _listed(explorer)
    if listed and listed.silent:
        problem = f"{' and '.join(listed.silent)} gave no answer: the actions of their coordinators are missing."
    rows: list[list[Cell]] = [
        [
            link(f"/actions/{one['actionId']}", copyable(one["actionId"])),
            state(one["state"]),
            words(one["level"]),
            "none yet" if one["decision"] == "NONE" else words(one["decision"]),
            "; ".join(f"{part['chain']}: {cut(part['change'], 60)}" for part in one["participants"]),
            moment(timestamp(one["begunAt"])),
        ]
        for one in (listed.values if listed else ())
    ]
    columns = ("Action", "State", "Level", "Decision", "Participants", "Started")
    empty = "No actions yet." if listed else "Being read from the chains; reload in a moment."
    table = Table(label="Actions", columns=columns, rows=rows, empty=empty)
    command = explorer.sources.command("waybill action list")
    section = Section(
        title="Atomic actions", note=problem, tone="warn" if problem else "", table=table, command=command
    )
    return explorer.sections("Actions", [section], here="/actions")


def action(explorer: Explorer, action_id: bytes) -> Response:
    """Shows one action."""
    name = f"0x{action_id.hex()}"
    try:
        found = explorer.sources.action(action_id)
    except TransientError as error:
        _log.warning("action unreadable", error=str(error))
        return explorer.problem(503, _NO_ANSWER)
    if found is None:
        return explorer.problem(404, f"no configured coordinator knows action {name}")
    return explorer.sections(f"Action {shortened(name)}", _sections(explorer, found), here="/actions")


def _sections(explorer: Explorer, found: FoundAction) -> list[Section]:
    value = action_value(found, explorer.sources.deployment)
    next_steps = [
        Section(title=one["act"].capitalize(), note=cut(one["why"]), command=explorer.sources.command(one["command"]))
        for one in value["next"]
    ]
    findings = [Section(title="Diverged", note=cut(one), tone="bad") for one in value["findings"]]
    return [
        *findings,
        Section(title="Action", note=value["meaning"], facts=_facts(value)),
        Section(title="Participants", table=_participants(value["participants"])),
        Section(title="Messages", table=_messages(value["participants"])),
        Section(title="In force on the subject", table=_in_force(value["inForce"])),
        *next_steps,
    ]


def _listed(explorer: Explorer) -> tuple[ActionList | None, str]:
    """Returns the newest actions, or None with the problem."""
    try:
        found = explorer.actions.look(max(explorer.settings.patience, _PATIENCE))
    except TransientError as error:
        _log.warning("actions unreadable", error=str(error))
        return None, _NO_ANSWER
    return (found.value if found else None), ""


def _messages(participants: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [
            message["phase"],
            f"{part['branch']}: {part['chain']}",
            message_link(decode_hex(message["messageId"])),
            state(message["status"]),
        ]
        for part in participants
        for message in part["messages"]
    ]
    columns = ("Phase", "Participant", "Message", "State")
    return Table(label="Messages of the action", columns=columns, rows=rows, empty="No messages yet.")


def _facts(value: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    window = value["window"]
    facts: list[tuple[str, Cell]] = [
        ("Id", copyable(value["actionId"], value["actionId"])),
        ("State", state(value["state"])),
        ("Decision", "none yet" if value["decision"] == "NONE" else _decision(value)),
        ("Level", words(value["level"])),
        ("Subject", copyable(value["subject"])),
        ("Coordinator", joined([account(value["coordinator"]), f"on {value['chain']}"])),
        ("Initiator", account(value["initiator"])),
        ("Started", moment(timestamp(value["begunAt"]))),
    ]
    if value["phase"]:
        facts.append(("Phase", joined([words(value["phase"]), "until", moment(timestamp(value["phaseEndsAt"]))])))
    if value["votesEndAt"]:
        facts.append(("Votes count until", moment(timestamp(value["votesEndAt"]))))
    if value["level"] != "BEST_EFFORT":
        silence = f"at most {window['maxRetries']} retries per phase, {duration(window['maxBackoff'])} apart"
        facts.append(("Retries", silence))
    return facts


def _decision(value: Mapping[str, Any]) -> Cell:
    return joined([f"{words(value['decision'])}: {words(value['cause'])},", moment(timestamp(value["decidedAt"]))])


def _participants(participants: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [
            joined([f"{one['branch']}: {one['chain']}", account(one["participant"])]),
            cut(one["change"]),
            "no answer yet" if one["state"] == "NONE" else words(one["state"]),
            quiet("not read") if one["problem"] else words(one["says"] or "NONE"),
            cut(one["obstacle"] or one["reason"], 200),
            moment(timestamp(one["lockedUntil"])) if one["lockedUntil"] else "–",
        ]
        for one in participants
    ]
    columns = ("Participant", "Change", "Coordinator has", "Participant says", "Reason", "Locked until")
    return Table(label="Participants", columns=columns, rows=rows)


def _in_force(values: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [
            one["chain"],
            cut(one["change"]),
            link(f"/actions/{one['actionId']}", shortened(one["actionId"])),
            words(one["state"]),
            moment(timestamp(one["decidedAt"])),
        ]
        for one in values
    ]
    columns = ("Chain", "Change", "By action", "State", "Decided")
    return Table(label="In force", columns=columns, rows=rows, empty="No action on the subject has changed anything.")
