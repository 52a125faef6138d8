"""The operator's review, which shows dead letters and carries out decisions about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eth_abi.abi import encode
from eth_account.signers.local import LocalAccount
from eth_utils import decode_hex
from eth_utils.address import to_checksum_address

from bridge.client import Client, RouteRequest
from bridge.dead_letters.analysis import Analysis, analyse
from bridge.dead_letters.decisions import (
    CONFIRMED_AT,
    GOVERNANCE,
    DecisionError,
    Maker,
    confirmed,
    decision_document,
    open_letter,
    record_decision,
    replacement_of,
    require_not_replaced,
    require_rationale,
    signed,
)
from bridge.dead_letters.governance import proposal
from bridge.dead_letters.parameters import OnChainParameters
from bridge.dead_letters.settings import GovernanceSettings
from bridge.dead_letters.signing import KeySealer, decision_signer
from bridge.evm.routers import RouterReader, created_messages, is_contract
from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import EnvelopeError, Kind, Message, decode_envelope
from bridge.protocol.ports import Chain, Clock, TransientError
from bridge.protocol.status import Status
from bridge.records.dead_letters import DeadLetter, Decision, LogRecord, RecordKind, Sealer, action_of_letter
from bridge.records.outbox import ForbiddenTransitionError
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog

_HOUR: Final = 3600  # seconds
_NEIGHBOURS: Final = 1_000  # letters examined to detect a systemic failure
_NOTICE_GAS: Final = 100_000  # gas
_NOTICE_TTL: Final = 600  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A letter with all information available about it."""

    letter: DeadLetter
    document: Mapping[str, Any]  # of the letter's latest entry
    history: Sequence[LogRecord]
    analysis: Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message that the maker of a decision must send before the decision is recorded."""

    source_chain: int
    request: RouteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A decision that passed all checks but is not signed yet."""

    first: LogRecord  # of the letter
    decision: Decision
    place: tuple[int, str]  # chain and contract that define who may decide
    maker: Maker
    rationale: str
    notice: Notice | None  # None: no message is needed

    def document(self, now: float, *, notice: str | None = None, **further: Any) -> dict[str, Any]:
        """Returns the document that the operator signs.

        Args:
            now: Unix seconds.
            notice: Id of the message that was sent as required by the attribute `notice`.
            further: Other effects of the decision.

        Raises:
            DecisionError: The id of the notice is missing.
        """
        if self.notice is not None and notice is None:
            raise DecisionError(f"{self.decision} needs the id of the message that announces it")
        if self.decision is Decision.ABANDON:
            message = message_in(self.first.document)
            further |= {"sender": f"0x{message.sender.hex()}" if message else None, "senderNotice": notice}
        elif self.decision is Decision.GOVERNANCE_ESCALATION:
            further |= {"governanceMessageId": notice}
        return decision_document(
            self.first,
            self.decision,
            place=self.place,
            maker=self.maker,
            rationale=self.rationale,
            now=now,
            **further,
        )


def latest_document(history: Sequence[LogRecord]) -> Mapping[str, Any]:
    """Returns the document of a letter's latest entry or return."""
    return [one for one in history if one.kind in (RecordKind.ENTERED, RecordKind.RETURNED)][-1].document


def analyse_letter(
    letter: DeadLetter,
    document: Mapping[str, Any],
    message: Message,
    *,
    log: DeadLetterLog,
    store: Store | None,
    status: Status | None,
    now: float,
) -> Analysis:
    """Answers the four questions about a letter from the letters around it and the message's other deliveries.

    Args:
        letter: the letter.
        document: document of the letter's latest entry.
        message: the original message.
        log: log of all letters.
        store: the relayer's store, or None if there is none.
        status: the message's state on its destination, or None if it is not known.
        now: Unix seconds.
    """
    return analyse(
        letter,
        document,
        message,
        others=log.dead_letters(since=letter.entered_at - _HOUR, limit=_NEIGHBOURS),
        deliveries=store.outbox.entries(letter.message_id) if store else [],
        status=status,
        replacement=replacement_of(log, letter.message_id),
        now=now,
    )


class DeadLetterReview:
    """One operator's review.

    Methods that change state first check that the account holds the operator role on chain.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        store: Store,
        log: DeadLetterLog,
        parameters: OnChainParameters,
        clock: Clock,
        operator: LocalAccount | None = None,
        governance: GovernanceSettings | None = None,
    ) -> None:
        """Stores the dependencies. Without an operator's key, the review is read-only."""
        self._deployment = deployment
        self._chains = chains
        self._store = store
        self._letters = log
        self._parameters = parameters
        self._clock = clock
        self._operator = operator
        self._governance = governance

    async def open(self, event_id: str) -> Opened:
        """Returns a letter with the answers to the four questions.

        Raises:
            KeyError: no letter has that id.
            DecisionError: the message's version is not supported.
        """
        letter = self._letters.letter(event_id)
        if letter is None:
            raise KeyError(event_id)
        history = self._letters.history(event_id)
        document = latest_document(history)
        message = _message_of(document)
        status = await self._status(message)
        analysis = analyse_letter(
            letter, document, message, log=self._letters, store=self._store, status=status, now=self._clock.now()
        )
        return Opened(letter=letter, document=document, history=history, analysis=analysis)

    async def decide(self, event_id: str, decision: Decision, rationale: str, **reissue: Any) -> LogRecord:
        """Makes a decision with the operator's key. If called again after a crash, completes the decision.

        Raises:
            KeyError, DecisionError, RefusedError: see `draft` and `record`.
        """
        if self._operator is None:
            raise DecisionError(
                "a decision needs the operator's key: choose its account with --signer, or set WAYBILL_KEY"
            )
        document = await self.draft(event_id, decision, rationale, self._operator.address, **reissue)
        return await self.record(signed(document, self._operator), KeySealer(self._operator), self._clock.now())

    async def draft(
        self,
        event_id: str,
        decision: Decision,
        rationale: str,
        maker: str,
        *,
        sender: LocalAccount | None = None,
        gmps: Sequence[Gmp] | None = None,
    ) -> dict[str, Any]:
        """Sends the messages that a decision requires, and returns the document that its maker signs.

        RETRY sends a new message in place of the dead one, as the original sender, with a new id and `replaces`
        set. `replaces` is the first message in a chain of re-issues, so that a recipient with a `ReissueGuard`
        applies only one of them. The new message passes all checks again. If the sender has already re-issued
        the message, for example before a crash, that message is found on chain and is not sent again.

        REQUEUE resets the tries of the same delivery. It is rejected for a message that was re-issued. ABANDON
        gives up on a letter permanently, and notifies the alert channels and, if the sender is a contract, the
        sender by a message. GOVERNANCE_ESCALATION sends the letter to governance in a message; the letter stays
        open until governance decides. The operator's key pays for these messages.

        Args:
            event_id: the letter.
            decision: the decision.
            rationale: its rationale.
            maker: account that decides, or `GOVERNANCE`.
            sender: the message's sender, for RETRY.
            gmps: GMPs to send over, for RETRY. With None, GMPs other than the failed one are preferred.

        Raises:
            KeyError, DecisionError: see `open_letter`; also if the rationale is missing, the maker is not an
                operator, the account is not the original sender and the sender has not re-issued the message, or no
                governance contract is configured.
            RefusedError: the router rejects the message.
        """
        named = await self._maker(maker)
        prepared = await self.prepare(event_id, decision, rationale, named)
        if decision is Decision.RETRY:
            new = await self._reissued(prepared.first, sender, gmps)
            return prepared.document(self._clock.now(), newMessageId=f"0x{new.id.hex()}")
        if prepared.notice is None:
            return prepared.document(self._clock.now())
        if self._operator is None:
            raise DecisionError(f"{decision} sends a message, which an account must pay for: choose one with --signer")
        client = Client(self._deployment, self._chains, self._operator)
        sent = await client.route(prepared.notice.source_chain, prepared.notice.request)
        return prepared.document(self._clock.now(), notice=f"0x{sent.message.id.hex()}")

    async def _reissued(self, first: LogRecord, sender: LocalAccount | None, gmps: Sequence[Gmp] | None) -> Message:
        message = _message_of(first.document)
        if found := await self._reissue_of(message):
            return found
        if sender is None or from_bytes32(message.sender) != sender.address:
            given = "no key is given" if sender is None else f"the key given is that of {sender.address}"
            raise DecisionError(
                f"only sender {from_bytes32(message.sender)} may re-issue the message, and {given}; if the "
                f"sender is a contract, have it route the message again with replaces = 0x{_first_of(message).hex()}, "
                "then repeat this command; or escalate the letter"
            )
        client = Client(self._deployment, self._chains, sender)
        return (await client.route(message.source_chain, self._replacement(first, message, gmps))).message

    def _replacement(self, first: LogRecord, message: Message, gmps: Sequence[Gmp] | None) -> RouteRequest:
        return RouteRequest(
            check_recipient=False,
            destination=message.destination_chain,
            recipient=from_bytes32(message.recipient),
            payload=message.payload,
            gmps=tuple(gmps or self._usable(message, first.document["gmp"])),
            quorum=message.quorum,
            gas_limit=message.gas_limit,
            ttl=message.ttl,
            kind=message.kind,
            replaces=_first_of(message),
        )

    async def prepare(self, event_id: str, decision: Decision, rationale: str, maker: Maker) -> Prepared:
        """Checks that a decision can be recorded, before anything is sent or signed, and returns its contents.

        Args:
            event_id: the letter.
            decision: the decision.
            rationale: its rationale.
            maker: account that decides.

        Raises:
            KeyError, DecisionError: see `open_letter`; also if the rationale is missing, the maker is not an
                operator, or the message to requeue was re-issued.
        """
        letter, first = open_letter(self._letters, event_id)
        require_rationale(rationale)
        about = action_of_letter(event_id)
        if about is not None and decision is not Decision.GOVERNANCE_ESCALATION:
            action_id, branch = about
            raise DecisionError(
                f"{event_id} is about an atomic action, whose decision stands: reconcile the participant with "
                f"`waybill action reconcile 0x{action_id.hex()} --branch {branch}`, or escalate the letter"
            )
        await self._require_role(maker)
        if decision is Decision.REQUEUE:
            require_not_replaced(self._letters, letter.message_id)
        notice = None
        if decision is Decision.GOVERNANCE_ESCALATION:
            notice = self._proposal(first, rationale)
        elif decision is Decision.ABANDON:
            notice = await self._notice(first, rationale)
        return Prepared(
            first=first, decision=decision, place=self._place(), maker=maker, rationale=rationale, notice=notice
        )

    async def record(self, document: dict[str, Any], sealer: Sealer, now: float) -> LogRecord:
        """Appends a signed decision to the log, and carries out its local effects.

        Args:
            document: result of `Prepared.document` with its maker's signature. If the maker is a contract, it
                must confirm the signature on chain.
            sealer: signs the record at its place in the log, including a contract's confirmation. It is the
                maker if the maker has a key, otherwise the relayer.
            now: Unix seconds.

        Raises:
            KeyError, DecisionError: see `record_decision`; also if the maker is not an operator or signed for a
                different network, or the message to requeue has been re-issued since.
        """
        document = {name: value for name, value in document.items() if name != CONFIRMED_AT}
        if (document["chainId"], document["verifyingContract"]) != self._place():
            chain_id, contract = self._place()
            raise DecisionError(
                f"the decision is for a different network: operators here are those of {contract} on {chain_id}"
            )
        maker = Maker(document["decisionMaker"], document["decisionAccount"])
        await self._require_role(maker)
        if document["decisionType"] == Decision.REQUEUE:
            letter, _ = open_letter(self._letters, document["dlqEntryId"])
            require_not_replaced(self._letters, letter.message_id)
        chain = self._chains[self._parameters.chain_id]
        if decision_signer(document) != maker.account and await is_contract(chain, maker.account):
            if sealer.address == maker.account:
                raise DecisionError(
                    f"{maker.account} is a contract, which can't seal a record: decide by `waybill dlq … --maker {maker.account}`"
                )
            document = await confirmed(chain, document)
        record = record_decision(self._letters, document, sealer, now)
        if document["decisionType"] == Decision.REQUEUE:
            self._open_again(record.event_id, document["rationale"])
        return record

    def _open_again(self, event_id: str, rationale: str) -> None:
        try:
            self._store.outbox.replay(event_id, f"requeued: {rationale}", self._clock.now())
        except ForbiddenTransitionError:
            pass  # it is already being delivered
        except KeyError as error:
            raise DecisionError(
                f"the relayer's store has no delivery {event_id}: a reorg may have removed it"
            ) from error

    def _proposal(self, first: LogRecord, rationale: str) -> Notice:
        """Returns the message that submits a letter to governance."""
        if self._governance is None:
            raise DecisionError("no governance contract is configured: set its chain and address in [dlq.governance]")
        source, request = proposal(
            self._deployment,
            self._governance,
            about=decode_hex(first.document["messageId"]),
            record=first.hash,
            event_id=first.event_id,
            text=rationale,
        )
        return Notice(source_chain=source, request=request)

    async def _notice(self, first: LogRecord, rationale: str) -> Notice | None:
        """Returns the message that notifies the sender, or None if the sender is not a contract that accepts it."""
        message = message_in(first.document)
        if message is None:
            return None
        home = self._deployment.chain(message.source_chain)
        try:
            sender = from_bytes32(message.sender)
        except AddressError:
            return None
        if not await is_contract(self._chains[home.chain_id], sender):
            return None
        away = self._deployment.chain(message.destination_chain)
        request = RouteRequest(
            check_recipient=False,
            destination=home.chain_id,
            recipient=sender,
            payload=encode(
                ["string", "bytes32", "bytes32", "string"], ["ABANDONED", message.id, first.hash, rationale]
            ),
            gmps=tuple(sorted(self._deployment.gmps_between(home.chain_id, away.chain_id))),
            quorum=1,
            gas_limit=_NOTICE_GAS,
            ttl=_NOTICE_TTL,
            kind=Kind.ACK,
        )
        return Notice(source_chain=away.chain_id, request=request)

    def _place(self) -> tuple[int, str]:
        return self._parameters.chain_id, to_checksum_address(self._parameters.authority)

    async def _maker(self, name: str) -> Maker:
        if name == GOVERNANCE:
            return Maker(GOVERNANCE, await self._parameters.owner())
        return Maker(name, name)

    async def _require_role(self, maker: Maker) -> None:
        if maker.name == GOVERNANCE:
            owner = await self._parameters.owner()
            if maker.account != owner:
                raise DecisionError(
                    f"GOVERNANCE is {owner}, the owner of {self._parameters.authority}, not {maker.account}"
                )
        elif maker.name != maker.account:
            raise DecisionError(
                f"the decision's maker is {maker.name}, but the account is {maker.account}; they must be the same"
            )
        elif not await self._parameters.is_operator(maker.account):
            raise DecisionError(
                f"account {maker.account} is not an operator on chain; governance grants the role by the "
                "parameter dlq.operator of the account"
            )

    async def _status(self, message: Message) -> Status | None:
        """Returns the message's state on its destination, or None if the chain does not respond."""
        try:
            destination = self._deployment.chain(message.destination_chain)
            router = RouterReader(self._chains[destination.chain_id], destination.router)
            progress = await router.progress(message.id)
            expired = await router.is_expired(message)
        except TransientError:
            return None
        return progress.outcome or (Status.EXPIRED if expired else Status.ROUTED)

    async def _reissue_of(self, message: Message) -> Message | None:
        """Returns the lane's next re-issue of the same first message, or None."""
        origin = self._deployment.chain(message.source_chain)
        async for _, found in created_messages(self._chains[origin.chain_id], origin):
            if _stands_in(found, message):
                return found
        return None

    def _usable(self, message: Message, failed: str) -> list[Gmp]:
        """Returns the GMPs for a new message, excluding the failed one if the others suffice."""
        common = self._deployment.gmps_between(message.source_chain, message.destination_chain)
        return sorted(common, key=lambda gmp: (gmp.label == failed, gmp))[: max(message.quorum, 1)]


def _first_of(message: Message) -> bytes:
    """Returns the id of the first message in the chain of re-issues."""
    return message.replaces if any(message.replaces) else message.id


def _stands_in(found: Message, message: Message) -> bool:
    """Whether `found` is a later re-issue of `message`.

    A lane's nonces increase, so a later message has a higher nonce. A cancellation must also cancel the same message.
    """
    return (
        (found.sender, found.destination_chain, found.kind) == (message.sender, message.destination_chain, message.kind)
        and found.nonce > message.nonce
        and found.replaces == _first_of(message)
    )


def _message_of(document: Mapping[str, Any]) -> Message:
    try:
        return decode_envelope(decode_hex(document["originalMessage"])).message
    except EnvelopeError as error:
        raise DecisionError(
            f"the message of {document['eventId']} can't be read: {error}. Its bytes are in `waybill dlq "
            "export`; abandon or escalate the letter"
        ) from error


def message_in(document: Mapping[str, Any]) -> Message | None:
    """Returns a letter's message, or None if the message is unreadable, for example because the store is damaged."""
    try:
        return _message_of(document)
    except DecisionError:
        return None
