"""`waybill dlq`: shows dead letters, records decisions about them, and verifies their log."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from eth_abi.exceptions import EncodingError
from eth_account.signers.local import LocalAccount
from rich.console import RenderableType

from bridge.cli import options
from bridge.cli.decider import account_source
from bridge.cli.output import (
    CliError,
    ExitCode,
    UsageError,
    details,
    progress,
    result,
    rows_table,
    with_network,
)
from bridge.cli.root import DEVNET, current
from bridge.cli.workspace import Workspace
from bridge.dead_letters.decisions import GOVERNANCE
from bridge.dead_letters.integrity import Verified
from bridge.dead_letters.review import DeadLetterReview
from bridge.dead_letters.signing import decision_digest, decision_typed_data
from bridge.devnet.accounts import DAPP_KEY, DEPLOYER_KEY
from bridge.evm.signing import LocalSigner
from bridge.protocol.addresses import checksummed
from bridge.protocol.deployment import Deployment
from bridge.protocol.times import iso_milliseconds
from bridge.queries.dead_letters import (
    happened,
    letter_value,
    log_record_value,
    opened_value,
)
from bridge.queries.lanes import lane_name
from bridge.records.dead_letters import Decision, LetterStatus, LogRecord
from bridge.service.connections import connected
from bridge.service.dead_letter_service import open_review, verify_network
from bridge.service.keys import local_account, open_sealer
from bridge.service.relayer_service import SystemClock
from bridge.store import open_store
from bridge.store.dead_letters import DeadLetterLog

_T = TypeVar("_T")

app = typer.Typer(help="Show dead letters, decide about them, and verify their log.", no_args_is_help=True)

Letter = Annotated[
    str, typer.Argument(help="The letter's id (MESSAGE/GMP/ATTEMPT), or its message's or action's id.", metavar="ID")
]


class Action(StrEnum):
    """The decisions that an operator can make."""

    REQUEUE = "requeue"
    RETRY = "retry"
    ABANDON = "abandon"
    ESCALATE = "escalate"

    @property
    def stored(self) -> Decision:
        """Returns the decision as stored in the log."""
        return Decision.GOVERNANCE_ESCALATION if self is Action.ESCALATE else Decision[self.name]


_ACTIONS: Final = (
    "requeue: deliver the same message again, with all its tries, once the cause is gone. retry: send a new message in its place,"
    " as its sender, with a new id and `replaces` set. abandon: give the message up for good, and tell its sender. escalate: hand"
    " the letter to governance."
)


_LETTER_COLUMNS: Final = {
    "id": "id",
    "kind": "kind",
    "status": "state",
    "errorCode": "error",
    "enteredAt": "entered",
}


@app.command("list")
def list_letters(
    status: Annotated[str | None, typer.Option(help="Show only letters in this state, such as PENDING_REVIEW.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1, max=10_000)] = 50,
) -> None:
    """List dead letters, newest first.

    Example: waybill dlq list --status PENDING_REVIEW
    """
    chosen = LetterStatus if status is None else {options.member(LetterStatus, status, "state")}
    with Workspace.current().letters() as log:
        found = log.dead_letters(statuses=frozenset(chosen), limit=limit) if log else []
    value = [letter_value(letter) for letter in found]
    result(value, rows_table(value, _LETTER_COLUMNS) if value else "no dead letters")


@app.command()
def show(letter: Letter) -> None:
    """Show a dead letter: its message, failures, history, and an analysis that helps to decide.

    Example: waybill dlq show 0x…/axelar/0
    """
    opened = _on_letters(letter, DeadLetterReview.open)
    value, deployment = list(map(opened_value, opened.values())), Workspace.current().deployment()
    result(value, *(part for one in value for part in _parts(one, deployment)))


@app.command()
def decide(
    letter: Letter,
    decision: Annotated[Action, typer.Argument(help=_ACTIONS)],
    *,
    rationale: Annotated[
        str | None,
        typer.Option(
            "--rationale", help="The reason, signed with the decision and kept permanently.", show_default=False
        ),
    ] = None,
    sender: Annotated[
        str | None,
        typer.Option(
            help="For `retry`: the message's sender, a configured account. On the devnet the example"
            " dApp's account by default.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    gmps: Annotated[
        str | None, typer.Option(help="For `retry`: GMPs to send over, separated by commas.", show_default=False)
    ] = None,
    maker: Annotated[
        str | None,
        typer.Option(
            help="The account that decides and signs elsewhere, such as a Safe, or GOVERNANCE. Records nothing yet, and writes"
            " the document to sign to --draft.",
            show_default=False,
        ),
    ] = None,
    draft: Annotated[
        Path | None,
        typer.Option(
            help="File that --maker writes and --signature reads. By default --maker writes to stdout.",
            show_default=False,
        ),
    ] = None,
    signature: Annotated[
        str | None,
        typer.Option(
            help="The maker's signature of --draft, to be recorded; 0x if a contract approved it on its chain.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Decide about a dead letter as an operator. The decision is signed with --signer NAME or --key.

    An account that signs elsewhere decides in two steps: --maker writes the document to sign, and --signature
    records the signature. A contract's approval is checked on its chain (ERC-1271). If the sender is a
    contract, it must re-issue its message itself; `retry` then finds the new message.

    Example: waybill dlq decide 0x…/axelar/0 requeue --rationale "the gateway is back"
    """
    if signature is not None:
        _record(letter, decision, draft, signature)
        return
    named = options.gmps(gmps) if gmps else None
    if rationale is None:
        raise UsageError("a decision needs a reason, which is stored with it", next_step='add --rationale "…"')
    workspace = Workspace.current()
    reissue: dict[str, Any] = {}
    if decision is Action.RETRY:
        reissue = {"sender": _account(workspace, sender, None, DAPP_KEY), "gmps": named}
    if maker is not None:
        _draft(letter, decision, rationale, maker, draft, **reissue)
        return
    if draft is not None:
        raise UsageError("--draft needs --maker or --signature", next_step="pass the maker with --maker ADDRESS")
    _print_decided(_on_letters(letter, lambda review, one: review.decide(one, decision.stored, rationale, **reissue)))


@app.command()
def verify(
    head: Annotated[str | None, typer.Option(help="Hash of an earlier record that the log must still contain.")] = None,
) -> None:
    """Check that no record was changed, removed or forged. Exits with status 1 if one was.

    Example: waybill dlq verify
    """
    workspace, noted = Workspace.current(), None if head is None else options.message_id(head)
    verified = Verified(records=0, head=bytes(32), violations=())
    with workspace.letters() as log:
        if log is not None:
            with closing(open_store(workspace.store)) as store:
                verified = asyncio.run(verify_network(workspace.deployment(), workspace.settings(), log, store, noted))
    problems = [str(violation) for violation in verified.violations]
    value = {"records": verified.records, "head": verified.head, "violations": problems}
    result(value, *(problems or [f"{verified.records} records verified; head 0x{verified.head.hex()}"]))
    if problems:
        raise SystemExit(ExitCode.FAILED)


@app.command()
def export(
    to: Annotated[Path | None, typer.Option("--to", help="File to write. By default stdout.")] = None,
) -> None:
    """Write every record, including decisions, as one JSON object per line.

    Example: waybill dlq export --to dead-letters.jsonl
    """
    with Workspace.current().letters() as log:
        records = log.records() if log else []
        lines = b"".join(orjson.dumps(log_record_value(record)) + b"\n" for record in records)
        if to is None:
            sys.stdout.write(lines.decode())
            return
        to.write_bytes(lines)
        progress(f"{len(records)} records written to {to}")


def _on_letters(letter: str, act: Callable[[DeadLetterReview, str], Awaitable[_T]]) -> dict[str, _T]:
    """Runs an operation on one letter, or on each letter of a message or an atomic action.

    Returns:
        The results, by letter id.

    Raises:
        CliError: no letter with that id exists.
    """
    workspace = Workspace.current()
    deployment, settings = workspace.deployment(), workspace.settings()
    operator = _account(workspace, current().signer, current().key, DEPLOYER_KEY)

    async def work() -> dict[str, _T]:
        with workspace.letters() as log:
            if log is None:
                raise CliError(
                    "no relayer has run here yet, so there are no dead letters", next_step="waybill relayer run"
                )
            named = _named(log, letter)
            async with connected(deployment, settings, eager=False) as chains:
                with closing(open_store(workspace.store)) as store:
                    review = open_review(
                        deployment, chains, store, log=log, settings=settings, clock=SystemClock(), operator=operator
                    )
                    return {event_id: await act(review, event_id) for event_id in named}

    return asyncio.run(work())


def _account(workspace: Workspace, name: str | None, key: str | None, devnet_key: str) -> LocalAccount | None:
    """Returns an account that can sign documents, or None if no name or key is given, except on the devnet.

    Raises:
        UsageError: no account with that name is configured, or the account is a remote signer, which only signs
            transactions.
        InvalidKeyError: the key is invalid or can't be opened.
    """
    if name is not None:
        source = account_source(workspace, name)
        if source.remote is not None:
            raise UsageError(
                f"account {name!r} uses a remote signer, which signs transactions only",
                next_step="sign elsewhere: --maker ADDRESS --draft FILE, then --draft FILE --signature 0x…",
            )
        return local_account(source)
    if key is None and workspace.network != DEVNET:
        return None
    return LocalSigner.from_key(key or devnet_key).account


def _print_decided(records: Mapping[str, LogRecord]) -> None:
    value = list(map(log_record_value, records.values()))
    lines = [f"{happened(record)}\nrecord {record.sequence}, 0x{record.hash.hex()}" for record in records.values()]
    result(value, *lines)


def _draft(letter: str, decision: Action, rationale: str, maker: str, file: Path | None, **reissue: Any) -> None:
    """Writes the document that a maker signs elsewhere."""
    name = maker if maker == GOVERNANCE else checksummed(maker)
    drafts = _on_letters(letter, lambda review, one: review.draft(one, decision.stored, rationale, name, **reissue))
    if len(drafts) > 1:
        raise UsageError(f"{letter} has {len(drafts)} letters, and each is signed separately: {', '.join(drafts)}")
    (document,) = drafts.values()
    value = {
        "document": document,
        "typedData": decision_typed_data(document),
        "digest": f"0x{decision_digest(document).hex()}",
    }
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"
    if file is None:
        sys.stdout.write(text)
    else:
        file.write_text(text)
    progress(
        f"have {document['decisionAccount']} sign typedData (eth_signTypedData_v4) on chain {document['chainId']}, then:"
        f" waybill dlq decide {letter} {decision} --draft {file or 'FILE'} --signature 0x…"
    )


def _record(letter: str, decision: Action, draft: Path | None, signature: str) -> None:
    """Records a decision that its maker has signed elsewhere."""
    if draft is None:
        raise UsageError("--signature needs --draft, the file that --maker wrote")
    signed = options.hex_bytes(signature, "a signature")
    document = _drafted(draft) | {"signature": f"0x{signed.hex()}"}
    about, drafted = document["dlqEntryId"], document["decisionType"]
    if drafted != decision.stored.value or not f"{about}/".startswith(f"{letter}/"):
        raise UsageError(f"{draft} decides {drafted} about {about}, not {decision.stored.value} about {letter}")
    sealer, now = open_sealer(Workspace.current().settings()), SystemClock().now()
    _print_decided(_on_letters(about, lambda review, _: review.record(document, sealer, now)))


def _drafted(draft: Path) -> dict[str, Any]:
    """Reads the document from a file that `_draft` wrote."""
    try:
        document: dict[str, Any] = orjson.loads(draft.read_bytes())["document"]
        decision_digest(document)
    except OSError as error:
        raise UsageError(f"{draft} can't be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, EncodingError) as error:
        raise UsageError(f"{draft} is not a draft written by `waybill dlq decide --maker`: {error!r}") from error
    return document


def _named(log: DeadLetterLog, text: str) -> list[str]:
    """Returns the ids of one letter, or of all letters of a message or an atomic action."""
    if "/" in text:
        found = [text] if log.letter(text) else []
    else:
        named = options.message_id(text)
        found = [one.event_id for one in log.dead_letters(message_id=named, limit=None)] or [
            one.event_id for one in log.dead_letters(limit=None) if one.event_id.startswith(f"0x{named.hex()}/")
        ]
    if not found:
        raise CliError(f"no dead letter {text}", code=ExitCode.UNKNOWN_ID, next_step="waybill dlq list")
    return found


def _parts(value: dict[str, Any], deployment: Deployment) -> Iterator[RenderableType]:
    """Yields the tables that describe a letter."""
    document, lane = value["document"], lane_name(deployment, value["sourceChain"], value["destinationChain"])
    letter = {name: one for name, one in value.items() if name not in _SHOWN_APART}
    yield details(letter | {"lane": f"{lane} over {value['gmp']}", "reason": document["reason"]})
    yield rows_table(document["failureHistory"], _FAILURE_COLUMNS, "\nfailures")
    headers = [{"header": name, "value": one} for name, one in document["headers"].items()]
    yield rows_table(headers, {"header": "header", "value": "value"}, "\nheaders")
    yield ""
    yield details(value["analysis"] | {"suggestion": with_network(value["next"])})
    history = [record | {"at": iso_milliseconds(record["at"])} for record in value["history"]]
    yield rows_table(history, _HISTORY_COLUMNS, "\nhistory")


_SHOWN_APART: Final = frozenset(
    {"next", "decisions", "document", "analysis", "history", "sourceChain", "destinationChain"}
)
_FAILURE_COLUMNS: Final = {
    "attemptNumber": "try",
    "failedAt": "at",
    "errorCode": "error",
    "disposition": "disposition",
    "errorMessage": "message",
}
_HISTORY_COLUMNS: Final = {"sequence": "record", "at": "at", "kind": "kind", "happened": "reason"}
