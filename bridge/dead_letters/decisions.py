"""Decisions about dead letters. The operator who makes a decision signs it, and it is never deleted.

An operator with a key signs, and anyone can recover its account from the signature. An operator that is a
contract confirms its signature on chain (ERC-1271). The block of that confirmation is stored with the decision,
so that the confirmation can be checked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eth_account.signers.local import LocalAccount
from eth_utils import decode_hex
from eth_utils.address import to_checksum_address

from bridge.dead_letters.signing import decision_digest, decision_signer, sign_decision
from bridge.protocol.contracts import contract
from bridge.protocol.ports import CallRevertedError, Chain, read_view
from bridge.protocol.times import iso_milliseconds
from bridge.records.dead_letters import (
    OPEN,
    DeadLetter,
    Decision,
    Draft,
    ForbiddenDecisionError,
    LogRecord,
    RecordKind,
    Sealer,
)
from bridge.store.dead_letters import DeadLetterLog

GOVERNANCE: Final = "GOVERNANCE"
"""The maker's name if the maker is the account that appoints operators."""

CONFIRMED_AT: Final = "confirmedAt"
"""The field of a document that says at which block a contract confirmed its signature."""

_ACCOUNT: Final = contract("isValidSignature(bytes32,bytes) returns (bytes4)")
_VALID: Final = bytes.fromhex("1626ba7e")  # magic value of ERC-1271


class DecisionError(Exception):
    """A decision is rejected. The message states the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Maker:
    """The operator who decides."""

    name: str  # the account, or GOVERNANCE
    account: str  # with its EIP-55 checksum


def open_letter(log: DeadLetterLog, event_id: str) -> tuple[DeadLetter, LogRecord]:
    """Returns an undecided letter and its first record.

    Raises:
        KeyError: The letter does not exist.
        DecisionError: The letter is already decided.
    """
    letter = log.letter(event_id)
    if letter is None:
        raise KeyError(event_id)
    if letter.status not in OPEN:
        raise DecisionError(f"dead letter {event_id} is {letter.status}: there is nothing left to decide")
    return letter, log.history(event_id)[0]


def replacement_of(log: DeadLetterLog, message_id: bytes) -> str | None:
    """Returns the id of the newest message that replaces this one by an operator's decision, or None."""
    decided = [
        record
        for letter in log.dead_letters(message_id=message_id, limit=None)
        for record in log.history(letter.event_id)
        if record.kind is RecordKind.DECIDED and record.document.get("newMessageId")
    ]
    newest = max(decided, key=lambda record: record.sequence, default=None)
    return None if newest is None else str(newest.document["newMessageId"])


def require_not_replaced(log: DeadLetterLog, message_id: bytes) -> None:
    """Rejects the redelivery of a message that has been replaced, since a recipient might execute both.

    Raises:
        DecisionError: The message has been replaced.
    """
    if (new := replacement_of(log, message_id)) is not None:
        raise DecisionError(
            f"message 0x{message_id.hex()} was re-issued as {new}, so it can't be requeued: the recipient "
            f"might execute both. Follow the new message with `waybill message show {new}`; if that died too, "
            "requeue or re-issue it"
        )


def decision_document(
    record: LogRecord,
    decision: Decision,
    *,
    place: tuple[int, str],
    maker: Maker,
    rationale: str,
    now: float,
    **further: Any,
) -> dict[str, Any]:
    """Builds the document that the operator signs.

    Args:
        record: The letter's first record.
        decision: The decision.
        place: Chain and contract that define who may decide.
        maker: The operator.
        rationale: The reason. It is required, since an auditor will have nothing else to go by.
        now: Unix seconds.
        further: Effects of the decision, such as the `newMessageId` of a retry.

    Raises:
        DecisionError: The rationale is missing.
    """
    require_rationale(rationale)
    chain_id, contract = place
    return {
        "chainId": chain_id,
        "verifyingContract": to_checksum_address(contract),
        "dlqEntryId": record.event_id,
        "letterHash": f"0x{record.hash.hex()}",
        "decisionAt": iso_milliseconds(now),
        "decisionMaker": maker.name,
        "decisionAccount": maker.account,
        "decisionType": decision.value,
        "rationale": rationale.strip(),
        **further,
    }


def require_rationale(rationale: str) -> None:
    """Rejects a decision without a rationale.

    Raises:
        DecisionError: The rationale is missing.
    """
    if not rationale.strip():
        raise DecisionError("a decision needs a rationale, which is stored for later audits")


def signed(document: dict[str, Any], account: LocalAccount) -> dict[str, Any]:
    """Returns the document with its operator's signature."""
    return document | {"signature": f"0x{sign_decision(account, document).hex()}"}


async def confirmed(chain: Chain, document: dict[str, Any]) -> dict[str, Any]:
    """Returns the document with the block at which its operator, a contract, confirmed the signature.

    Args:
        chain: Chain stated in the document.
        document: The signed document.

    Raises:
        DecisionError: The account does not confirm the signature.
        UnansweredError: The chain does not respond.
    """
    head = await chain.head()
    if not await confirms(chain, document, head.number):
        account, signer = document["decisionAccount"], decision_signer(document)
        raise DecisionError(
            f"the decision's maker is {account}, but its signer is {signer or 'unknown'}; on chain "
            f"{chain.chain_id}, the account's isValidSignature (ERC-1271) rejects the signature, too"
        )
    return document | {CONFIRMED_AT: {"block": head.number, "blockHash": f"0x{head.hash.hex()}"}}


async def confirms(chain: Chain, document: Mapping[str, Any], block: int) -> bool:
    """Whether a decision's operator, as a contract, considers its signature valid as of a block.

    Raises:
        UnansweredError: No endpoint responds, or all have pruned that block's state.
    """
    account, signature = document["decisionAccount"], document["signature"]
    try:
        digest, given = decision_digest(document), decode_hex(signature)
        answer = await read_view(chain, _ACCOUNT, account, "isValidSignature", digest, given, block=block)
    except (CallRevertedError, ValueError):
        return False
    return bool(answer == _VALID)


def record_decision(log: DeadLetterLog, document: dict[str, Any], sealer: Sealer, now: float) -> LogRecord:
    """Appends a signed decision to the log. A contract's decision must come from `confirmed`.

    Raises:
        DecisionError: The operator did not sign the decision, the decision is about a different letter, or the
            letter is already decided.
        KeyError: The letter does not exist.
    """
    _, first = open_letter(log, document["dlqEntryId"])
    account = document["decisionAccount"]
    if document["letterHash"] != f"0x{first.hash.hex()}":
        raise DecisionError(f"the decision is not for letter {first.event_id}: the letter hashes differ")
    signer = decision_signer(document)
    if CONFIRMED_AT not in document and (signer or "").lower() != account.lower():
        raise DecisionError(f"the decision's maker is {account}, but its signer is {signer or 'unknown'}")
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
        raise DecisionError("this decision is already recorded")
    return written
