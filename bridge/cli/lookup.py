"""Finds a message wherever it is known: in the relayer's store, or on the chains."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from bridge.chains import EvmChain
from bridge.cli.reading import index_if_any, open_bridge_store
from bridge.cli.workspace import Workspace
from bridge.client import Client, Created
from bridge.connections import connected
from bridge.explanation import Explanation, IndexLag, IndexView, explain, lag_of
from bridge.policies import DeliveryGuarantee
from bridge.policies.asset_classes import AssetClass, undercut
from bridge.ports import Chain
from bridge.protocol.deployment import Deployment
from bridge.protocol.indexed import ChainRecord
from bridge.protocol.message import Message
from bridge.records.executions import AwaitedExecution
from bridge.records.outbox import OutboxEntry
from bridge.records.retries import RetryJob
from bridge.records.spending import Held


@dataclass(frozen=True, slots=True)
class Found:
    """A message, and where it is."""

    deployment: Deployment
    message: Message
    explanation: Explanation
    guarantee: DeliveryGuarantee  # that a relayer with this workspace's settings keeps
    undercut: AssetClass | None  # the class of assets whose minimum TTL it was routed below
    id_matches: bool


async def look_up(workspace: Workspace, message_id: bytes, chains: Mapping[int, EvmChain] | None = None) -> Found:
    """Asks chains, relayer and index about a message. Relayer and index need not run, nor have run.

    Args:
        workspace: the network.
        message_id: of the message.
        chains: the network's, by id; None connects to them for this answer.

    Raises:
        UnknownMessageError: no chain of the network has created it.
    """
    deployment = workspace.deployment()
    relayed = await asyncio.to_thread(_from_relayer, workspace, message_id)
    opened = connected(deployment, workspace.settings()) if chains is None else nullcontext(chains)
    async with opened as asked:
        client = Client(deployment, asked)
        known = relayed.message
        created = Created(known, unfunded=False) if known else await client.created(message_id)
        message = created.message
        reached = await client.progress(message)
        lags = await _lags(workspace, message, asked)
    explanation = explain(
        message,
        receipts=reached.receipts,
        executed=reached.executed,
        unfunded=created.unfunded,
        index=await asyncio.to_thread(_from_index, workspace, message_id),
        entries=relayed.entries,
        retries=relayed.retries,
        execution=relayed.execution,
        held=relayed.held,
        lags=lags,
        now=time.time(),
    )
    settings = workspace.settings()
    return Found(
        deployment,
        message,
        explanation,
        settings.guarantee(message),
        undercut(message, settings.classes(deployment)),
        id_matches=message.id == message_id,
    )


@dataclass(frozen=True, slots=True)
class _Relayed:
    """What the relayer's store has of a message."""

    message: Message | None = None
    entries: Sequence[OutboxEntry] = ()
    retries: Sequence[RetryJob] = ()
    execution: AwaitedExecution | None = None
    held: Sequence[Held] = ()


def _from_relayer(workspace: Workspace, message_id: bytes) -> _Relayed:
    with open_bridge_store(workspace) as store:
        if store is None:
            return _Relayed()
        observed = store.observations.message(message_id)
        return _Relayed(
            observed.message if observed else None,
            store.outbox.entries(message_id),
            store.retries.jobs(message_id),
            store.executions.of_message(message_id),
            store.spending.held(message_id),
        )


async def _lags(workspace: Workspace, message: Message, chains: Mapping[int, Chain]) -> list[IndexLag]:
    def read() -> dict[int, ChainRecord]:
        with index_if_any(workspace) as index:
            return {record.chain_id: record for record in index.chains()} if index else {}

    records = await asyncio.to_thread(read)
    found = [
        lag_of(records[chain_id], await chains[chain_id].head())
        for chain_id in (message.source_chain, message.destination_chain)
        if chain_id in records and chain_id in chains
    ]
    return [lag for lag in found if lag]


def _from_index(workspace: Workspace, message_id: bytes) -> IndexView | None:
    with index_if_any(workspace) as index:
        record = index.message(message_id) if index else None
    if record is None:
        return None
    return IndexView(
        status=record.status,
        dispatched=record.dispatched,
        attempts=record.attempts or 0,
        failure_reason=record.failure_reason or b"",
    )
