"""The backend of the HTTP API: the same answers that the commands give."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from typing import Any

import structlog
from fastapi import FastAPI

from bridge.api.app import DEFAULT_LIMITS, create_app
from bridge.api.backend import BackendError, DeliveryFilter, ErrorCode
from bridge.cli.lookup import look_up_any
from bridge.cli.open_stores import index_if_any
from bridge.cli.output import plain
from bridge.cli.overview import overview
from bridge.cli.workspace import Workspace
from bridge.client import UnknownMessageError
from bridge.dead_letters.decisions import DecisionError
from bridge.dead_letters.review import DeadLetterReview
from bridge.domain.classification import disposition_of
from bridge.domain.dead_letters import DeadLetterLog, LetterStatus
from bridge.domain.lanes import Lane, LaneState
from bridge.domain.outbox import ForbiddenTransitionError, Outbox, OutboxEntry
from bridge.domain.ports import TransientError
from bridge.domain.store import Store
from bridge.domain.ttl_cache import AsyncCached
from bridge.evm.chain import EvmChain
from bridge.metrics import Monitor, RelayerFigures
from bridge.protocol.deployment import Deployment, DeploymentError
from bridge.protocol.gmps import Gmp
from bridge.protocol.status import Status
from bridge.queries.dead_letters import letter_value, opened_value
from bridge.queries.lanes import LaneHaltedError, change_lane, lane_change_value, read_to_value
from bridge.queries.messages import delivery_value, record_value
from bridge.service.connections import connected
from bridge.service.dead_letter_service import open_review
from bridge.service.relayer_service import SystemClock
from bridge.settings import Settings
from bridge.store import open_dead_letters, open_store

_log = structlog.get_logger(__name__)

Retry = Callable[[bytes, tuple[Gmp, ...] | None], Awaitable[dict[str, Any]]]
"""Sends another attempt of a message; raises `BackendError`."""

_STATUS_LASTS = 1.0  # seconds

_AT_ONCE = 4
"""Messages explained at a time: each asks the chains, of which the relayer asks as well."""


@asynccontextmanager
async def opened_backend(
    workspace: Workspace,
    *,
    accounts: Collection[str] = (),
    relayer: Callable[[], Awaitable[RelayerFigures]] | None = None,
    retry: Retry | None = None,
) -> AsyncIterator[WorkspaceBackend]:
    """Opens what the API reads. A chain that is down does not keep it from starting.

    Args:
        workspace: the network.
        accounts: whose balances are metrics.
        relayer: asks the relayer's process for its figures; None where none runs.
        retry: sends another attempt; None where there is no key to do so.

    Raises:
        StoreError: the store can't be opened.
    """
    deployment, settings = workspace.deployment(), workspace.settings()
    async with connected(deployment, settings, eager=False) as chains:
        store = open_store(settings.store)
        dead_letters = open_dead_letters(settings.dlq.url or settings.store)
        try:
            monitor = Monitor(
                deployment,
                chains,
                store,
                SystemClock(),
                settings,
                dead_letters=dead_letters,
                streams=store.streams,
                webhooks=store.webhooks,
                accounts=accounts,
                relayer=relayer,
                index=partial(index_if_any, workspace),
            )
            review = open_review(deployment, chains, store, log=dead_letters, settings=settings, clock=SystemClock())
            yield WorkspaceBackend(
                workspace,
                deployment,
                chains,
                store,
                monitor=monitor,
                review=review,
                dead_letters=dead_letters,
                retry=retry,
            )
        finally:
            dead_letters.close()
            store.close()


def api_of(backend: WorkspaceBackend, settings: Settings) -> FastAPI:
    """The API as these settings want it."""
    return create_app(
        backend,
        token=settings.api_token,
        version=version("waybill"),
        limits=replace(DEFAULT_LIMITS, requests_per_minute=settings.http_requests_per_minute),
    )


class WorkspaceBackend:
    """See `bridge.api.Backend`. Reads the stores in threads, so that a long query does not delay others."""

    def __init__(
        self,
        workspace: Workspace,
        deployment: Deployment,
        chains: Mapping[int, EvmChain],
        store: Store,
        *,
        monitor: Monitor,
        review: DeadLetterReview,
        dead_letters: DeadLetterLog,
        retry: Retry | None,
    ) -> None:
        """Answers about one network.

        Args:
            workspace: its files.
            deployment: its contracts.
            chains: its chains by id.
            store: the relayer's.
            monitor: reads the metrics.
            review: reads dead letters.
            dead_letters: where they are kept.
            retry: sends another attempt; None where there is no key to do so.
        """
        self._workspace = workspace
        self._deployment = deployment
        self._chains = chains
        self._store = store
        self._monitor = monitor
        self._review = review
        self._letters = dead_letters
        self._retry = retry
        self._status = AsyncCached(self._read_status, lasts=_STATUS_LASTS)
        self._explaining = asyncio.Semaphore(_AT_ONCE)

    async def metrics(self) -> bytes:
        """See `Backend.metrics`."""
        return await self._monitor.exposition()

    async def problems(self) -> list[str]:
        """See `Backend.problems`."""
        return await self._monitor.problems()

    async def status(self) -> dict[str, Any]:
        """See `Backend.status`."""
        found = await self._status.look()
        return {"asOf": found.at, **found.value}

    async def _read_status(self) -> dict[str, Any]:
        found = await overview(self._workspace, self._chains)
        for chain in found["chains"]:
            if chain["error"] is not None:
                _log.warning("a chain gives no usable answer", chain=chain["name"], error=chain["error"])
                chain["error"] = "no usable answer"  # the cause names hosts; callers need no token
        return found

    async def messages(self, status: Status | None, limit: int) -> dict[str, Any]:
        """See `Backend.messages`."""

        def read() -> dict[str, Any]:
            now = time.time()
            with index_if_any(self._workspace) as index:
                if index is None:
                    raise BackendError(ErrorCode.UNAVAILABLE, "there is no index yet", "waybill index run")
                chains, found = index.chains(), index.messages(status=status, limit=limit)
            return {
                "asOf": now,
                "chains": [read_to_value(chain, self._deployment) for chain in chains],
                "messages": [record_value(record, self._deployment) for record in found],
            }

        return await asyncio.to_thread(read)

    async def explain(self, message_id: bytes) -> dict[str, Any]:
        """See `Backend.explain`."""
        try:
            async with self._explaining:
                asked = time.time()
                found = (await look_up_any(self._workspace, message_id, self._chains)).value()
        except UnknownMessageError as error:
            raise BackendError(ErrorCode.UNKNOWN_ID, str(error)) from error
        except TransientError as error:
            _log.warning("a message can't be explained", message=f"0x{message_id.hex()}", error=str(error))
            raise BackendError(ErrorCode.UNAVAILABLE, "a chain gives no usable answer", "waybill doctor") from error
        return {"asOf": asked, **_jsonable(found)}

    async def retry(self, message_id: bytes, gmps: Sequence[Gmp] | None) -> dict[str, Any]:
        """See `Backend.retry`."""
        if self._retry is None:
            raise BackendError(
                ErrorCode.FORBIDDEN, "there is no key to retry with here", "waybill relayer run --http HOST:PORT"
            )
        return await self._retry(message_id, None if gmps is None else tuple(gmps))

    async def deliveries(self, asked: DeliveryFilter) -> list[dict[str, Any]]:
        """See `Backend.deliveries`."""
        return [
            delivery_value(entry, self._deployment)
            for entry in await asyncio.to_thread(_listed, self._store.outbox, asked)
        ]

    async def delivery(self, event_id: str) -> dict[str, Any]:
        """See `Backend.delivery`."""
        entry = await asyncio.to_thread(self._store.outbox.entry, event_id)
        if entry is None:
            raise BackendError(ErrorCode.UNKNOWN_ID, f"there is no delivery {event_id!r}", "GET /v1/deliveries")
        failures = await asyncio.to_thread(self._store.outbox.failures, event_id)
        history = [
            {
                "number": recorded.number,
                "at": recorded.failure.at,
                "kind": recorded.failure.kind.value,
                "code": recorded.failure.code,
                "disposition": disposition_of(recorded.failure.code).value,
                "message": recorded.failure.message,
                "worker": recorded.worker,
            }
            for recorded in failures
        ]
        return {**delivery_value(entry, self._deployment), "failures": history}

    async def replay(self, event_id: str, reason: str) -> dict[str, Any]:
        """See `Backend.replay`. A delivery with a dead letter is not reopened here: that is an operator's signed decision."""
        if await asyncio.to_thread(self._letters.letter, event_id) is not None:
            raise BackendError(
                ErrorCode.REFUSED,
                f"delivery {event_id} has a dead letter: an operator decides about it and signs the decision",
                f'waybill dlq requeue {event_id} --rationale "…"',
            )
        try:
            entry = await asyncio.to_thread(self._store.outbox.replay, event_id, reason, time.time())
        except KeyError as error:
            raise BackendError(ErrorCode.UNKNOWN_ID, f"there is no delivery {event_id!r}") from error
        except ForbiddenTransitionError as error:
            raise BackendError(ErrorCode.REFUSED, str(error)) from error
        return delivery_value(entry, self._deployment)

    async def dead_letters(self, status: LetterStatus | None, limit: int) -> list[dict[str, Any]]:
        """See `Backend.letters`."""
        statuses = frozenset(LetterStatus) if status is None else frozenset({status})
        found = await asyncio.to_thread(lambda: self._letters.dead_letters(statuses=statuses, limit=limit))
        return [_jsonable(letter_value(letter)) for letter in found]

    async def letter(self, event_id: str) -> dict[str, Any]:
        """See `Backend.letter`."""
        try:
            return _jsonable(opened_value(await self._review.open(event_id)))
        except KeyError as error:
            raise BackendError(
                ErrorCode.UNKNOWN_ID, f"there is no dead letter {event_id!r}", "GET /v1/dead-letters"
            ) from error
        except DecisionError as error:
            raise BackendError(ErrorCode.REFUSED, str(error)) from error

    async def lanes(self) -> list[dict[str, Any]]:
        """See `Backend.lanes`."""
        return [
            lane_change_value(change, self._deployment) for change in await asyncio.to_thread(self._store.lanes.held)
        ]

    async def change_lane(
        self, source: str, destination: str, state: LaneState, reason: str, by: str
    ) -> dict[str, Any]:
        """See `Backend.change_lane`."""
        try:
            lane = Lane(*(self._deployment.chain(end).chain_id for end in (source, destination)))
            where = (self._deployment, self._store.lanes, lane)
            how = partial(change_lane, *where, state=state, reason=reason, by=by, now=time.time())
            change, _ = await asyncio.to_thread(how)
        except DeploymentError as error:
            raise BackendError(ErrorCode.UNKNOWN_ID, str(error)) from error
        except LaneHaltedError as error:
            raise BackendError(ErrorCode.REFUSED, str(error)) from error
        return lane_change_value(change, self._deployment)


def _listed(outbox: Outbox, asked: DeliveryFilter) -> list[OutboxEntry]:
    if asked.message_id is None:
        return outbox.listed(state=asked.state, since=asked.since, until=asked.until, limit=asked.limit)
    latest = math.inf if asked.until is None else asked.until
    found = (
        entry
        for entry in outbox.entries(asked.message_id)
        if asked.state in (None, entry.state) and asked.since <= entry.created_at <= latest
    )
    return list(islice(found, asked.limit))


def _jsonable(found: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(found, default=plain))
    return value
