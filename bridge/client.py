"""For dApps and scripts in Python: route a message, retry it, execute it, follow it to its end.

Example:
    ::

        client = Client(deployment, chains, account)
        request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=(Gmp.HYPERLANE,))
        sent = await client.route("alpha", request)
        progress = await client.wait(sent.message, timeout=60)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eth_account.signers.local import LocalAccount
from eth_utils.address import to_canonical_address

from bridge.ports import Call, CallRevertedError, Chain, Receipt
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER, explain_revert, message_tuple
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.events import MessageRetried, MessageRouted, decode_event, topic_of
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.message import Kind, Message, decode_envelope
from bridge.routers import Progress, RouterReader

_POLL_SECONDS = 0.2
_GAS_MARGIN = 1.2
_INCLUSION_SECONDS = 180
_LOG_RANGE = 5_000  # blocks


class RefusedError(Exception):
    """A contract refused what was asked; the text says which rule."""


class NotIncludedError(Exception):
    """A transaction was handed to the chain, and no block includes it yet."""


class UnknownMessageError(LookupError):
    """No chain of the network has created a message with that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """A message to send, and how."""

    destination: int | str  # chain id or name
    recipient: str
    payload: bytes
    gmps: tuple[Gmp, ...]
    quorum: int | None = None  # None: every GMP named
    gas_limit: int = 200_000  # gas
    ttl: int = 0  # seconds; 0 = never expires
    kind: Kind = Kind.PLAIN
    retriable: bool = True
    min_dispatched: int = 0  # 0: the quorum
    replaces: bytes = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that a chain has taken, or taken again."""

    message: Message
    attempt: int
    gmps: frozenset[Gmp]  # those that took it
    failed: frozenset[Gmp]  # those that were asked and did not
    fee: int  # wei
    receipt: Receipt


class Client:
    """Speaks to the routers of one network as one account."""

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], account: LocalAccount | None = None
    ) -> None:
        """Takes chains that are open already; without an account it only reads."""
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
                raise RefusedError(f"{gmp.label} gives no quote: {explain_revert(error.data)}") from error
        return fees

    async def route(self, source: int | str, request: RouteRequest) -> Sent:
        """Sends a new message and waits until its transaction is included.

        Raises:
            RefusedError: the router refused.
            DeploymentError: a chain or adapter that the network does not have.
        """
        origin = self._deployment.chain(source)
        destination = self._deployment.chain(request.destination)
        draft = self._draft(origin, destination, request)
        fees = await self.quote(origin, draft, request.gmps)
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

    async def retry(self, message: Message, gmps: Sequence[Gmp], min_dispatched: int = 1) -> Sent:
        """Sends a message again over those GMPs.

        Raises:
            RefusedError: the router refused: not the sender, not retriable, or the message differs from the original.
        """
        origin = self._deployment.chain(message.source_chain)
        fees = await self.quote(origin, message, gmps)
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

    async def dispatch(self, message: Message, gmps: Sequence[Gmp]) -> Sent:
        """Pays for a message that was created without its fee, over the GMPs that its sender chose.

        Raises:
            RefusedError: the router refused: it was paid for before, or other GMPs were chosen.
        """
        origin = self._deployment.chain(message.source_chain)
        fees = await self.quote(origin, message, gmps)
        request = (message.id, message_tuple(message), message.quorum, _named(fees), self._require_account().address)
        receipt = await self._transact(origin, ROUTER.encode("dispatch", request), sum(fees.values()))
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

    async def progress(self, message: Message) -> Progress:
        """What the destination's router says about the message now."""
        destination = self._deployment.chain(message.destination_chain)
        return await RouterReader(self._chains[destination.chain_id], destination.router).progress(message.id)

    async def wait(self, message: Message, timeout: float) -> Progress:  # noqa: ASYNC109  # the user's own limit
        """Waits until the message is executed, at most `timeout` seconds; the progress then says which of the two it was."""
        deadline = time.monotonic() + timeout
        while True:
            progress = await self.progress(message)
            if progress.executed or time.monotonic() >= deadline:
                return progress
            await asyncio.sleep(_POLL_SECONDS)

    async def find(self, message_id: bytes) -> Message:
        """The message with that id, read from the chain that created it.

        Raises:
            UnknownMessageError: no chain of the network did.
        """
        for origin in self._deployment.chains:
            message = await self._find_on(origin, message_id)
            if message is not None:
                return message
        raise UnknownMessageError(
            f"no chain of network {self._deployment.network!r} has created a message 0x{message_id.hex()}"
        )

    async def _find_on(self, origin: ChainDeployment, message_id: bytes) -> Message | None:
        chain = self._chains[origin.chain_id]
        head = await chain.head()
        for first in range(origin.start_block, head.number + 1, _LOG_RANGE):
            last = min(first + _LOG_RANGE - 1, head.number)
            for log in await chain.logs(first, last, [origin.router], [topic_of(MessageRouted)]):
                event = decode_event(log.topics, log.data)
                if isinstance(event, MessageRouted) and event.message_id == message_id:
                    return decode_envelope(event.envelope).message
        return None

    def _draft(self, origin: ChainDeployment, destination: ChainDeployment, request: RouteRequest) -> Message:
        """The message as the router will create it, but for nonce and time: good for a quote."""
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

    def _require_account(self) -> LocalAccount:
        if self._account is None:
            raise RefusedError("this needs a key to sign with, and none was given")
        return self._account

    async def _transact(self, where: ChainDeployment, data: bytes, value: int) -> Receipt:
        call = Call(to=where.router, data=data, value=value)
        return await transact(self._chains[where.chain_id], self._require_account(), call)


async def transact(chain: Chain, account: LocalAccount, call: Call) -> Receipt:
    """Sends one transaction and waits until a block includes it.

    For accounts that send one thing at a time; a relayer's traffic goes through the nonce ledger (`bridge.sending`).

    Raises:
        RefusedError: the contract refuses.
        NotIncludedError: no block includes it in time.
    """
    try:
        gas = int(await chain.estimate_gas(call, account.address) * _GAS_MARGIN)
    except CallRevertedError as error:
        raise RefusedError(f"{call.to} on chain {chain.chain_id} refuses: {explain_revert(error.data)}") from error
    fees = await chain.fees()
    signed = account.sign_transaction(
        {
            "type": 2,
            "chainId": chain.chain_id,
            "nonce": await chain.transaction_count(account.address),
            "to": to_canonical_address(call.to),
            "value": call.value,
            "data": call.data,
            "gas": gas,
            "maxFeePerGas": fees.max_fee,
            "maxPriorityFeePerGas": fees.priority_fee,
        }
    )
    await chain.broadcast(bytes(signed.raw_transaction))
    receipt = await _included(chain, bytes(signed.hash))
    if not receipt.succeeded:
        raise RefusedError(
            f"transaction 0x{receipt.transaction_hash.hex()} on chain {chain.chain_id} reverted after its estimate did"
            " not: the state changed in between; try again"
        )
    return receipt


async def _included(chain: Chain, transaction_hash: bytes) -> Receipt:
    deadline = time.monotonic() + _INCLUSION_SECONDS
    while time.monotonic() < deadline:
        receipt = await chain.receipt(transaction_hash)
        if receipt is not None:
            return receipt
        await asyncio.sleep(_POLL_SECONDS)
    raise NotIncludedError(
        f"transaction 0x{transaction_hash.hex()} is on its way but in no block after {_INCLUSION_SECONDS} s;"
        " look it up before sending again"
    )


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
