"""`waybill dlq`: look at dead letters, decide about them, and verify that they are unchanged."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from eth_abi.exceptions import EncodingError
from eth_account import Account
from eth_account.signers.local import LocalAccount
from rich.console import Console

from bridge.cli import options
from bridge.cli.open_stores import open_letters
from bridge.cli.output import CliError, ExitCode, UsageError, escaped, facts, progress, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.dead_letters.decisions import GOVERNANCE
from bridge.dead_letters.integrity import Verified
from bridge.dead_letters.review import DeadLetterReview, Opened
from bridge.dead_letters.signing import decision_digest, decision_typed_data
from bridge.devnet.accounts import DAPP_KEY, DEPLOYER_KEY
from bridge.domain.dead_letters import Decision, LetterStatus, LogRecord
from bridge.evm.signing import LocalSigner
from bridge.protocol.addresses import AddressError, checksummed
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.times import iso_milliseconds
from bridge.queries.dead_letters import (
    happened,
    letter_acts,
    letter_value,
    log_record_value,
    opened_value,
    suggestion,
)
from bridge.queries.lanes import lane_name
from bridge.service.connections import connected
from bridge.service.dead_letter_service import open_review, verify_network
from bridge.service.keys import open_sealer
from bridge.service.relayer_service import SystemClock
from bridge.settings import Settings
from bridge.store import open_store
from bridge.store.dead_letters import DeadLetterLog

app = typer.Typer(help="Look at dead letters, decide about them, verify them.", no_args_is_help=True)

Letter = Annotated[
    str, typer.Argument(help="The letter's id (MESSAGE/GMP/ATTEMPT), or its message's or action's id.", metavar="ID")
]
Rationale = Annotated[str, typer.Option("--rationale", help="Why; signed with the decision and kept for ever.")]
OperatorKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar="WAYBILL_OPERATOR_KEY",
        help="Private key of an operator. On the devnet that of the routers' owner by default.",
        show_default=False,
    ),
]
Maker = Annotated[
    str | None,
    typer.Option(
        "--maker",
        help="Who decides, if it signs elsewhere: an account, such as a Safe, or GOVERNANCE. Then nothing is recorded yet:"
        " what it has to sign is written.",
        show_default=False,
    ),
]
Draft = Annotated[
    Path | None, typer.Option("--to", help="With --maker: file to write; stdout if not given.", show_default=False)
]


@app.command("list")
def list_letters(
    *,
    status: Annotated[str | None, typer.Option(help="Only those in this state, such as PENDING_REVIEW.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 50,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """List dead letters, the newest first.

    Example: waybill dlq list --status PENDING_REVIEW
    """
    with open_letters(_settings(network, config)) as log:
        found = log.dead_letters(statuses=_statuses(status), limit=limit) if log else []
    value = [letter_value(letter) for letter in found]
    columns = ["id", "kind", "state", "error", "entered"]
    rows = [[row["id"], row["kind"], row["status"], row["errorCode"], row["enteredAt"]] for row in value]
    drawn = table(None, columns, rows)
    result(value, as_json=as_json, render=lambda console: console.print(drawn if rows else "no dead letters"))


@app.command()
def show(
    letter: Letter, *, network: options.Network = DEVNET, config: options.Config = None, as_json: options.Json = False
) -> None:
    """Show a dead letter: its message, its failures, its history, and what to know before deciding.

    Example: waybill dlq show 0x…/axelar/0
    """

    async def work() -> list[Opened]:
        async with _review(network, config, None) as (review, log):
            return [await review.open(event_id) for event_id in _named(log, letter)]

    found, deployment = asyncio.run(work()), Workspace.of(network).deployment()
    value = [opened_value(one) for one in found]
    result(value, as_json=as_json, render=lambda console: _draw(console, found, deployment))


@app.command()
def requeue(
    letter: Letter,
    *,
    rationale: Rationale,
    maker: Maker = None,
    to: Draft = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    key: OperatorKey = None,
    as_json: options.Json = False,
) -> None:
    """Deliver the same message again, with all its tries: for causes that are gone.

    Example: waybill dlq requeue 0x…/axelar/0 --rationale "the gateway is back"
    """
    _decide(_Asked(letter, Decision.REQUEUE, rationale, maker, to, network, config, key), as_json=as_json)


@app.command()
def reissue(
    letter: Letter,
    *,
    rationale: Rationale,
    gmp: Annotated[str | None, typer.Option("--gmp", help="GMPs to send over, separated by commas.")] = None,
    sender_key: Annotated[
        str | None,
        typer.Option(
            "--sender-key",
            envvar="WAYBILL_KEY",
            help="Private key of the message's sender. On the devnet the example dApp's by default.",
            show_default=False,
        ),
    ] = None,
    call: Annotated[
        bool,
        typer.Option("--call", help="Only print the transaction that the sender has to make, if it is a contract."),
    ] = False,
    maker: Maker = None,
    to: Draft = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    key: OperatorKey = None,
    as_json: options.Json = False,
) -> None:
    """Send a new message in its place, as its sender: a new id, all checks again, `replaces` set.

    If the sender is a contract, have it make the call that --call prints. Repeat the command then: it finds the new message.

    Example: waybill dlq reissue 0x…/axelar/0 --rationale "it expired while the chain stood still"
    """
    gmps = options.gmps(gmp) if gmp else None
    if call:
        _print_calls(letter, gmps, network, config, key, as_json=as_json)
        return
    sender = LocalSigner.from_key(sender_key or DAPP_KEY).account if sender_key or network == DEVNET else None
    asked = _Asked(letter, Decision.RETRY, rationale, maker, to, network, config, key)
    _decide(asked, as_json=as_json, sender=sender, gmps=gmps)


@app.command()
def abandon(
    letter: Letter,
    *,
    rationale: Rationale,
    maker: Maker = None,
    to: Draft = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    key: OperatorKey = None,
    as_json: options.Json = False,
) -> None:
    """Give a message up for good, and tell its sender. Nothing was changed on its destination.

    Example: waybill dlq abandon 0x…/axelar/0 --rationale "the recipient is retired"
    """
    _decide(_Asked(letter, Decision.ABANDON, rationale, maker, to, network, config, key), as_json=as_json)


@app.command()
def escalate(
    letter: Letter,
    *,
    rationale: Rationale,
    maker: Maker = None,
    to: Draft = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    key: OperatorKey = None,
    as_json: options.Json = False,
) -> None:
    """Hand a letter to governance, by a governance message. It stays under review until governance decides.

    Example: waybill dlq escalate 0x…/axelar/0 --rationale "every message to this chain dies"
    """
    _decide(_Asked(letter, Decision.GOVERNANCE_ESCALATION, rationale, maker, to, network, config, key), as_json=as_json)


@app.command()
def record(
    draft: Annotated[Path, typer.Argument(help="File that a decision with --maker wrote.", metavar="FILE")],
    *,
    signature: Annotated[str, typer.Option(help="What its maker signed; 0x if a contract approved it on its chain.")],
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Record a decision that its maker signed elsewhere. A contract is asked on its chain whether it did (ERC-1271).

    Example: waybill dlq record decision.json --signature 0x…
    """
    document = _drafted(draft) | {"signature": f"0x{_signature(signature).hex()}"}
    sealer = open_sealer(_settings(network, config))

    async def work() -> LogRecord:
        async with _review(network, config, None) as (review, _):
            return await review.record(document, sealer, SystemClock().now())

    _print_decided([asyncio.run(work())], as_json=as_json)


@app.command()
def verify(
    *,
    head: Annotated[str | None, typer.Option(help="Hash of a record noted earlier, which must still be there.")] = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Check that no record was changed, removed or added by anybody but Waybill. Exits with status 1 if one was.

    Example: waybill dlq verify
    """
    settings = _settings(network, config)
    noted = None if head is None else options.message_id(head)
    with open_letters(settings) as log:
        verified = Verified(records=0, head=bytes(32), violations=())
        if log is not None:
            store = open_store(settings.store)
            try:
                deployment = Workspace.of(network).deployment()
                verified = asyncio.run(verify_network(deployment, settings, log, store, noted))
            finally:
                store.close()
    problems = [str(violation) for violation in verified.violations]
    value = {
        "records": verified.records,
        "head": verified.head,
        "violations": problems,
        "unpromised": list(verified.unpromised),
    }
    text = "\n".join(problems) or f"{verified.records} records verified; head 0x{verified.head.hex()}"
    if verified.unpromised:
        text += f"\n{len(verified.unpromised)} died before dead letters were switched on for them, and have none"
    result(value, as_json=as_json, render=lambda console: console.print(escaped(text)))
    if problems:
        raise SystemExit(ExitCode.FAILED)


@app.command()
def export(
    *,
    to: Annotated[Path | None, typer.Option("--to", help="File to write; stdout if not given.")] = None,
    archive: Annotated[
        bool, typer.Option("--archive", help="Then take documents out of decided letters whose retention is over.")
    ] = False,
    network: options.Network = DEVNET,
    config: options.Config = None,
) -> None:
    """Write every record, decisions included, as one JSON object per line.

    Example: waybill dlq export --to dead-letters.jsonl
    """
    if archive and to is None:
        raise UsageError("--archive needs --to: what it takes out must be in a file first")
    with open_letters(_settings(network, config)) as log:
        records = log.records() if log else []
        lines = b"".join(orjson.dumps(log_record_value(record)) + b"\n" for record in records)
        if to is None:
            sys.stdout.write(lines.decode())
            return
        to.write_bytes(lines)
        progress(f"{len(records)} records written to {to}")
        if archive and log is not None:
            now = SystemClock().now()
            over = frozenset(one.event_id for one in log.dead_letters(limit=None) if one.retention_until < now)
            progress(f"{log.archive(over)} documents taken out; their hashes, and all decisions, stay")


def _settings(network: str, config: Path | None) -> Settings:
    workspace = Workspace.of(network, config)
    return workspace.settings().model_copy(update={"store": workspace.store})


@asynccontextmanager
async def _review(
    network: str, config: Path | None, key: str | None
) -> AsyncIterator[tuple[DeadLetterReview, DeadLetterLog]]:
    settings, deployment = _settings(network, config), Workspace.of(network).deployment()
    with open_letters(settings) as log:
        if log is None:
            raise CliError("no relayer has run here yet, so there are no dead letters", next_step="waybill relayer run")
        async with connected(deployment, settings, eager=False) as chains:
            store = open_store(settings.store)
            try:
                operator = _operator(network, key)
                yield (
                    open_review(
                        deployment, chains, store, log=log, settings=settings, clock=SystemClock(), operator=operator
                    ),
                    log,
                )
            finally:
                store.close()


def _operator(network: str, key: str | None) -> LocalAccount | None:
    if key is None and network != DEVNET:
        return None
    try:
        account: LocalAccount = Account.from_key(key or DEPLOYER_KEY)
    except ValueError as error:
        raise UsageError("the operator's key is not a private key (0x and 64 hex digits)") from error
    return account


@dataclass(frozen=True, slots=True)
class _Asked:
    """A decision that the command was asked for, with its options."""

    letter: str
    decision: Decision
    rationale: str
    maker: str | None
    to: Path | None
    network: str
    config: Path | None
    key: str | None


def _decide(asked: _Asked, *, as_json: bool, **reissue: Any) -> None:
    """Makes an operator's decision about each letter that was named, and prints what the log got; or what a maker has to sign."""
    if asked.maker is not None:
        _draft(asked, asked.maker, **reissue)
        return
    if asked.to is not None:
        raise UsageError("--to is the file for what --maker has to sign: name the maker")

    async def work() -> list[LogRecord]:
        async with _review(asked.network, asked.config, asked.key) as (review, log):
            named = _named(log, asked.letter)
            return [await review.decide(one, asked.decision, asked.rationale, **reissue) for one in named]

    _print_decided(asyncio.run(work()), as_json=as_json)


def _print_decided(records: list[LogRecord], *, as_json: bool) -> None:
    value = [log_record_value(record) for record in records]
    lines = [f"{happened(record)}\nrecord {record.sequence}, 0x{record.hash.hex()}" for record in records]
    result(value, as_json=as_json, render=lambda console: console.print(escaped("\n".join(lines))))


def _draft(asked: _Asked, maker: str, **reissue: Any) -> None:
    """Writes what a maker has to sign elsewhere."""
    try:
        name = maker if maker == GOVERNANCE else checksummed(maker)
    except AddressError as error:
        raise UsageError(f"--maker is an account or GOVERNANCE: {error}") from error

    async def work() -> dict[str, Any]:
        async with _review(asked.network, asked.config, asked.key) as (review, log):
            named = _named(log, asked.letter)
            if len(named) > 1:
                raise UsageError(
                    f"{asked.letter} has {len(named)} letters, and each is signed for itself: {', '.join(named)}"
                )
            return await review.draft(named[0], asked.decision, asked.rationale, name, **reissue)

    document = asyncio.run(work())
    value = {
        "document": document,
        "typedData": decision_typed_data(document),
        "digest": f"0x{decision_digest(document).hex()}",
    }
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"
    if asked.to is None:
        sys.stdout.write(text)
    else:
        asked.to.write_text(text)
    where = asked.to or "the file with this"
    progress(
        f"have {document['decisionAccount']} sign typedData (eth_signTypedData_v4) on chain {document['chainId']}, then:"
        f" waybill dlq record {where} --signature 0x…"
    )


def _signature(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError as error:
        raise UsageError(f"the signature {text!r} is not 0x and an even number of hex digits") from error


def _drafted(draft: Path) -> dict[str, Any]:
    """The document in a file of `_draft`."""
    try:
        document: dict[str, Any] = orjson.loads(draft.read_bytes())["document"]
        decision_digest(document)
    except OSError as error:
        raise UsageError(f"{draft} can't be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, EncodingError) as error:
        raise UsageError(f"{draft} is no decision that `waybill dlq … --maker` wrote: {error!r}") from error
    return document


def _print_calls(
    letter: str, gmps: tuple[Gmp, ...] | None, network: str, config: Path | None, key: str | None, *, as_json: bool
) -> None:
    async def work() -> list[dict[str, str]]:
        async with _review(network, config, key) as (review, log):
            calls = {event_id: await review.reissue_call(event_id, gmps) for event_id in _named(log, letter)}
        return [
            {"letter": event_id, "to": call.to, "value": str(call.value), "data": f"0x{call.data.hex()}"}
            for event_id, call in calls.items()
        ]

    value = asyncio.run(work())
    result(value, as_json=as_json, render=lambda console: console.print(*map(facts, value), sep="\n"))


def _named(log: DeadLetterLog, text: str) -> list[str]:
    """The letters that are meant: one, or all of a message or an atomic action."""
    if "/" in text:
        found = [text] if log.letter(text) else []
    else:
        named = options.message_id(text)
        found = [one.event_id for one in log.dead_letters(message_id=named, limit=None)] or [
            one.event_id for one in log.dead_letters(limit=None) if one.event_id.startswith(f"0x{named.hex()}/")
        ]
    if not found:
        raise CliError(f"there is no dead letter {text}", code=ExitCode.UNKNOWN_ID, next_step="waybill dlq list")
    return found


def _statuses(text: str | None) -> frozenset[LetterStatus]:
    if text is None:
        return frozenset(LetterStatus)
    try:
        return frozenset({LetterStatus(text.upper())})
    except ValueError:
        raise UsageError(f"{text!r} is no state of a dead letter; they are {', '.join(LetterStatus)}") from None


def _draw(console: Console, found: list[Opened], deployment: Deployment) -> None:
    for opened in found:
        letter, document = opened.letter, opened.document
        lane = lane_name(deployment, letter.source_chain, letter.destination_chain)
        console.print(
            facts(
                {
                    "letter": letter.event_id,
                    "state": letter.status.value,
                    "entered": iso_milliseconds(letter.entered_at),
                    "kept until": iso_milliseconds(letter.retention_until),
                    "reason": document["reason"],
                    "lane": f"{lane} over {letter.gmp}",
                    "kind": letter.kind,
                    "message": f"{len(opened.message.payload)} bytes of payload, kept verbatim",
                }
            )
        )
        rows = [
            [str(one["attemptNumber"]), one["failedAt"], one["errorCode"], one["disposition"], one["errorMessage"]]
            for one in document["failureHistory"]
        ]
        console.print(table("\nfailures", ["try", "at", "error", "disposition", "what it said"], rows))
        headers = [[name, value] for name, value in document["headers"].items()]
        console.print(table("\nheaders", ["header", "what it says"], headers))
        questions = {
            "permanent?": opened.analysis.permanent,
            "systemic?": opened.analysis.systemic,
            "would it work?": opened.analysis.would_succeed,
            "governance?": opened.analysis.governance,
            "suggestion": suggestion(letter, opened.analysis, letter_acts(letter, opened.analysis)),
        }
        console.print()
        console.print(facts(questions))
        history = [
            [str(one.sequence), iso_milliseconds(one.at), one.kind.value, happened(one)] for one in opened.history
        ]
        console.print(table("\nhistory", ["record", "at", "what", "why"], history))
