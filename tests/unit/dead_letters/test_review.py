"""What an operator decides is carried out: only by operators, only once, as the original sender where a message is sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from eth_abi.abi import decode, encode
from eth_account import Account

from bridge.client import Client, RouteRequest, cancellation_of
from bridge.dead_letters.decisions import GOVERNANCE, DecisionError, Maker, signed
from bridge.dead_letters.parameters import OnChainParameters
from bridge.dead_letters.review import DeadLetterReview
from bridge.dead_letters.settings import GovernanceSettings
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.addresses import from_bytes32, to_bytes32
from bridge.protocol.contracts import ADAPTER, ROUTER
from bridge.protocol.deployment import Deployment
from bridge.protocol.events import topic_of
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.protocol.ports import Block, Call, Chain, Fees, Log, Receipt
from bridge.queries.dead_letters import happened, letter_acts
from bridge.records.dead_letters import Decision, LetterStatus, LogRecord
from bridge.records.outbox import OutboxState
from tests.builders import ALPHA, BETA, message, word
from tests.unit.dead_letters.world import OPERATOR, STRANGER, DeadLetterService

SENDER = Account.from_key("0x" + "77" * 32)
ROUTER_ADDRESS = "0x00000000000000000000000000000000000000AA"
CONTRACTS = {"mailbox": "0x" + "01" * 20, "merkleTreeHook": "0x" + "02" * 20}


class RoutingChain:
    """A chain whose router takes every route, as far as a review asks it."""

    def __init__(self, chain_id: int) -> None:
        self.chain_id = chain_id
        self.sent: list[Message] = []
        self.gmps: list[list[int]] = []  # over which each was sent
        self.contracts: set[str] = set()
        self.execution = 0  # of every message: 0 none, 1 executed
        self.time = 0  # of its head, Unix seconds
        self.owner = OPERATOR.address  # and guardian
        self._asked: tuple[Call, str] | None = None

    async def head(self) -> Block:
        return Block(1, word("head"), word("before"), self.time)

    async def block(self, number: int) -> Block | None:
        return await self.head()

    async def call(self, call: Call, **_: object) -> bytes:
        match call.data[:4]:
            case data if data == ROUTER.selector("adapterOf"):
                return encode(["address"], ["0x" + "03" * 20])
            case data if data == ADAPTER.selector("quote"):
                return encode(["uint256"], [7])
            case data if data == ROUTER.selector("receiptsOf"):
                return encode(["uint16", "uint8"], [0, self.execution])
            case _ if len(call.data) == 4:  # owner, guardian
                return encode(["address"], [self.owner])
            case _:
                return b"\x00" * 32 if call.to in self.contracts else b""

    async def estimate_gas(self, call: Call, sender: str) -> int:
        self._asked = (call, sender)
        return 100_000

    async def fees(self, limit: int | None = None) -> Fees:
        return Fees(2, 1)

    async def balance(self, address: str) -> int:
        return 10**18

    async def transaction_count(self, address: str) -> int:
        return 0

    async def broadcast(self, transaction: bytes) -> None:
        assert self._asked is not None
        call, sender = self._asked
        route = "(uint64,bytes32,bytes,uint64,uint32,uint8,uint8,bytes32,bool,uint8,(uint8,uint256)[],address)"
        ((there, recipient, payload, gas, ttl, kind, quorum, replaces, _, _, gmps, _),) = decode([route], call.data[4:])
        self.gmps.append([gmp for gmp, _ in gmps])
        self.sent.append(
            message(
                100 + len(self.sent),
                source_chain=self.chain_id,
                sender=to_bytes32(sender),
                destination_chain=there,
                recipient=recipient,
                payload=payload,
                gas_limit=gas,
                ttl=ttl,
                kind=Kind(kind),
                quorum=quorum,
                replaces=replaces,
            )
        )

    async def receipt(self, transaction_hash: bytes) -> Receipt:
        return Receipt(
            transaction_hash=transaction_hash,
            block_number=1,
            block_hash=word("head"),
            succeeded=True,
            gas_used=1,
            logs=(self._log(self.sent[-1]),),
        )

    async def logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        assert (list(addresses), list(topics)) == (
            [ROUTER_ADDRESS],
            [topic_of("MessageRouted"), topic_of("MessageUnfunded")],
        )
        return [self._log(one) for one in self.sent] if first <= 1 <= last else []

    def _log(self, sent: Message) -> Log:
        topics = (topic_of("MessageRouted"), sent.id, sent.destination_chain.to_bytes(32, "big"))
        return Log(
            address=ROUTER_ADDRESS,
            topics=topics,
            data=encode(["bool", "uint16", "bytes"], [True, 1, sent.encode()]),
            block_number=1,
            block_hash=word("head"),
            transaction_hash=word("transaction"),
            log_index=0,
        )


def deployed(chain_id: int, name: str, **further: object) -> dict[str, object]:
    return {
        "chainId": chain_id,
        "name": name,
        "rpcUrls": ["http://nowhere"],
        "startBlock": 0,
        "confirmations": 0,
        "router": ROUTER_ADDRESS,
        "adapters": dict.fromkeys(("hyperlane", *further), "0x" + "03" * 20),
        "gmps": {"hyperlane": {"domain": chain_id, **CONTRACTS}, **further},
    }


class Office:
    """A review with a dead letter on it, and chains around it."""

    def __init__(
        self, operator: object = OPERATOR, dead_letter_service: DeadLetterService | None = None, **further: object
    ) -> None:
        """`further` are contracts of GMPs that both chains have besides hyperlane's."""
        self.chains = {ALPHA: RoutingChain(ALPHA), BETA: RoutingChain(BETA)}
        self.dead_letter_service = dead_letter_service or DeadLetterService()
        self.original = message(sender=to_bytes32(SENDER.address), kind=Kind.PLAIN)
        there = [deployed(ALPHA, "alpha", **further), deployed(BETA, "beta", **further)]
        document = {"version": 1, "network": "test", "chains": there}
        chains = {chain_id: cast(Chain, chain) for chain_id, chain in self.chains.items()}
        self.client = Client(Deployment.model_validate(document), chains, SENDER)
        self.review = DeadLetterReview(
            deployment=Deployment.model_validate(document),
            chains=chains,
            store=self.dead_letter_service.store,
            log=self.dead_letter_service.dead_letters,
            parameters=OnChainParameters(chains[ALPHA], ROUTER_ADDRESS, None),
            clock=self.dead_letter_service.clock,
            operator=operator,  # type: ignore[arg-type]  # an account
            governance=GovernanceSettings(chain="beta", address="0x" + "09" * 20),
        )

    async def letter(self) -> str:
        return await self.dead_letter_service.die(self.original)

    def status(self) -> LetterStatus:
        return self.dead_letter_service.dead_letters.dead_letters()[0].status


def said(record: LogRecord, name: str) -> str:
    assert record.document is not None
    return str(record.document[name])


async def test_re_issue_is_one_new_message_naming_the_old() -> None:
    dead_letter_queue = Office()
    event_id = await dead_letter_queue.letter()
    for other in (STRANGER, OPERATOR):
        with pytest.raises(DecisionError, match="only sender"):
            await dead_letter_queue.review.decide(event_id, Decision.RETRY, "because", sender=other)
    assert dead_letter_queue.chains[ALPHA].sent == []
    record = await dead_letter_queue.review.decide(event_id, Decision.RETRY, "because", sender=SENDER)
    (new,) = dead_letter_queue.chains[ALPHA].sent
    assert (new.replaces, new.payload, new.recipient) == (
        dead_letter_queue.original.id,
        dead_letter_queue.original.payload,
        dead_letter_queue.original.recipient,
    )
    assert new.sender == dead_letter_queue.original.sender
    assert said(record, "newMessageId") == f"0x{new.id.hex()}" != f"0x{dead_letter_queue.original.id.hex()}"
    assert happened(record).endswith(f"because; the new message is 0x{new.id.hex()}"), "an operator wants to follow it"
    assert dead_letter_queue.status() is LetterStatus.RETRY_QUEUED
    await dead_letter_queue.review.decide(
        event_id, Decision.RETRY, "a crash came before it was recorded", sender=SENDER
    )
    assert dead_letter_queue.chains[ALPHA].sent == [new]


async def test_re_issue_keeps_the_request_and_prefers_other_gmps() -> None:
    dead_letter_queue = Office(wormhole={"chainId": 10_001, "core": CONTRACTS["mailbox"]})
    review, chain, sender = dead_letter_queue.review, dead_letter_queue.chains[ALPHA], to_bytes32(SENDER.address)
    asked: dict[str, Any] = {"sender": sender, "kind": Kind.STATE_SYNC, "ttl": 600, "gas_limit": 77_000}
    for quorum, named in ((2, None), (1, None), (1, [Gmp.HYPERLANE])):
        dead_letter_queue.original = message(10 + len(chain.sent), quorum=quorum, **asked)
        event_id = await dead_letter_queue.letter()
        await review.decide(event_id, Decision.RETRY, "because", sender=SENDER, gmps=named)
        new, old = chain.sent[-1], dead_letter_queue.original
        changed: dict[str, Any] = {"nonce": new.nonce, "replaces": old.id, "sent_at": new.sent_at}
        changed |= {"source_router": new.source_router, "destination_router": new.destination_router}
        assert new == replace(old, **changed)
        assert new.id != old.id
    assert chain.gmps == [[Gmp.WORMHOLE, Gmp.HYPERLANE], [Gmp.WORMHOLE], [Gmp.HYPERLANE]]


async def test_contract_re_issues_by_itself() -> None:
    dead_letter_queue = Office()
    event_id = await dead_letter_queue.letter()
    review, chain = dead_letter_queue.review, dead_letter_queue.chains[ALPHA]
    with pytest.raises(DecisionError, match="no key is given; if the sender is a contract"):
        await review.decide(event_id, Decision.RETRY, "because", sender=None)
    assert (chain.sent, dead_letter_queue.status()) == ([], LetterStatus.PENDING_REVIEW)
    original = dead_letter_queue.original
    request = RouteRequest(
        destination=BETA,
        recipient=from_bytes32(original.recipient),
        payload=original.payload,
        gmps=["hyperlane"],
        quorum=original.quorum,
        gas_limit=original.gas_limit,
        ttl=original.ttl,
        kind=original.kind,
        replaces=original.id,
        check_recipient=False,
    )
    await dead_letter_queue.client.route(ALPHA, request)
    (new,) = chain.sent
    assert (new.replaces, new.sender) == (dead_letter_queue.original.id, dead_letter_queue.original.sender)
    record = await review.decide(event_id, Decision.RETRY, "because", sender=None)
    assert (said(record, "newMessageId"), chain.sent) == (f"0x{new.id.hex()}", [new])
    assert dead_letter_queue.status() is LetterStatus.RETRY_QUEUED


async def test_second_re_issue_names_the_first_message() -> None:
    dead_letter_queue = Office()
    await dead_letter_queue.review.decide(await dead_letter_queue.letter(), Decision.RETRY, "because", sender=SENDER)
    (second,) = dead_letter_queue.chains[ALPHA].sent
    letter_of_second = await dead_letter_queue.dead_letter_service.die(second)
    for reason in ("it died as well", "a crash came before it was recorded"):
        record = await dead_letter_queue.review.decide(letter_of_second, Decision.RETRY, reason, sender=SENDER)
        assert [one.replaces for one in dead_letter_queue.chains[ALPHA].sent] == [dead_letter_queue.original.id] * 2
        third = dead_letter_queue.chains[ALPHA].sent[-1]
        assert said(record, "newMessageId") == f"0x{third.id.hex()}" != f"0x{second.id.hex()}"


async def test_re_issued_message_is_not_delivered_beside_its_successor() -> None:
    dead_letter_queue = Office()
    review, service = dead_letter_queue.review, dead_letter_queue.dead_letter_service
    service.observe(dead_letter_queue.original, gmps=(Gmp.HYPERLANE, Gmp.WORMHOLE))
    ids = [(await service.mark_dead(entry), entry.event_id)[1] for entry in service.claim(limit=2)]
    assert len(ids) == 2
    drafted = [signed(await review.draft(one, Decision.REQUEUE, "early", OPERATOR.address), OPERATOR) for one in ids]
    await review.decide(ids[0], Decision.RETRY, "because", sender=SENDER)
    (new,) = dead_letter_queue.chains[ALPHA].sent
    follow = f"re-issued as 0x{new.id.hex()}, so it can't be requeued.*`waybill message show 0x{new.id.hex()}`"
    for event_id, document in zip(ids, drafted, strict=True):
        with pytest.raises(DecisionError, match=follow):
            await review.decide(event_id, Decision.REQUEUE, "the gateway is back")
        with pytest.raises(DecisionError, match=follow):
            await review.record(document, KeySealer(OPERATOR), 0)
        opened = await review.open(event_id)
        assert opened.analysis.would_succeed == f"not to be tried: the message was re-issued as 0x{new.id.hex()}"
        assert opened.analysis.suggestion.startswith(f"follow the new message: `waybill message show 0x{new.id.hex()}`")
        assert "requeue" not in [act.kind for act in letter_acts(opened.letter, opened.analysis)]
    assert {one.state for one in service.store.outbox.entries(dead_letter_queue.original.id)} == {OutboxState.DEAD}
    await review.decide(ids[1], Decision.ABANDON, "the new one arrived")


async def test_unreadable_letter_can_be_abandoned_or_escalated() -> None:
    dead_letter_queue = Office()
    service, review = dead_letter_queue.dead_letter_service, dead_letter_queue.review
    service.observe(dead_letter_queue.original)
    (entry,) = service.claim()
    await service.mark_dead(replace(entry, dispatch=replace(entry.dispatch, envelope=entry.dispatch.envelope[:20])))
    for unreadable in (review.open(entry.event_id), review.decide(entry.event_id, Decision.RETRY, "because")):
        with pytest.raises(DecisionError, match=r"can't be read: .*the header alone takes 239.*waybill dlq export"):
            await unreadable
    await review.decide(entry.event_id, Decision.GOVERNANCE_ESCALATION, "the store was damaged")
    (proposal,) = dead_letter_queue.chains[ALPHA].sent
    assert dead_letter_queue.original.id in proposal.payload
    record = await review.decide(entry.event_id, Decision.ABANDON, "the store was damaged")
    assert (said(record, "sender"), said(record, "senderNotice")) == ("None", "None")
    assert dead_letter_queue.status() is LetterStatus.ABANDONED


async def test_cancellation_is_not_taken_for_a_re_issue() -> None:
    dead_letter_queue = Office()
    sent = dead_letter_queue.chains[ALPHA].sent
    cancellation = cancellation_of(dead_letter_queue.original)
    sent.append(replace(cancellation, nonce=99))
    record = await dead_letter_queue.review.decide(
        await dead_letter_queue.letter(), Decision.RETRY, "it was cancelled too late", sender=SENDER
    )
    assert [one.kind for one in sent] == [Kind.CANCELLATION, Kind.PLAIN]
    assert said(record, "newMessageId") == f"0x{sent[1].id.hex()}"


async def test_strangers_message_is_not_taken_for_a_re_issue() -> None:
    dead_letter_queue = Office()
    sent, original = dead_letter_queue.chains[ALPHA].sent, dead_letter_queue.original
    sent.append(replace(original, nonce=99, sender=to_bytes32(STRANGER.address), replaces=original.id))
    record = await dead_letter_queue.review.decide(
        await dead_letter_queue.letter(), Decision.RETRY, "because", sender=SENDER
    )
    assert [one.sender for one in sent] == [to_bytes32(STRANGER.address), original.sender]
    assert said(record, "newMessageId") == f"0x{sent[1].id.hex()}"


@pytest.mark.parametrize("is_contract", [True, False])
async def test_abandoning_tells_a_sender_that_can_be_told(is_contract: bool) -> None:
    dead_letter_queue = Office()
    event_id = await dead_letter_queue.letter()
    if is_contract:
        dead_letter_queue.chains[ALPHA].contracts.add(SENDER.address)
    record = await dead_letter_queue.review.decide(event_id, Decision.ABANDON, "the recipient is retired")
    told = dead_letter_queue.chains[BETA].sent
    assert dead_letter_queue.status() is LetterStatus.ABANDONED
    if not is_contract:
        assert (told, said(record, "senderNotice")) == ([], "None")
        return
    (notice,) = told
    assert (notice.kind, notice.destination_chain) == (Kind.ACK, ALPHA)
    assert notice.recipient == dead_letter_queue.original.sender
    assert dead_letter_queue.original.id in notice.payload
    assert said(record, "senderNotice") == f"0x{notice.id.hex()}"


async def test_escalation_sends_a_proposal_and_stays_open() -> None:
    dead_letter_queue = Office()
    record = await dead_letter_queue.review.decide(
        await dead_letter_queue.letter(), Decision.GOVERNANCE_ESCALATION, "every message dies"
    )
    (proposal,) = dead_letter_queue.chains[ALPHA].sent
    assert (proposal.kind, proposal.destination_chain) == (Kind.GOVERNANCE_PROPOSAL, BETA)
    assert said(record, "governanceMessageId") == f"0x{proposal.id.hex()}"
    assert dead_letter_queue.status() is LetterStatus.PENDING_REVIEW


async def test_requeue_reopens_the_delivery_and_may_repeat() -> None:
    dead_letter_queue = Office()
    event_id = await dead_letter_queue.letter()
    for _ in range(2):
        await dead_letter_queue.review.decide(event_id, Decision.REQUEUE, "the gateway is back")
        dead_letter_queue.dead_letter_service.clock.time += 1
        entry = dead_letter_queue.dead_letter_service.store.outbox.entry(event_id)
        assert entry is not None
        assert (entry.state, entry.failed_tries) == (OutboxState.PENDING, 0)
    assert dead_letter_queue.status() is LetterStatus.RETRY_QUEUED


@pytest.mark.parametrize(
    ("operator", "why"), [(STRANGER, "is not an operator on chain"), (None, "needs the operator's key")]
)
async def test_only_an_operator_decides_before_anything_is_sent(operator: object, why: str) -> None:
    dead_letter_queue = Office(operator)
    event_id = await dead_letter_queue.letter()
    for decision in Decision:
        with pytest.raises(DecisionError, match=why):
            await dead_letter_queue.review.decide(event_id, decision, "because", sender=SENDER)
    assert [chain.sent for chain in dead_letter_queue.chains.values()] == [[], []]
    assert len(dead_letter_queue.dead_letter_service.dead_letters.records()) == 1
    assert (await dead_letter_queue.review.open(event_id)).analysis.permanent.startswith("transient")


async def test_former_operator_can_not_record_a_draft() -> None:
    dead_letter_queue = Office()
    event_id, review = await dead_letter_queue.letter(), dead_letter_queue.review
    drafted = await review.draft(event_id, Decision.ABANDON, "because", OPERATOR.address)
    dead_letter_queue.chains[ALPHA].owner = STRANGER.address
    with pytest.raises(DecisionError, match="is not an operator on chain"):
        await review.record(signed(drafted, OPERATOR), KeySealer(OPERATOR), 0)
    assert dead_letter_queue.status() is LetterStatus.PENDING_REVIEW


async def test_nobody_but_the_owner_decides_as_governance() -> None:
    dead_letter_queue = Office()
    event_id, review = await dead_letter_queue.letter(), dead_letter_queue.review
    drafted = await review.draft(event_id, Decision.ABANDON, "because", GOVERNANCE)
    assert drafted["decisionAccount"] == OPERATOR.address
    with pytest.raises(DecisionError, match=f"GOVERNANCE is {OPERATOR.address}"):
        await review.prepare(event_id, Decision.ABANDON, "because", Maker(GOVERNANCE, STRANGER.address))
    forged = signed(drafted | {"decisionAccount": STRANGER.address}, STRANGER)
    with pytest.raises(DecisionError, match=f"GOVERNANCE is {OPERATOR.address}"):
        await review.record(forged, KeySealer(STRANGER), 0)
    assert dead_letter_queue.status() is LetterStatus.PENDING_REVIEW


async def test_opened_letter_is_analysed_with_its_neighbours() -> None:
    dead_letter_queue = Office()
    dead_letter_queue.original = replace(dead_letter_queue.original, ttl=600)
    event_id = await dead_letter_queue.letter()
    beta, review = dead_letter_queue.chains[BETA], dead_letter_queue.review
    alone = (await review.open(event_id)).analysis
    assert alone.systemic.startswith("isolated: ")
    assert alone.would_succeed.startswith("yes, once the cause is gone")
    for nonce in (11, 12, 13):
        await dead_letter_queue.dead_letter_service.die(message(nonce))
    assert (await review.open(event_id)).analysis.systemic.startswith("systemic: ")
    beta.time = dead_letter_queue.original.sent_at + 601
    assert (await review.open(event_id)).analysis.would_succeed.startswith("no: the message has expired")
    beta.execution = 1
    assert (await review.open(event_id)).analysis.would_succeed.startswith("not needed: the message was executed")
