"""Finds a message wherever it is known: in the relayer's store, or on the chains."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

from bridge.cli.open_stores import index_if_any, open_relayer_store
from bridge.cli.workspace import Workspace
from bridge.client import Client, Created, UnknownMessageError
from bridge.domain.guarantee import AssetClass, DeliveryGuarantee, ttl_violation
from bridge.domain.jobs import ExecutionJob, RetryJob
from bridge.domain.outbox import OutboxEntry
from bridge.domain.ports import Block
from bridge.domain.spending import Held
from bridge.evm.chain import EvmChain
from bridge.evm.routers import Progress, RouterReader, Verdict, readers_of
from bridge.protocol.deployment import Deployment
from bridge.protocol.indexed import ChainRecord, DivergenceRecord, MessageRecord, PausedThing, PauseRecord
from bridge.protocol.message import Kind, Message
from bridge.protocol.status import Status
from bridge.queries import Circumstances, Standing, expiry_of, next_action
from bridge.queries.explain import Explanation, IndexView, explain, lag_of
from bridge.service.connections import connected
from bridge.store import may_exist, open_dead_letters


@dataclass(frozen=True, slots=True)
class Found:
    """A message, and where it is."""

    deployment: Deployment
    message: Message
    explanation: Explanation
    guarantee: DeliveryGuarantee  # that a relayer with this workspace's settings keeps
    ttl_violation: AssetClass | None  # the class of assets whose minimum TTL it was routed below
    id_matches: bool
    divergences: Sequence[DivergenceRecord]  # what contradicts about it, as the index found


async def look_up(workspace: Workspace, message_id: bytes, chains: Mapping[int, EvmChain] | None = None) -> Found:
    """Asks chains, relayer and index about a message. Relayer and index need not run, nor have run.

    Args:
        workspace: the network.
        message_id: of the message.
        chains: the network's, by id; None connects to them for this answer.

    Raises:
        UnknownMessageError: no chain of the network has created it.
    """
    deployment, settings = workspace.deployment(), workspace.settings()
    relayed, indexed = await asyncio.to_thread(_from_stores, workspace, message_id)
    async with _asked(workspace, chains) as asked:
        client = Client(deployment, asked)
        known = relayed.message
        created = (
            Created(known, unfunded=False, retriable=relayed.retriable) if known else await client.created(message_id)
        )
        message = created.message
        routers = readers_of(deployment, asked)
        router = await _ask(routers[message.destination_chain], message)
        ends = (message.source_chain, message.destination_chain)
        heads = {chain_id: await asked[chain_id].head() for chain_id in ends}
        circumstances = await _circumstances(
            routers[message.source_chain], created, router, indexed, relayed=relayed, heads=heads
        )
        lags = [
            lag_of(indexed.chains[chain_id], head) for chain_id, head in heads.items() if chain_id in indexed.chains
        ]
    record = indexed.record
    explanation = explain(
        message,
        receipts=router.progress.receipts,
        executed=router.progress.executed,
        outcome=router.progress.outcome or (Status.EXPIRED if router.is_expired else None),
        needed=router.needed,
        refusal=router.refusal,
        unfunded=created.unfunded,
        circumstances=circumstances,
        index=IndexView.of(record) if record else None,
        entries=relayed.entries,
        retries=relayed.retries,
        execution=relayed.execution,
        held=relayed.held,
        lags=[lag for lag in lags if lag],
        now=time.time(),
    )
    return Found(
        deployment,
        message,
        explanation,
        settings.guarantee(message),
        ttl_violation(message, settings.classes(deployment)),
        id_matches=message.id == message_id,
        divergences=indexed.divergences,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """A message that no chain of the network has created, though an index or a router has something to say of it."""

    message_id: bytes
    status: Status
    reason: str
    divergences: Sequence[DivergenceRecord]

    @property
    def next_action(self) -> str:
        """What to do about it."""
        return next_action(Standing(status=self.status, kind=Kind.PLAIN), self.message_id)


async def look_up_any(
    workspace: Workspace, message_id: bytes, chains: Mapping[int, EvmChain] | None = None
) -> Found | Unsent:
    """As `look_up`, and what index and routers say of an id that no chain has created.

    Args:
        workspace: the network.
        message_id: of the message.
        chains: the network's, by id; None connects to them for this answer.

    Raises:
        UnknownMessageError: neither a chain nor the index knows it.
    """
    try:
        return await look_up(workspace, message_id, chains)
    except UnknownMessageError:
        unsent = await _unsent(workspace, message_id, chains)
        if unsent is None:
            raise
        return unsent


def _asked(
    workspace: Workspace, chains: Mapping[int, EvmChain] | None
) -> AbstractAsyncContextManager[Mapping[int, EvmChain]]:
    """The chains to ask: those given, or connections for one answer."""
    return connected(workspace.deployment(), workspace.settings()) if chains is None else nullcontext(chains)


async def _unsent(workspace: Workspace, message_id: bytes, chains: Mapping[int, EvmChain] | None) -> Unsent | None:
    deployment = workspace.deployment()
    indexed = await asyncio.to_thread(_from_index, workspace, message_id)
    async with _asked(workspace, chains) as asked:
        routers = readers_of(deployment, asked)
        ended = {chain: (await router.progress(message_id)).outcome for chain, router in routers.items()}
    names = [deployment.chain(chain).name for chain, outcome in ended.items() if outcome is Status.EXECUTED]
    if indexed.record is None and not names:
        return None
    contradicted = names or any(one.contradicts_message for one in indexed.divergences)
    said = f"{' and '.join(names)} says that it was executed" if names else "the index knows it from its destination"
    return Unsent(
        message_id=message_id,
        status=Status.DIVERGED if contradicted else Status.UNKNOWN,
        reason=f"{said}, and no chain of the network has created it",
        divergences=indexed.divergences,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the destination's router says of a message now."""

    progress: Progress
    needed: int | None  # receipts that it asks for; None if it does not say
    refusal: str | None  # why the recipient does not take it
    is_expired: bool
    paused_until: int


async def _ask(router: RouterReader, message: Message) -> _Asked:
    progress = await router.progress(message.id)
    trial = await router.try_execution(message)
    needed = len(progress.receipts) + trial.missing if trial.missing is not None else None
    return _Asked(
        progress=progress,
        needed=needed,
        refusal=trial.why if trial.verdict is Verdict.REFUSED else None,
        is_expired=not progress.ended and await router.is_expired(message.source_chain, message),
        paused_until=await router.paused_until(PausedThing.LANE, message.source_chain),
    )


async def _circumstances(
    source: RouterReader,
    created: Created,
    router: _Asked,
    indexed: _Indexed,
    *,
    relayed: _Relayed,
    heads: Mapping[int, Block],
) -> Circumstances:
    """What decides about the acts: the routers' own word, and of the rest what index and relayer know."""
    message = created.message
    source_paused = await source.paused_until(PausedThing.LANE, message.destination_chain)
    retriable = created.retriable
    if retriable is None:
        retriable = indexed.record.retriable if indexed.record else None
    cancellation = indexed.record.cancellation_id if indexed.record else None
    return Circumstances(
        retriable=retriable,
        is_ended=router.progress.ended,
        is_cancelling=cancellation is not None
        or (retriable is not False and await source.retry_refusal(message) == "AlreadyCancelled"),
        cancellation=cancellation,
        source_expired=await source.is_expired(message.destination_chain, message),
        source_paused_until=_if_later(source_paused, heads[message.source_chain]),
        destination_paused_until=_if_later(router.paused_until, heads[message.destination_chain]),
        has_letter=relayed.has_letter,
        replaced_by=indexed.record.replaced_by if indexed.record else None,
        expiry=expiry_of(message, indexed.pauses),
    )


def _if_later(pause_end: int, head: Block) -> int | None:
    """The end of a pause, if it is one of the future: by the wall clock, or by a chain whose clock is ahead of it."""
    return pause_end if pause_end > max(time.time(), head.timestamp) else None


@dataclass(frozen=True, slots=True)
class _Relayed:
    """What the relayer's store has of a message."""

    message: Message | None = None
    entries: Sequence[OutboxEntry] = ()
    retries: Sequence[RetryJob] = ()
    execution: ExecutionJob | None = None
    held: Sequence[Held] = ()
    has_letter: bool = False
    retriable: bool | None = None


def _from_stores(workspace: Workspace, message_id: bytes) -> tuple[_Relayed, _Indexed]:
    return _from_relayer(workspace, message_id), _from_index(workspace, message_id)


def _from_relayer(workspace: Workspace, message_id: bytes) -> _Relayed:
    has_letter = _has_letter(workspace, message_id)
    with open_relayer_store(workspace) as store:
        if store is None:
            return _Relayed(has_letter=has_letter)
        observed = store.observations.message(message_id)
        attempts = store.observations.attempts(message_id)
        return _Relayed(
            observed.message if observed else None,
            store.outbox.entries(message_id),
            store.jobs.of_message(RetryJob, message_id),
            store.jobs.newest(ExecutionJob, message_id),
            store.spending.held(message_id),
            has_letter,
            next((one.retriable for one in attempts if one.retriable is not None), None),
        )


def _has_letter(workspace: Workspace, message_id: bytes) -> bool:
    settings = workspace.settings()
    url = settings.dlq.url or settings.store
    if not may_exist(url):
        return False
    log = open_dead_letters(url)
    try:
        return bool(log.dead_letters(message_id=message_id))
    finally:
        log.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Indexed:
    """What the index has of a message, and of its chains."""

    record: MessageRecord | None = None
    divergences: Sequence[DivergenceRecord] = ()
    pauses: Sequence[PauseRecord] = ()  # of the destination
    chains: Mapping[int, ChainRecord] = field(default_factory=dict)


def _from_index(workspace: Workspace, message_id: bytes) -> _Indexed:
    with index_if_any(workspace) as index:
        if index is None:
            return _Indexed()
        record = index.message(message_id)
        destination = record.destination_chain if record else None
        return _Indexed(
            record=record,
            divergences=index.divergences_of(message_id),
            pauses=index.pauses(destination) if destination is not None else (),
            chains={chain.chain_id: chain for chain in index.chains()},
        )
