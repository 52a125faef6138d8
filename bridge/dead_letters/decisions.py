"""A decision about a dead letter: signed by the operator who takes it, and kept for ever."""

from __future__ import annotations

from typing import Any

from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from bridge.dead_letters.dead_letter import iso
from bridge.dead_letters.signing import decision_signer, sign_decision
from bridge.domain.dead_letters import (
    OPEN,
    DeadLetter,
    DeadLetterLog,
    Decision,
    Draft,
    ForbiddenDecisionError,
    LogRecord,
    RecordKind,
    Sealer,
)


class DecisionError(Exception):
    """A decision that is not taken; the text says why and what to do."""


def open_letter(log: DeadLetterLog, event_id: str) -> tuple[DeadLetter, LogRecord]:
    """A letter about which something can still be decided, and its first record.

    Raises:
        KeyError: there is no such letter.
        DecisionError: it is decided.
    """
    letter = log.letter(event_id)
    if letter is None:
        raise KeyError(event_id)
    if letter.status not in OPEN:
        raise DecisionError(f"dead letter {event_id} is {letter.status}: there is nothing left to decide")
    return letter, log.history(event_id)[0]


def decision_document(
    record: LogRecord,
    decision: Decision,
    *,
    place: tuple[int, str],
    maker: str,
    rationale: str,
    now: float,
    **further: Any,
) -> dict[str, Any]:
    """What the maker signs.

    Args:
        record: the letter's first record.
        decision: what is decided.
        place: the chain and the contract that say who may decide.
        maker: the account that decides.
        rationale: why; required, since it is all that an auditor will have.
        now: Unix seconds.
        further: `newMessageId` of a retry, and what else was done.

    Raises:
        DecisionError: no rationale.
    """
    require_rationale(rationale)
    chain_id, contract = place
    return {
        "chainId": chain_id,
        "verifyingContract": to_checksum_address(contract),
        "dlqEntryId": record.event_id,
        "letterHash": f"0x{record.hash.hex()}",
        "decisionAt": iso(now),
        "decisionMaker": maker,
        "decisionType": decision.value,
        "rationale": rationale.strip(),
        **further,
    }


def require_rationale(rationale: str) -> None:
    """Refuses a decision without a reason.

    Raises:
        DecisionError: there is none.
    """
    if not rationale.strip():
        raise DecisionError("a decision needs a rationale: say why, for a later audit")


def signed(document: dict[str, Any], account: LocalAccount) -> dict[str, Any]:
    """The document with its maker's signature."""
    return document | {"signature": f"0x{sign_decision(account, document).hex()}"}


def record_decision(log: DeadLetterLog, document: dict[str, Any], sealer: Sealer, now: float) -> LogRecord:
    """Writes a signed decision into the log.

    Raises:
        DecisionError: the signature is not its maker's, it is about another letter, or the letter is decided.
        KeyError: there is no such letter.
    """
    _, first = open_letter(log, document["dlqEntryId"])
    maker = document["decisionMaker"]
    if document["letterHash"] != f"0x{first.hash.hex()}":
        raise DecisionError(f"the decision is about another letter than {first.event_id}: their hashes differ")
    signer = decision_signer(document)
    if signer is None or signer.lower() != maker.lower():
        raise DecisionError(f"the decision names {maker} as its maker, and is signed by {signer or 'nobody'}")
    draft = Draft(
        key=f"decided/{document['signature']}",
        kind=RecordKind.DECIDED,
        event_id=first.event_id,
        at=now,
        document=document,
    )
    try:
        written = log.append(draft, sealer)
    except ForbiddenDecisionError as error:
        raise DecisionError(str(error)) from error
    if written is None:
        raise DecisionError("this very decision is recorded already")
    return written
