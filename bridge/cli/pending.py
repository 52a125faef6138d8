"""State changes that the relayer follows from primary finality to their application, and their reconciliation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from bridge.cli.open_stores import open_relayer_store
from bridge.cli.output import ExitCode, escaped, result
from bridge.cli.workspace import Workspace
from bridge.protocol.deployment import Deployment
from bridge.protocol.times import iso
from bridge.queries.lanes import lane_name
from bridge.records.jobs import UNRESOLVED, SyncJob, SyncState
from bridge.store import Store

_SHOWN: Final = 100  # changes


def sync_value(deployment: Deployment, store: Store) -> dict[str, Any]:
    """Each lane's last heartbeat, and the state changes that are not applied yet, for JSON."""
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
        "pending": [change_value(one) for one in store.jobs.listed(SyncJob, UNRESOLVED, _SHOWN)],
    }


def change_value(job: SyncJob) -> dict[str, Any]:
    """A state change with its primary record, for JSON."""
    return {
        **job.record.document,
        "state": job.state.value,
        "propagations": job.tries,
        "problem": job.outcome,
        "next": f"waybill message retry 0x{job.message_id.hex()}" if job.state is SyncState.DIVERGED else None,
    }


def reconcile(workspace: Workspace, message_id: bytes) -> bool:
    """Reconciles a DIVERGED state change with its primary record, and prints what came of it; says whether it is one.

    Raises:
        SystemExit: the change is still not applied.
    """
    with open_relayer_store(workspace) as store:
        job = store.jobs.newest(SyncJob, message_id) if store else None
    if job is None or job.state is not SyncState.DIVERGED:
        return False

    async def work() -> Mapping[str, Any]:
        async with workspace.open_relayer(workspace.working_settings()) as bridge:
            return change_value(await bridge.reconcile(message_id))

    value = asyncio.run(work())
    text = f"{value['messageId']} is {value['state']}" + (f": {value['problem']}" if value["problem"] else "")
    result(value, render=lambda console: console.print(escaped(text)))
    if value["state"] in UNRESOLVED:
        raise SystemExit(ExitCode.PENDING)
    return True
