"""Looks up a message in the relayer's store, in the index, and on the chains."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from bridge.cli.workspace import Workspace
from bridge.client import Client, Created, UnknownMessageError
from bridge.evm.chain import EvmChain
from bridge.evm.routers import Progress, RouterReader, TrialResult, readers_of
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import AssetClass, IdempotencyStrategy, MessagePolicy, policy_of, ttl_violation
from bridge.protocol.indexed import PausedThing
from bridge.protocol.message import Kind, Message
from bridge.protocol.ports import Block, TransientError
from bridge.protocol.status import Status
from bridge.queries.advice import Circumstances
from bridge.queries.explain import (
    Explanation,
    Stored,
    explain,
    explain_unsent,
    read_stored,
    stored_circumstances,
    stored_pauses,
    unknown_without,
)
from bridge.queries.index_lag import IndexLag
from bridge.queries.lanes import GmpPause, gmp_pauses
from bridge.queries.messages import explanation_value
from bridge.relayer.policies import Policies
from bridge.service.connections import connected, newest_blocks


@dataclass(frozen=True, slots=True)
class Found:
    """A message that a chain has created, and its state."""

    deployment: Deployment
    message: Message
    explanation: Explanation
    policy: MessagePolicy  # of a relayer with this workspace's settings
    ttl_violation: AssetClass | None  # the class of assets whose minimum TTL it was routed below
    id_matches: bool
    answering: frozenset[int]  # the chains that were queried and responded

    def value(self) -> dict[str, Any]:
        """Returns the message for JSON."""
        return explanation_value(self.explanation, self.policy, self.ttl_violation)


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message that no chain has created, although the index or a router has data about it."""

    explanation: Explanation

    def value(self) -> dict[str, Any]:
        """Returns the message for JSON."""
        return explanation_value(self.explanation)


async def look_up(workspace: Workspace, message_id: bytes, chains: Mapping[int, EvmChain] | None = None) -> Found:
    """Looks up a message that a chain has created; see `look_up_any`.

    Raises:
        UnknownMessageError: none of the responding chains has created the message.
        TransientError: see `look_up_any`.
    """
    found = await look_up_any(workspace, message_id, chains)
    if isinstance(found, Unsent):
        network = workspace.deployment().network
        raise UnknownMessageError(
            f"no chain in network {network!r} created message 0x{message_id.hex()}: check the id and --network"
        )
    return found


async def look_up_any(
    workspace: Workspace, message_id: bytes, chains: Mapping[int, EvmChain] | None = None
) -> Found | Unsent:
    """Looks up a message on the chains, and in the relayer's store and the index if they exist.

    Skips a chain of the message that does not respond. `Explanation.unknown` then states what is unknown.

    Args:
        workspace: the network's workspace.
        message_id: the message's id.
        chains: connections by chain id; None connects for this call.

    Raises:
        UnknownMessageError: neither a chain nor the index knows the message.
        TransientError: the message was not found, and a chain that may have created it does not respond.
    """
    deployment = workspace.deployment()
    stored = await asyncio.to_thread(_read_stored, workspace, message_id)
    async with _connected(workspace, chains) as all_chains:
        asked = {chain: all_chains[chain] for chain in _to_ask(deployment, stored)}
        heads = await newest_blocks(asked)
        answering = {chain: asked[chain] for chain in heads}
        try:
            created = await _created(Client(deployment, answering), message_id, stored, heads)
        except UnknownMessageError as error:
            unsent = await _unsent(deployment, answering, message_id, stored)
            if unsent is None and len(heads) < len(asked):
                raise TransientError(str(error)) from error
            if unsent is None:
                raise
            return unsent
        return await _found(workspace, message_id, stored, created, answering=answering, heads=heads)


def _connected(
    workspace: Workspace, chains: Mapping[int, EvmChain] | None
) -> AbstractAsyncContextManager[Mapping[int, EvmChain]]:
    """Returns `chains`; if it is None, connects to the network's chains, and closes the connections on exit."""
    if chains is not None:
        return nullcontext(chains)
    return connected(workspace.deployment(), workspace.settings(), eager=False)


def _to_ask(deployment: Deployment, stored: Stored) -> Collection[int]:
    """Returns the message's chains if the relayer has the message, otherwise all chains."""
    message = stored.relayed
    return (message.source_chain, message.destination_chain) if message else [one.chain_id for one in deployment.chains]


async def _created(client: Client, message_id: bytes, stored: Stored, heads: Collection[int]) -> Created:
    """Returns the message from the relayer or its source, or from the index if the source does not respond.

    Raises:
        UnknownMessageError: no responding chain created the message, and neither the relayer nor the index knows it.
    """
    if stored.relayed:
        return Created(stored.relayed, unfunded=False, retriable=stored.retriable)
    try:
        return await client.created(message_id)
    except UnknownMessageError:
        message, record = stored.message, stored.record
        if message is None or record is None or message.source_chain in heads:
            raise
        return Created(message, unfunded=record.status is Status.UNFUNDED, retriable=record.retriable)


async def _found(
    workspace: Workspace,
    message_id: bytes,
    stored: Stored,
    created: Created,
    *,
    answering: Mapping[int, EvmChain],
    heads: Mapping[int, Block],
) -> Found:
    """Combines the state on the message's chains with the records of relayer and index."""
    deployment, settings, now = workspace.deployment(), workspace.settings(), time.time()
    message, routers = created.message, readers_of(deployment, answering)
    ends = (message.source_chain, message.destination_chain)
    source, destination = (routers.get(chain) for chain in ends)
    router = await _ask(destination, answering[message.destination_chain], message) if destination else None
    circumstances = stored_circumstances(message, stored, now)
    if source:
        head = heads[message.source_chain]
        circumstances = replace(circumstances, **await _on_source(source, created, circumstances, head))
    if router:
        paused = _if_later(router.paused_until, heads[message.destination_chain])
        circumstances = replace(circumstances, is_ended=router.progress.ended, destination_paused_until=paused)
    operator, guards = settings.operator_policies(), router.guards if router else frozenset()
    policy = policy_of(message, operator, guards=guards)
    if source:
        policy = await Policies(deployment, answering, operator).of(message, guards)
    lags = [
        IndexLag(name=deployment.chain(chain).name, chain_id=chain, record=stored.chains[chain], head=heads[chain])
        for chain in ends
        if chain in stored.chains and chain in heads
    ]
    silent = {chain: deployment.chain(chain).name for chain in ends if chain not in heads}
    explanation = explain(
        message,
        stored,
        receipts=router.progress.receipts if router else stored.receipts_seen,
        executed=router.progress.executed if router else stored.is_executed,
        outcome=router.outcome if router else None,
        needed=router.needed if router else None,
        refusal=router.refusal if router else None,
        recipient_is_missing=router is not None and not router.has_recipient,
        unfunded=created.unfunded,
        circumstances=circumstances,
        usable=deployment.gmps_between(*ends),
        gmp_pauses=await _gmp_pauses(deployment, {end: answering[end] for end in ends if end in answering}, stored),
        left_out=frozenset(Gmp) - settings.claimable,
        lags=[lag for lag in lags if lag.is_behind(settings.index.max_lag)],
        unknown=unknown_without(message, silent),
        now=now,
    )
    return Found(
        deployment,
        message,
        explanation,
        policy,
        ttl_violation(message, settings.classes(deployment)),
        id_matches=message.id == message_id,
        answering=frozenset(heads),
    )


async def _gmp_pauses(deployment: Deployment, answering: Mapping[int, EvmChain], stored: Stored) -> list[GmpPause]:
    """Returns the GMPs that are paused on a message's chains. For a chain that does not respond, uses the index."""
    found = await asyncio.gather(*(gmp_pauses(deployment.chain(end), chain) for end, chain in answering.items()))
    known = [one for one in stored_pauses(stored, time.time()) if one.chain_id not in answering]
    return [*(one for on_chain in found for one in on_chain), *known]


async def _unsent(
    deployment: Deployment, answering: Mapping[int, EvmChain], message_id: bytes, stored: Stored
) -> Unsent | None:
    """Explains an id that no chain has created, from the records of index and routers.

    Returns None if there are no records.
    """
    routers = readers_of(deployment, answering)
    ended = {chain: (await router.progress(message_id)).outcome for chain, router in routers.items()}
    names = [deployment.chain(chain).name for chain, outcome in ended.items() if outcome is Status.EXECUTED]
    if stored.record is None and not names:
        return None
    source = stored.record.source_chain if stored.record else None
    silent = [one.name for one in deployment.chains if one.chain_id not in answering and source in (None, one.chain_id)]
    return Unsent(explain_unsent(message_id, stored, names, " and ".join(silent) or None))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The state of a message on its destination."""

    progress: Progress
    needed: int | None  # receipts that the router requires; None if unknown
    refusal: str | None  # reason why the recipient rejects it
    has_recipient: bool  # whether the recipient's address has code
    is_expired: bool
    paused_until: int
    guards: frozenset[IdempotencyStrategy]

    @property
    def outcome(self) -> Status | None:
        """Returns the final state, or EXPIRED if the router would accept `expire`; None if the message is open."""
        return self.progress.outcome or (Status.EXPIRED if self.is_expired else None)


async def _ask(router: RouterReader, chain: EvmChain, message: Message) -> _Asked:
    progress = await router.progress(message.id)
    trial = await router.try_execution(message)
    needed = len(progress.receipts) + trial.missing if trial.missing is not None else None
    is_below = len(progress.receipts) < message.quorum and not progress.ended
    if needed is not None and is_below and message.kind < Kind.CANCELLATION:
        # The router reads the recipient's demand only once the message's own quorum is reached.
        demanded = await router.demand(from_bytes32(message.recipient), message.source_chain)
        needed = max(needed, demanded.quorum)
    return _Asked(
        progress=progress,
        needed=needed,
        refusal=trial.why if trial.result in (TrialResult.REFUSED, TrialResult.REJECTED) else None,
        has_recipient=bool(await chain.code(from_bytes32(message.recipient))),
        is_expired=not progress.ended and await router.is_expired(message),
        paused_until=await router.paused_until(PausedThing.LANE, message.source_chain),
        guards=await router.guards(message),
    )


async def _on_source(source: RouterReader, created: Created, known: Circumstances, head: Block) -> dict[str, Any]:
    """Returns the fields of `Circumstances` for which the source router is a better source than index and relayer."""
    message = created.message
    paused = await source.paused_until(PausedThing.LANE, message.destination_chain)
    retriable = known.retriable if created.retriable is None else created.retriable
    return {
        "retriable": retriable,
        "is_cancelling": known.is_cancelling
        or (retriable is not False and await source.retry_refusal(message) == "AlreadyCancelled"),
        "source_expired": await source.is_expired(message),
        "source_paused_until": _if_later(paused, head),
    }


def _if_later(pause_end: int, head: Block) -> int | None:
    """Returns the end of a pause, or None if it is over by the wall clock and by the chain's clock.

    The chain's clock may be ahead.
    """
    return pause_end if pause_end > max(time.time(), head.timestamp) else None


def _read_stored(workspace: Workspace, message_id: bytes) -> Stored:
    with (
        workspace.relayer_store() as store,
        workspace.index_if_any() as index,
        workspace.letters() as dead_letters,
    ):
        return read_stored(message_id, index, store, dead_letters)
