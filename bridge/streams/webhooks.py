"""Delivers records of the streams to HTTP targets, signed as Standard Webhooks has it.

Two steps, each of which can be repeated: records become deliveries in the store, one for each target that wants them, and
deliveries are POSTed until the target answers 2xx or all tries have failed.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import random
import socket
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import httpx
import structlog

from bridge.domain.delivery_policy import GiveUpReason, next_try
from bridge.domain.failures import FailureKind
from bridge.domain.observations import ObservedMessage
from bridge.domain.ports import TransientError
from bridge.domain.streams import StreamRecord, original_of, value_of
from bridge.domain.supervision import retry_until_success, run_forever
from bridge.domain.webhooks import WebhookDelivery
from bridge.protocol.message import EnvelopeError, Message, decode_envelope
from bridge.store import Store
from bridge.store.streams import Streams
from bridge.store.webhooks import Webhooks
from bridge.streams.settings import WebhookSettings, WebhookTarget

_log = structlog.get_logger(__name__)

_BATCH: Final = 100  # records that become deliveries together
_MOST_ANSWERED: Final = 16_384  # bytes of an answer that are read
_PRUNED_EVERY: Final = 60.0  # seconds
_CLOUD_HOSTS: Final = frozenset({ipaddress.ip_address("168.63.129.16")})
"""Public addresses at which a cloud serves its own machines alone: Azure's."""

_EMBEDDED: Final = ipaddress.ip_network("64:ff9b::/96")  # NAT64: the last four bytes are an IPv4 address


class TargetError(TransientError):
    """A target did not take a delivery; the text says why, and holds no secret."""


def signature(secrets: Sequence[bytes], delivery_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: the HMAC-SHA256 of id, time and body, once for each secret."""
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{b64encode(hmac.digest(secret, signed, 'sha256')).decode()}" for secret in secrets)


async def resolved(host: str, port: int, *, allow_private: bool) -> str:
    """An address of a host. All that it has must be on the public internet, unless private ones are allowed.

    Raises:
        TargetError: it has none, or one that is refused.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TargetError(f"host {host} can't be resolved: {error}") from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    refused = sorted(address for address in addresses if not is_public(address))
    if refused and not allow_private:
        raise TargetError(
            f"host {host} has the address {refused[0]}, which is not on the public internet; on a devnet set"
            " webhooks.allow_private = true"
        )
    return addresses[0]


def is_public(text: str) -> bool:
    """Whether an address is on the public internet, also if it wraps another one."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _EMBEDDED:
            inner = ipaddress.IPv4Address(address.packed[12:])
        if inner is not None:
            return is_public(str(inner))
    return address.is_global and not address.is_multicast and address not in _CLOUD_HOSTS


async def post(
    client: httpx.AsyncClient,
    target: WebhookTarget,
    delivery_id: str,
    body: bytes,
    *,
    timeout: float,  # noqa: ASYNC109  # of the whole exchange
    allow_private: bool,
) -> int:
    """POSTs one delivery; returns the target's status code, which is 2xx.

    The connection goes to the address that was judged: the name is not resolved again.

    Raises:
        TargetError: the target can't be reached, may not be, or answers something else.
    """
    url, timestamp = httpx.URL(target.url), int(time.time())
    headers = {
        "host": url.netloc.decode(),
        "content-type": "application/json",
        "user-agent": "waybill-webhooks",
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(target.secrets, delivery_id, timestamp, body),
    }
    try:
        async with asyncio.timeout(timeout):
            host, port = url.raw_host.decode(), url.port or (443 if url.scheme == "https" else 80)
            address = await resolved(host, port, allow_private=allow_private)
            pinned, named = url.copy_with(host=address), {"sni_hostname": host}
            request = client.build_request("POST", pinned, content=body, headers=headers, extensions=named)
            answer = await client.send(request, stream=True)
            try:
                await _read_some(answer)
            finally:
                await answer.aclose()
    except TimeoutError as error:
        raise TargetError(f"no complete answer within {timeout:g} s") from error
    except httpx.HTTPError as error:
        raise TargetError(f"it can't be reached: {type(error).__name__}: {error}") from error
    if not answer.is_success:
        moved = "; redirects are not followed" if answer.is_redirect else ""
        raise TargetError(f"it answered {answer.status_code}{moved}")
    return answer.status_code


async def _read_some(answer: httpx.Response) -> None:
    """Reads an answer, so that its connection can be used again, unless it is too long."""
    size = 0
    async for part in answer.aiter_raw():
        size += len(part)
        if size > _MOST_ANSWERED:
            return


def new_client() -> httpx.AsyncClient:
    """A client that goes where it is told: through no proxy, and after no redirect."""
    return httpx.AsyncClient(timeout=None, follow_redirects=False, trust_env=False)  # noqa: S113  # `post` bounds all of it


class WebhookPublisher:
    """Makes deliveries of records, and POSTs them. Each target has its own loop: one that is away delays no other."""

    def __init__(
        self, streams: Streams, webhooks: Webhooks, store: Store, settings: WebhookSettings, *, worker: str
    ) -> None:
        """Connects to nothing yet.

        Args:
            streams: where records wait for webhooks.
            webhooks: the deliveries.
            store: says which message a record is about.
            settings: targets, and how to deliver.
            worker: names this process.
        """
        self._streams = streams
        self._webhooks = webhooks
        self._store = store
        self._settings = settings
        self._worker = worker

    async def run(self) -> None:
        """Has the store record, and delivers until it is cancelled."""
        every = self._settings.poll_interval
        await retry_until_success("start webhooks", self._start, every=every)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_forever("choose what webhooks deliver", self.choose, every=every))
            group.create_task(run_forever("prune webhooks", self.prune, every=_PRUNED_EVERY))
            for target in self._settings.targets:
                group.create_task(self._serve(target))

    async def _start(self) -> None:
        await asyncio.to_thread(self._streams.start)
        named = [target.name for target in self._settings.targets]
        if retired := await asyncio.to_thread(self._webhooks.retire, named, time.time()):
            _log.warning("webhook deliveries of targets that the settings no longer name are dead", deliveries=retired)

    async def _serve(self, target: WebhookTarget) -> None:
        """Delivers to one target. Its connections are its own: another host at the same address has another certificate."""
        async with new_client() as client:
            name, every = f"deliver to webhook {target.name}", self._settings.poll_interval
            await run_forever(name, partial(self.deliver, client, target), every=every)

    async def choose(self) -> bool:
        """Makes deliveries of the next records; says whether more may wait."""
        return await asyncio.to_thread(self._choose)

    def _choose(self) -> bool:
        settings = self._settings
        batch = self._streams.claim(self._worker, now=time.time(), lease=settings.lease, limit=_BATCH)
        if not batch:
            return False
        asked = any(target.wanted.asks_for_message for target in settings.targets)
        known = {key: self._message(key) for key in {record.key for record in batch}} if asked else {}
        deliveries = [
            WebhookDelivery(
                id=f"{target.name}-{record.version}",
                target=target.name,
                key=record.key,
                version=record.version,
                event=record.event,
                body=value_of(record).decode(),
                created_at=time.time(),
            )
            for record in batch
            for target in settings.targets
            if target.wanted.passes(record, known.get(record.key) or _original(record))
        ]
        self._webhooks.add(deliveries)
        self._streams.sent(batch[-1].version)
        return len(batch) == _BATCH

    def _message(self, key: str) -> Message | None:
        """The message that records with a key are about, if the store knows it."""
        observed: ObservedMessage | None = None
        if key.startswith("0x"):
            observed = self._store.observations.message(bytes.fromhex(key[2:]))
        return None if observed is None else observed.message

    async def deliver(self, client: httpx.AsyncClient, target: WebhookTarget) -> bool:
        """POSTs what is due to one target; says whether more may be."""
        now, limit = time.time(), self._settings.at_once
        lease = 2 * self._settings.timeout
        due = await asyncio.to_thread(self._webhooks.claim, target.name, now=now, lease=lease, limit=limit)
        await asyncio.gather(*(self._deliver(client, target, delivery) for delivery in due))
        return bool(due)

    async def _deliver(self, client: httpx.AsyncClient, target: WebhookTarget, delivery: WebhookDelivery) -> None:
        settings, body = self._settings, delivery.body.encode()
        private, limit = settings.allow_private, settings.timeout
        try:
            await post(client, target, delivery.id, body, timeout=limit, allow_private=private)
        except TargetError as error:
            wait = next_try(settings.policy, delivery.tries + 1, FailureKind.TRANSIENT, random=random.random)
            now = time.time()
            again = None if isinstance(wait, GiveUpReason) else now + wait
            if again is None:
                _log.error("webhook delivery is dead", delivery=delivery.id, error=str(error))
            await asyncio.to_thread(self._webhooks.failed, delivery, str(error), now, again)
        else:
            await asyncio.to_thread(self._webhooks.delivered, delivery, time.time())

    async def prune(self) -> bool:
        """Forgets deliveries that ended long ago; says whether more may be forgotten."""
        return bool(await asyncio.to_thread(self._webhooks.prune, time.time() - self._settings.keep))


def _original(record: StreamRecord) -> Message | None:
    """The message in a dead letter of another store."""
    document: Mapping[str, str] | None = original_of(record)
    try:
        return decode_envelope(bytes.fromhex(document["originalMessage"][2:])).message if document else None
    except (EnvelopeError, KeyError, ValueError):
        return None
