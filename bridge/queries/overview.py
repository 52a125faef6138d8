"""Summarises a network: chains, queues, lanes, breakers, retries, messages and state changes."""

from __future__ import annotations

from typing import Any, Final

from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.indexed import Index
from bridge.protocol.times import iso, iso_milliseconds
from bridge.queries.lanes import GmpPause, chain_name, lane_change_value, lane_name, queue_value
from bridge.records.jobs import UNRESOLVED, RetryJob, SyncJob, SyncState, totals
from bridge.records.streams import StreamStatus
from bridge.relayer.breaker import BREAKER, breakers
from bridge.store import Store

_PENDING_SHOWN: Final = 100
"""State changes that are not applied yet, in one answer."""


def chain_value(deployed: ChainDeployment, head: int | None, indexed: int | None, error: str | None) -> dict[str, Any]:
    """Returns the state of a chain, for JSON.

    Args:
        deployed: the chain.
        head: the chain's newest block; None if the chain does not respond.
        indexed: the last block that the index has read; None if there is none.
        error: the reason why the chain does not respond.
    """
    return {
        "name": deployed.name,
        "chainId": deployed.chain_id,
        "head": head,
        "indexed": indexed,
        "blocksBehind": max(0, head - indexed) if head is not None and indexed is not None else None,
        "error": error,
    }


def overview_value(deployment: Deployment, store: Store | None, index: Index | None, now: float) -> dict[str, Any]:
    """Returns the records of relayer and index about a network, for JSON.

    Args:
        deployment: the network.
        store: the relayer's store; None if there is none.
        index: the index; None if there is none.
        now: Unix seconds.
    """
    found = breakers(store.figures.recent(now - BREAKER.memory)) if store else {}
    return {
        "outbox": [queue_value(count, deployment) for count in store.outbox.counts()] if store else [],
        "lanes": [lane_change_value(change, deployment) for change in store.lanes.held()] if store else [],
        "breakers": [
            {
                "gmp": gmp.label,
                "destination": chain_name(deployment, destination),
                "state": one.state(now).value,
                "failures": one.failures,
                "probesAt": iso(one.probes_at),
            }
            for (gmp, destination), one in sorted(found.items())
        ],
        "retries": dict(totals(store.jobs.counts(RetryJob))) if store else {},
        "messages": {state.value: count for state, count in index.counts_by_status().items()} if index else {},
    }


def pause_value(pause: GmpPause, deployment: Deployment) -> dict[str, Any]:
    """Returns a pause of a GMP on a chain, for JSON."""
    return {"gmp": pause.gmp.label, "chain": chain_name(deployment, pause.chain_id), "until": iso(pause.until)}


def sync_value(deployment: Deployment, store: Store) -> dict[str, Any]:
    """Returns each lane's last heartbeat, and the state changes that are not applied yet, for JSON."""
    return {
        "lanes": [
            {
                "lane": lane_name(deployment, one.lane.source_chain, one.lane.destination_chain),
                "at": iso(one.at),
                "primaryFinal": one.progress.primary_final,
                "applied": one.progress.applied,
                "lagSeconds": one.progress.lag_seconds,
                "signer": one.signer,
            }
            for one in store.finality_records.heartbeats()
        ],
        "pending": [change_value(one) for one in store.jobs.listed(SyncJob, UNRESOLVED, _PENDING_SHOWN)],
    }


def change_value(job: SyncJob) -> dict[str, Any]:
    """Returns a state change with its primary record, for JSON."""
    return {
        **job.record.document,
        "finalAt": iso_milliseconds(job.record.final_at),
        "state": job.state.value,
        "propagations": job.tries,
        "problem": job.outcome,
        "next": f"waybill message retry 0x{job.message_id.hex()}" if job.state is SyncState.DIVERGED else None,
    }


def stream_value(found: StreamStatus, now: float) -> dict[str, Any]:
    """Returns the progress of the streams to Kafka, for JSON; `now` is in Unix seconds."""
    return {
        "recording": found.recording,
        "waiting": found.waiting,
        "oldestSeconds": None if found.oldest is None else max(0.0, now - found.oldest),
        "version": found.version,
        "sent": dict(found.sent),
        "publishedBy": found.holder,
        "halted": found.halted or None,
        "error": found.error or None,
    }
