"""Finds a message wherever it is known: in the relayer's store, or on the chains."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from bridge.cli.open_stores import index_if_any, open_letters, open_relayer_store
from bridge.cli.workspace import Workspace
from bridge.client import Client, Created, UnknownMessageError
from bridge.domain.guarantee import AssetClass, DeliveryGuarantee, IdempotencyStrategy, ttl_violation
from bridge.domain.ports import Block
from bridge.evm.chain import EvmChain
from bridge.evm.routers import Progress, RouterReader, Verdict, readers_of
from bridge.protocol.deployment import Deployment
from bridge.protocol.indexed import PausedThing
from bridge.protocol.message import Message
from bridge.protocol.status import Status
from bridge.queries import Circumstances, expiry_of
from bridge.queries.explain import Explanation, Kept, explain, explain_unsent, lag_of, read_kept
from bridge.queries.messages import explanation_value
from bridge.relayer.sender_choices import SenderChoices
from bridge.service.connections import connected


@dataclass(frozen=True, slots=True)
class Found:
    """A message, and where it is."""

    deployment: Deployment
    message: Message
    explanation: Explanation
    guarantee: DeliveryGuarantee  # that a relayer with this workspace's settings keeps
    ttl_violation: AssetClass | None  # the class of assets whose minimum TTL it was routed below
    id_matches: bool

    def value(self) -> dict[str, Any]:
        """For JSON."""
        return explanation_value(self.explanation, self.guarantee, self.ttl_violation)


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message that no chain of the network has created, though an index or a router has something to say of it."""

    explanation: Explanation

    def value(self) -> dict[str, Any]:
        """For JSON."""
        return explanation_value(self.explanation)


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
    kept = await asyncio.to_thread(_kept, workspace, message_id)
    async with _asked(workspace, chains) as asked:
        client = Client(deployment, asked)
        created = (
            Created(kept.relayed, unfunded=False, retriable=kept.retriable)
            if kept.relayed
            else await client.created(message_id)
        )
        message = created.message
        routers = readers_of(deployment, asked)
        router = await _ask(routers[message.destination_chain], message)
        ends = (message.source_chain, message.destination_chain)
        heads = {chain_id: await asked[chain_id].head() for chain_id in ends}
        circumstances = await _circumstances(routers[message.source_chain], created, router, kept, heads)
        choices = SenderChoices(deployment, asked, settings.sender_choices.bounds(), settings.choices())
        chosen = await choices.of(message)
        lags = [lag_of(kept.chains[chain_id], head) for chain_id, head in heads.items() if chain_id in kept.chains]
    explanation = explain(
        message,
        kept,
        receipts=router.progress.receipts,
        executed=router.progress.executed,
        outcome=router.progress.outcome or (Status.EXPIRED if router.is_expired else None),
        needed=router.needed,
        refusal=router.refusal,
        unfunded=created.unfunded,
        circumstances=circumstances,
        usable=deployment.gmps_between(*ends),
        lags=[lag for lag in lags if lag],
        now=time.time(),
    )
    return Found(
        deployment,
        message,
        explanation,
        settings.guarantee(message, router.guards, chosen),
        ttl_violation(message, settings.classes(deployment)),
        id_matches=message.id == message_id,
    )


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
    kept = await asyncio.to_thread(_kept, workspace, message_id)
    async with _asked(workspace, chains) as asked:
        routers = readers_of(deployment, asked)
        ended = {chain: (await router.progress(message_id)).outcome for chain, router in routers.items()}
    names = [deployment.chain(chain).name for chain, outcome in ended.items() if outcome is Status.EXECUTED]
    if kept.record is None and not names:
        return None
    return Unsent(explain_unsent(message_id, kept, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the destination's router says of a message now."""

    progress: Progress
    needed: int | None  # receipts that it asks for; None if it does not say
    refusal: str | None  # why the recipient does not take it
    is_expired: bool
    paused_until: int
    guards: frozenset[IdempotencyStrategy]


async def _ask(router: RouterReader, message: Message) -> _Asked:
    progress = await router.progress(message.id)
    trial = await router.try_execution(message)
    needed = len(progress.receipts) + trial.missing if trial.missing is not None else None
    return _Asked(
        progress=progress,
        needed=needed,
        refusal=trial.why if trial.verdict in (Verdict.REFUSED, Verdict.REJECTED) else None,
        is_expired=not progress.ended and await router.is_expired(message.source_chain, message),
        paused_until=await router.paused_until(PausedThing.LANE, message.source_chain),
        guards=await router.guards(message),
    )


async def _circumstances(
    source: RouterReader,
    created: Created,
    router: _Asked,
    kept: Kept,
    heads: Mapping[int, Block],
) -> Circumstances:
    """What decides about the acts: the routers' own word, and of the rest what index and relayer know."""
    message = created.message
    source_paused = await source.paused_until(PausedThing.LANE, message.destination_chain)
    retriable, record = created.retriable, kept.record
    if retriable is None:
        retriable = record.retriable if record else None
    cancellation = record.cancellation_id if record else None
    return Circumstances(
        retriable=retriable,
        is_ended=router.progress.ended,
        is_cancelling=cancellation is not None
        or (retriable is not False and await source.retry_refusal(message) == "AlreadyCancelled"),
        cancellation=cancellation,
        source_expired=await source.is_expired(message.destination_chain, message),
        source_paused_until=_if_later(source_paused, heads[message.source_chain]),
        destination_paused_until=_if_later(router.paused_until, heads[message.destination_chain]),
        has_letter=bool(kept.dead_letters),
        replaced_by=record.replaced_by if record else None,
        expiry=expiry_of(message, kept.pauses.get(message.destination_chain, ())),
    )


def _if_later(pause_end: int, head: Block) -> int | None:
    """The end of a pause, if it is one of the future: by the wall clock, or by a chain whose clock is ahead of it."""
    return pause_end if pause_end > max(time.time(), head.timestamp) else None


def _kept(workspace: Workspace, message_id: bytes) -> Kept:
    with (
        open_relayer_store(workspace) as store,
        index_if_any(workspace) as index,
        open_letters(workspace.settings()) as dead_letters,
    ):
        return read_kept(message_id, index, store, dead_letters)
