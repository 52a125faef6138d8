"""The client: speaks to the routers of one network as one account."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import replace

from eth_account.signers.base import BaseAccount

from bridge.client.arrival import refuse_much_gas, refuse_short_ttl
from bridge.client.requests import (
    Created,
    FeeCapError,
    NothingToRetryError,
    RefusedError,
    RouteRequest,
    Sent,
    UnknownMessageError,
)
from bridge.client.transactions import transact
from bridge.domain.guarantee import AssetClass, class_of, resolve_ttl
from bridge.domain.ports import Call, CallRevertedError, Chain, Receipt, TransientError
from bridge.evm.routers import Progress, RouterReader
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER, message_tuple
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.events import MessageRetried, MessageRouted, MessageUnfunded, decode_event, topic_of
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.message import Kind, Message, decode_envelope

_POLL_SECONDS = 0.2
_LOG_RANGE = 5_000  # blocks


class Client:
    """Speaks to the routers of one network as one account."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        account: BaseAccount | None = None,
        asset_classes: Sequence[AssetClass] = (),
    ) -> None:
        """Takes chains that are open already; without an account it only reads.

        What it routes lives at least as long as the classes of assets demand.
        """
        self._asset_classes = asset_classes
        self._deployment = deployment
        self._chains = chains
        self._account = account

    async def quote(self, source: ChainDeployment, message: Message, gmps: Sequence[Gmp]) -> dict[Gmp, int]:
        """What each GMP asks for carrying the message now, in wei.

        Raises:
            RefusedError: a GMP can't carry it.
            DeploymentError: the source has no adapter for a GMP.
        """
        router = RouterReader(self._chains[source.chain_id], source.router)
        fees = {}
        for gmp in gmps:
            source.adapter(gmp)  # says better than the router which chain lacks which GMP
            try:
                fees[gmp] = await router.quote(message, gmp)
            except CallRevertedError as error:
                raise RefusedError.of(f"{gmp.label} gives no quote", error.data) from error
        return fees

    async def _priced(
        self, source: ChainDeployment, message: Message, gmps: Sequence[Gmp], min_dispatched: int
    ) -> dict[Gmp, int]:
        """What each GMP gets: its quote, or nothing if it gives none and enough others do."""
        fees: dict[Gmp, int] = {}
        refusals: list[RefusedError] = []
        for gmp in gmps:
            try:
                fees |= await self.quote(source, message, [gmp])
            except RefusedError as refusal:
                fees[gmp] = 0
                refusals.append(refusal)
        if refusals and len(gmps) - len(refusals) < (min_dispatched or len(gmps)):
            raise refusals[0]
        return fees

    async def quote_route(self, source: int | str, request: RouteRequest) -> dict[Gmp, int]:
        """What each GMP asks for carrying such a message now, in wei. See `quote`."""
        origin = self._deployment.chain(source)
        return await self.quote(origin, self._draft(origin, request), request.gmps)

    async def quote_retry(self, message: Message, gmps: Sequence[Gmp]) -> dict[Gmp, int]:
        """What each GMP asks for carrying that message again now, in wei. See `quote`."""
        return await self.quote(self._deployment.chain(message.source_chain), message, gmps)

    async def route(self, source: int | str, request: RouteRequest) -> Sent:
        """Sends a new message and waits until its transaction is included.

        A TTL below the minimum of its class of assets is raised to that.

        Raises:
            TtlTooShortError: it would expire before it could arrive; nothing was sent.
            TooMuchGasError: relayers would not give its execution so much gas; nothing was sent.
            FeeCapError: the GMPs ask for more than `request.max_fee`; nothing was sent.
            RefusedError: the router refused.
            DeploymentError: a chain or adapter that the network does not have.
        """
        origin = self._deployment.chain(source)
        destination = self._deployment.chain(request.destination)
        draft = self._draft(origin, request)
        demanded = class_of(draft, self._asset_classes)
        if demanded is not None:
            request = replace(request, ttl=resolve_ttl(request.ttl, demanded.min_ttl))
        await refuse_short_ttl(self._chains[origin.chain_id], origin, request)
        if destination.chain_id in self._chains:
            await refuse_much_gas(self._chains[destination.chain_id], destination.router, draft, request.max_gas)
        fees = await self._priced(origin, draft, request.gmps, request.min_dispatched)
        _check_cap(fees, request.max_fee)
        call = ROUTER.encode(
            "route",
            (
                destination.chain_id,
                draft.recipient,
                request.payload,
                request.gas_limit,
                request.ttl,
                int(request.kind),
                draft.quorum,
                request.replaces,
                request.retriable,
                request.min_dispatched,
                _named(fees),
                self._require_account().address,
            ),
        )
        receipt = await self._transact(origin, call, sum(fees.values()))
        return _sent(receipt, origin.router, frozenset(request.gmps), sum(fees.values()), None)

    async def retry(
        self,
        message: Message,
        gmps: Sequence[Gmp],
        min_dispatched: int = 1,
        max_fee: int | None = None,
        *,
        even_if_ended: bool = False,
    ) -> Sent:
        """Sends a message again over those GMPs.

        Args:
            message: the message, unchanged.
            gmps: any; receipts that it has already still count.
            min_dispatched: how many GMPs must take it for the call to succeed.
            max_fee: the most that it may cost, in wei; None is whatever the GMPs ask for.
            even_if_ended: send it though the destination says that it has ended.

        Raises:
            NothingToRetryError: it has ended on its destination; nothing was sent. A destination that does not answer is no obstacle.
            FeeCapError: the GMPs ask for more than `max_fee`; nothing was sent.
            RefusedError: the router refused: not the sender, not retriable, or the message differs from the original.
        """
        origin = self._deployment.chain(message.source_chain)
        if not even_if_ended:
            await self.refuse_ended(message)
        fees = await self._priced(origin, message, gmps, min_dispatched)
        _check_cap(fees, max_fee)
        account = self._require_account().address
        call = ROUTER.encode("retryRoute", (message.id, message_tuple(message), min_dispatched, _named(fees), account))
        receipt = await self._transact(origin, call, sum(fees.values()))
        return _sent(receipt, origin.router, frozenset(gmps), sum(fees.values()), message)

    async def execute(self, message: Message) -> Receipt:
        """Executes a message whose quorum is reached.

        Raises:
            RefusedError: the quorum is not reached, it was executed already, or the recipient refuses.
        """
        destination = self._deployment.chain(message.destination_chain)
        return await self._transact(destination, ROUTER.encode("execute", message_tuple(message)), 0)

    async def fund(self, message: Message) -> Sent:
        """Pays for a message that was created without its fee, over the GMPs that its sender chose.

        Raises:
            RefusedError: the router refused: it was paid for when it was created or since, or too few GMPs would take it.
            UnknownMessageError: its source has not created it.
        """
        origin = self._deployment.chain(message.source_chain)
        gmps = await self._chosen(origin, message.id)
        fees = await self._priced(origin, message, gmps, message.quorum)
        call = ROUTER.encode("fund", message_tuple(message), self._require_account().address)
        receipt = await self._transact(origin, call, sum(fees.values()))
        return _sent(receipt, origin.router, frozenset(gmps), sum(fees.values()), message)

    async def cancel(self, message: Message, gmps: Sequence[Gmp], min_dispatched: int = 1) -> Sent:
        """Asks the destination never to execute a message; it may have been executed before this arrives.

        Returns:
            The cancellation, which is a message itself.

        Raises:
            RefusedError: the router refused: not the sender, or not a message of this router.
        """
        origin = self._deployment.chain(message.source_chain)
        fees = await self.quote(origin, cancellation_of(message), gmps)
        account = self._require_account().address
        call = ROUTER.encode("cancel", message_tuple(message), min_dispatched, _named(fees), account)
        receipt = await self._transact(origin, call, sum(fees.values()))
        return _sent(receipt, origin.router, frozenset(gmps), sum(fees.values()), None)

    async def expire(self, message: Message) -> Receipt:
        """Marks a message whose time has run out as expired, for good; anyone may.

        Raises:
            RefusedError: its time has not run out, or it has ended otherwise.
        """
        destination = self._deployment.chain(message.destination_chain)
        return await self._transact(destination, ROUTER.encode("expire", message_tuple(message)), 0)

    async def appoint_retrier(self, source: int | str, retrier: str) -> Receipt:
        """Lets another account retry all messages of this one on a chain; the zero address takes that back."""
        return await self._transact(self._deployment.chain(source), ROUTER.encode("appointRetrier", retrier), 0)

    async def refuse_ended(self, message: Message) -> None:
        """Makes sure that a retry can still change something, as far as the destination answers.

        Raises:
            NothingToRetryError: the message has ended there.
        """
        if message.destination_chain not in self._chains:
            return
        try:
            progress = await self.progress(message)
        except TransientError:
            return
        if progress.ended:
            name = self._deployment.chain(message.destination_chain).name
            raise NothingToRetryError(message.id, name, executed=progress.executed)

    async def progress(self, message: Message) -> Progress:
        """What the destination's router says about the message now."""
        destination = self._deployment.chain(message.destination_chain)
        return await RouterReader(self._chains[destination.chain_id], destination.router).progress(message.id)

    async def wait(self, message: Message, timeout: float) -> Progress:  # noqa: ASYNC109  # the user's own limit
        """Waits until the message is executed, at most `timeout` seconds; the progress then says which of the two it was."""
        progress = Progress(frozenset(), executed=False, ended=False)
        async for progress in self.watch(message, timeout):
            if progress.executed:
                break
        return progress

    async def watch(self, message: Message, timeout: float) -> AsyncIterator[Progress]:  # noqa: ASYNC109  as `wait`
        """How far the message is now, and again whenever that changes, until it has ended or `timeout` seconds are over."""
        deadline = time.monotonic() + timeout
        before = None
        while True:
            progress = await self.progress(message)
            if progress != before:
                yield progress
            before = progress
            if progress.ended or time.monotonic() >= deadline:
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def find(self, message_id: bytes) -> Message:
        """The message with that id, read from the chain that created it. See `created`."""
        return (await self.created(message_id)).message

    async def created(self, message_id: bytes) -> Created:
        """What the chain that created the message with that id says of it.

        Raises:
            UnknownMessageError: no chain of the network did.
        """
        for origin in self._deployment.chains:
            said = [event async for event in self._said(origin, message_id)]
            if said:
                unfunded = isinstance(said[-1], MessageUnfunded)
                return Created(decode_envelope(said[0].envelope).message, unfunded, said[0].retriable)
        raise UnknownMessageError(
            f"no chain of network {self._deployment.network!r} has created a message 0x{message_id.hex()}"
        )

    async def _chosen(self, origin: ChainDeployment, message_id: bytes) -> list[Gmp]:
        """The GMPs that the sender of an unfunded message chose."""
        created = await anext(self._said(origin, message_id), None)
        if created is None:
            raise UnknownMessageError(f"{origin.name} has created no message 0x{message_id.hex()}")
        if isinstance(created, MessageRouted):
            raise RefusedError(f"message 0x{message_id.hex()} was paid for when it was created")
        return sorted(gmps_from_bits(created.gmps))

    async def _said(
        self, origin: ChainDeployment, message_id: bytes
    ) -> AsyncGenerator[MessageRouted | MessageUnfunded]:
        """What a chain says of a message's creation, and of its dispatch if it was created without its fee."""
        chain = self._chains[origin.chain_id]
        head = await chain.head()
        topics = [topic_of(MessageRouted), topic_of(MessageUnfunded)]
        for first in range(origin.start_block, head.number + 1, _LOG_RANGE):
            last = min(first + _LOG_RANGE - 1, head.number)
            for log in await chain.logs(first, last, [origin.router], topics):
                event = decode_event(log.topics, log.data)
                if isinstance(event, MessageRouted | MessageUnfunded) and event.message_id == message_id:
                    yield event
                    if isinstance(event, MessageRouted):
                        return

    def _draft(self, origin: ChainDeployment, request: RouteRequest) -> Message:
        """The message as the router will create it, but for nonce and time: good for a quote."""
        destination = self._deployment.chain(request.destination)
        return Message(
            source_chain=origin.chain_id,
            source_router=to_bytes32(origin.router),
            sender=to_bytes32(self._require_account().address),
            nonce=0,
            destination_chain=destination.chain_id,
            destination_router=to_bytes32(destination.router),
            recipient=to_bytes32(request.recipient),
            gas_limit=request.gas_limit,
            sent_at=0,
            ttl=request.ttl,
            kind=request.kind,
            quorum=len(request.gmps) if request.quorum is None else request.quorum,
            replaces=request.replaces,
            payload=request.payload,
        )

    def _require_account(self) -> BaseAccount:
        if self._account is None:
            raise RefusedError("this needs a key to sign with, and none was given")
        return self._account

    async def _transact(self, where: ChainDeployment, data: bytes, value: int) -> Receipt:
        call = Call(to=where.router, data=data, value=value)
        return await transact(self._chains[where.chain_id], self._require_account(), call)


def cancellation_of(message: Message) -> Message:
    """What the router sends when a message is cancelled, but for nonce and time: good for a quote."""
    payload = (
        ROUTER.encode("execute", message_tuple(replace(message, payload=b"")))[4:] + message.payload_hash + bytes(32)
    )
    return replace(
        message,
        recipient=message.destination_router,
        nonce=0,
        gas_limit=0,
        sent_at=0,
        ttl=0,
        kind=Kind.CANCELLATION,
        replaces=message.id,
        payload=payload,
    )


def _check_cap(fees: Mapping[Gmp, int], cap: int | None) -> None:
    asked = sum(fees.values())
    if cap is not None and asked > cap:
        each = ", ".join(f"{gmp.label} {fee}" for gmp, fee in fees.items())
        raise FeeCapError(f"the GMPs ask for {asked} wei ({each}), above the cap of {cap}; nothing was sent")


def _named(fees: Mapping[Gmp, int]) -> list[tuple[int, int]]:
    return [(int(gmp), fee) for gmp, fee in fees.items()]


def _sent(receipt: Receipt, router: str, asked: frozenset[Gmp], fee: int, message: Message | None) -> Sent:
    for log in receipt.logs:
        event = decode_event(log.topics, log.data) if log.address == router else None
        if isinstance(event, MessageRouted):
            message = decode_envelope(event.envelope).message
        if isinstance(event, MessageRouted | MessageRetried) and message is not None:
            took = gmps_from_bits(event.gmps)
            attempt = event.attempt if isinstance(event, MessageRetried) else 0
            return Sent(message=message, attempt=attempt, gmps=took, failed=asked - took, fee=fee, receipt=receipt)
    raise DeploymentError(f"{router} took the transaction but emitted no routing event: is it Waybill's router?")
