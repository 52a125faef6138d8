"""The client: what a dApp asks for, what it gets, how it is refused, and the account that speaks to the routers of a network."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from eth_abi.abi import encode
from eth_account.signers.base import BaseAccount
from eth_utils.address import to_canonical_address
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3 import AsyncWeb3, Web3
from web3.types import TxReceipt

from bridge.client.web3_chain import Web3Chain, as_tx_receipt
from bridge.evm.finality import FinalityRule
from bridge.evm.routers import Progress, RouterReader, created_messages, is_contract
from bridge.evm.signing import SignedTransaction, Signer, UnsignedTransaction
from bridge.protocol.addresses import AddressError, from_bytes32, to_bytes32
from bridge.protocol.contracts import ROUTER, Revert, decode_revert, explain_revert, message_tuple
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.events import MessageRetried, MessageRouted, MessageUnfunded, decode_event
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.guarantee import AssetClass, class_of, default_ttl, resolve_ttl
from bridge.protocol.invariants import Reliability
from bridge.protocol.message import MOST_GAS, Kind, Message, decode_envelope
from bridge.protocol.ports import (
    Call,
    CallRevertedError,
    Chain,
    InsufficientFundsError,
    TerminalError,
    TransientError,
)
from bridge.rpc.answers import Meaning, RpcError

_POLL_SECONDS: Final = 0.2
_INCLUSION_SECONDS: Final = 180
_GAS_MARGIN: Final = 1.2

# What the router needs to execute, in gas: for the transaction and its bookkeeping, and for each byte of the payload.
_EXECUTION_GAS: Final = 60_000
_GAS_PER_BYTE: Final = 25
_RECEIVE: Final = keccak(text="receiveMessage(bytes32,bytes,bytes)")[:4]

USUAL_GMP_SECONDS: Final = Reliability().gmp_time
"""What a GMP usually takes once a message is final on its source, as relayers assume unless they are told otherwise."""


class RefusedError(Exception):
    """A contract refused what was asked; the text says which rule, and what to do where that is known.

    Attributes:
        revert: the decoded refusal, or None if there was no reason or it is unknown.
    """

    revert: Revert | None = None

    @classmethod
    def of(cls, what: str, data: bytes, otherwise: str = "") -> Self:
        """What was refused, by the revert data; `otherwise` is what to do where these say nothing."""
        revert = decode_revert(data)
        advice = (revert.advice or revert.meaning) if revert else otherwise
        error = cls(f"{what}: {explain_revert(data)}" + (f"; {advice}" if advice else ""))
        error.revert = revert
        return error


class FeeCapError(RefusedError):
    """Its fee is above the cap that was set, and nothing was sent."""


class NothingToRetryError(RefusedError):
    """The message has ended on its destination, so that a retry would cost its fee and change nothing; nothing was sent."""

    def __init__(self, message_id: bytes, destination: str, *, executed: bool) -> None:
        how = "was executed" if executed else "expired or was cancelled"
        super().__init__(
            f"message 0x{message_id.hex()} {how} on {destination}: a retry would cost its fee and change nothing"
        )


class TtlTooShortError(RefusedError):
    """A message would expire before it could arrive, and nothing was sent."""

    def __init__(self, ttl: int, source: str, finality: float, gmp_time: float) -> None:
        super().__init__(
            f"a TTL of {ttl} s is less than it takes to arrive: {finality:g} s until {source} is final, and {gmp_time:g} s that"
            " a GMP usually takes; give more, or 0 for ever"
        )


class NoRecipientError(RefusedError):
    """No contract is at the recipient's address, so that nothing could execute the message; nothing was sent."""

    def __init__(self, recipient: str, destination: str) -> None:
        super().__init__(
            f"no contract is at {recipient} on {destination}: the message would be paid for and delivered, and can't be executed;"
            " correct the recipient, or set check_recipient to False"
        )


class TooMuchGasError(RefusedError):
    """Relayers would not give its execution so much gas, and nothing was sent."""

    def __init__(self, needed: int, most: int, *, length: int, by: str) -> None:
        super().__init__(
            f"its execution needs about {needed} gas ({by}, a payload of {length} bytes), and relayers give a transaction at most"
            f" {most}: it would arrive and never be executed; send less, or raise max_gas if your relayer gives more"
        )


class NotIncludedError(Exception):
    """A transaction was handed to the chain, and no block includes it yet."""


class UnknownMessageError(LookupError):
    """No chain of the network has created a message with that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """A message to send, and how."""

    destination: int | str  # chain id or name
    recipient: str
    payload: bytes | str  # text is sent as UTF-8
    gmps: Sequence[Gmp | str]  # a GMP or its name, such as "hyperlane"
    quorum: int | None = None  # None: every GMP named
    gas_limit: int = 200_000  # gas
    ttl: int | None = (
        None  # seconds; 0 = never expires; None: what is recommended for its kind, and long enough to arrive
    )
    kind: Kind = Kind.PLAIN
    retriable: bool = True
    min_dispatched: int = 0  # 0: all of them
    replaces: bytes = bytes(32)  # the first message of a chain of re-issues; zero: none
    max_fee: int | None = None  # wei; None: whatever the GMPs ask for
    max_gas: int | None = MOST_GAS  # gas that relayers give a transaction at most; None: whatever it needs
    check_recipient: bool = True  # whether a recipient without code is refused

    @property
    def named(self) -> tuple[Gmp, ...]:
        """The GMPs, in their order.

        Raises:
            UnknownGmpError: a name is none of a GMP.
        """
        return named_gmps(self.gmps)

    @property
    def data(self) -> bytes:
        """The payload's bytes."""
        return self.payload.encode() if isinstance(self.payload, str) else self.payload


def named_gmps(gmps: Sequence[Gmp | str]) -> tuple[Gmp, ...]:
    """GMPs by number or name; one text may name several, separated by commas.

    Raises:
        UnknownGmpError: a name is none of a GMP.
    """
    each: Sequence[Gmp | str] = gmps.split(",") if isinstance(gmps, str) else gmps
    return tuple(Gmp.parse(one) if isinstance(one, str) else one for one in each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that a chain has taken, or taken again."""

    message: Message
    attempt: int
    gmps: frozenset[Gmp]  # those that took it
    failed: frozenset[Gmp]  # those that were asked and did not
    fee: int  # wei
    receipt: TxReceipt = field(repr=False)

    def __str__(self) -> str:
        """The message's id, the GMPs that took it, the fee and the transaction."""
        over = ", ".join(sorted(gmp.label for gmp in self.gmps)) or "no GMP"
        failed = f", refused by {', '.join(sorted(gmp.label for gmp in self.failed))}" if self.failed else ""
        return (
            f"message 0x{self.message.id.hex()}, attempt {self.attempt}, over {over}{failed}; fee {self.fee} wei;"
            f" transaction 0x{self.transaction.hex()}"
        )

    @property
    def transaction(self) -> HexBytes:
        """The hash of the transaction."""
        return self.receipt["transactionHash"]


@dataclass(frozen=True, slots=True)
class Created:
    """A message, as the chain tells that created it."""

    message: Message
    unfunded: bool  # it was created without its fee, and nobody has funded it since
    retriable: bool | None  # None: its source was not asked


Connection = AsyncWeb3[Any] | Web3 | Chain
"""A chain as a user has it, with a provider, middleware and account of their own; or as Waybill's own transport reaches it."""


class Client:
    """Speaks to the routers of one network as one account."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Connection],
        account: BaseAccount | Signer | None = None,
        asset_classes: Sequence[AssetClass] = (),
    ) -> None:
        """Asks nothing yet.

        Args:
            deployment: the network.
            chains: by id; chains that are left out can't be asked.
            account: signs transactions. Without one, the Web3 of a chain signs for its `eth.default_account`, if it has one.
            asset_classes: what is routed lives at least as long as these demand.
        """
        self._asset_classes = asset_classes
        self._deployment = deployment
        self._chains = {
            chain_id: Web3Chain(chain_id, chain) if isinstance(chain, AsyncWeb3 | Web3) else chain
            for chain_id, chain in chains.items()
        }
        self._account = account

    async def quote(self, source: ChainDeployment, message: Message, gmps: Sequence[Gmp]) -> dict[Gmp, int]:
        """What each GMP asks for carrying the message now, in wei.

        Raises:
            RefusedError: a GMP can't carry it.
            DeploymentError: the source has no adapter for a GMP.
        """
        router = RouterReader(self._chain(source), source.router)
        fees = {}
        for gmp in gmps:
            adapter = source.adapter(gmp)  # says better than the router which chain lacks which GMP
            try:
                fees[gmp] = await router.quote(message, gmp)
            except CallRevertedError as error:
                what = f"{gmp.label} gives no quote: quote of its adapter {adapter} on {source.name}"
                wrong = (
                    f"one of {gmp.label}'s contracts does not answer: compare gmps.{gmp.label} and verification.{gmp.label} of"
                    f" {source.name} in the network file with {gmp.label}'s documentation"
                )
                raise RefusedError.of(what, error.data, wrong) from error
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
        return await self.quote(origin, self._draft(origin, request, self._sender(origin)), request.named)

    async def quote_retry(self, message: Message, gmps: Sequence[Gmp]) -> dict[Gmp, int]:
        """What each GMP asks for carrying that message again now, in wei. See `quote`."""
        return await self.quote(self._deployment.chain(message.source_chain), message, gmps)

    async def route(self, source: int | str, request: RouteRequest) -> Sent:
        """Sends a new message and waits until its transaction is included.

        A TTL below the minimum of its class of assets is raised to that. Without a TTL it gets the one that is recommended for
        its kind, or as much as it takes to arrive, if that is more.

        Raises:
            TtlTooShortError: it would expire before it could arrive; nothing was sent.
            NoRecipientError: no contract is at the recipient's address, as far as the destination answers; nothing was sent.
            TooMuchGasError: relayers would not give its execution so much gas, as far as the destination answers; nothing was sent.
            FeeCapError: the GMPs ask for more than `request.max_fee`; nothing was sent.
            RefusedError: the router refused.
            DeploymentError: a chain or adapter that the network does not have.
        """
        origin = self._deployment.chain(source)
        call = await self.route_call(source, request, self._sender(origin))
        receipt = await self._transact(origin, call.data, call.value)
        return _sent(receipt, origin.router, frozenset(request.named), call.value, None)

    async def route_call(self, source: int | str, request: RouteRequest, sender: str) -> Call:
        """The transaction with which an account sends a message: for a contract, or for a wallet that signs elsewhere.

        Args:
            source: chain id or name.
            request: the message.
            sender: the account; refunds go to it.

        Raises:
            TtlTooShortError, NoRecipientError, TooMuchGasError, FeeCapError, RefusedError, DeploymentError: see `route`.
        """
        origin = self._deployment.chain(source)
        destination = self._deployment.chain(request.destination)
        draft = self._draft(origin, request, sender)
        demanded = class_of(draft, self._asset_classes)
        ttl = await self._ttl(origin, request)
        request = replace(request, ttl=resolve_ttl(ttl, None if demanded is None else demanded.min_ttl))
        await refuse_short_ttl(self._chain(origin), origin, request)
        if destination.chain_id in self._chains:
            with suppress(TransientError):  # a destination that does not answer is no obstacle
                if request.check_recipient and not await is_contract(self._chain(destination), request.recipient):
                    raise NoRecipientError(request.recipient, destination.name)
                await refuse_much_gas(self._chain(destination), destination.router, draft, request.max_gas)
        fees = await self._priced(origin, draft, request.named, request.min_dispatched)
        _check_cap(fees, request.max_fee)
        call = ROUTER.encode(
            "route",
            (
                destination.chain_id,
                draft.recipient,
                request.data,
                request.gas_limit,
                request.ttl,
                int(request.kind),
                draft.quorum,
                request.replaces,
                request.retriable,
                request.min_dispatched,
                _named(fees),
                sender,
            ),
        )
        return Call(to=origin.router, data=call, value=sum(fees.values()))

    async def retry(
        self,
        message: Message,
        gmps: Sequence[Gmp | str],
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
        named = named_gmps(gmps)
        fees = await self._priced(origin, message, named, min_dispatched)
        _check_cap(fees, max_fee)
        account = self._sender(origin)
        call = ROUTER.encode("retryRoute", (message.id, message_tuple(message), min_dispatched, _named(fees), account))
        receipt = await self._transact(origin, call, sum(fees.values()))
        return _sent(receipt, origin.router, frozenset(named), sum(fees.values()), message)

    async def execute(self, message: Message) -> TxReceipt:
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
        call = ROUTER.encode("fund", message_tuple(message), self._sender(origin))
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
        account = self._sender(origin)
        call = ROUTER.encode("cancel", message_tuple(message), min_dispatched, _named(fees), account)
        receipt = await self._transact(origin, call, sum(fees.values()))
        return _sent(receipt, origin.router, frozenset(gmps), sum(fees.values()), None)

    async def report(self, message: Message, gmps: Sequence[Gmp]) -> Sent:
        """Has the destination report to the source how a message ended; anyone may. At least its quorum of GMPs has to take that.

        Returns:
            The report, which is a message itself.

        Raises:
            RefusedError: the router refused: the message has not ended there.
        """
        destination = self._deployment.chain(message.destination_chain)
        call = await self.report_call(message, gmps, self._sender(destination))
        receipt = await transact(self._chain(destination), self._account, call)
        return _sent(receipt, destination.router, frozenset(gmps), call.value, None)

    async def report_call(self, message: Message, gmps: Sequence[Gmp], refund_to: str) -> Call:
        """The call by which the destination reports how a message ended, at the fees that GMPs ask for now."""
        destination = self._deployment.chain(message.destination_chain)
        fees = await self.quote(destination, report_of(message), gmps)
        data = ROUTER.encode("report", message_tuple(message), message.quorum, _named(fees), refund_to)
        return Call(to=destination.router, data=data, value=sum(fees.values()))

    async def expire(self, message: Message) -> TxReceipt:
        """Marks a message whose time has run out as expired, for good; anyone may.

        Raises:
            RefusedError: its time has not run out, or it has ended otherwise.
        """
        destination = self._deployment.chain(message.destination_chain)
        return await self._transact(destination, ROUTER.encode("expire", message_tuple(message)), 0)

    async def appoint_retrier(self, source: int | str, retrier: str) -> TxReceipt:
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
        return await RouterReader(self._chain(destination), destination.router).progress(message.id)

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
            UnknownMessageError: no chain of the network did, of those that can be asked.
        """
        asked = [chain for chain in self._deployment.chains if chain.chain_id in self._chains]
        for origin in asked:
            created = None
            async for event, message in created_messages(self._chain(origin), origin):
                if message.id == message_id:
                    created = Created(message, isinstance(event, MessageUnfunded), event.retriable)
                    if not created.unfunded:
                        break
            if created is not None:
                return created
        left_out = [chain.name for chain in self._deployment.chains if chain not in asked]
        but = f", and {' and '.join(left_out)} did not answer" if left_out else ""
        raise UnknownMessageError(
            f"no chain of network {self._deployment.network!r} has created a message 0x{message_id.hex()}{but}"
        )

    async def _chosen(self, origin: ChainDeployment, message_id: bytes) -> list[Gmp]:
        """The GMPs that the sender of an unfunded message chose."""
        async for created, message in created_messages(self._chain(origin), origin):
            if message.id == message_id:
                if isinstance(created, MessageRouted):
                    raise RefusedError(f"message 0x{message_id.hex()} was paid for when it was created")
                return sorted(gmps_from_bits(created.gmps))
        raise UnknownMessageError(f"{origin.name} has created no message 0x{message_id.hex()}")

    def _draft(self, origin: ChainDeployment, request: RouteRequest, sender: str) -> Message:
        """The message as the router will create it, but for nonce and time: good for a quote."""
        destination = self._deployment.chain(request.destination)
        return Message(
            source_chain=origin.chain_id,
            source_router=to_bytes32(origin.router),
            sender=to_bytes32(sender),
            nonce=0,
            destination_chain=destination.chain_id,
            destination_router=to_bytes32(destination.router),
            recipient=to_bytes32(request.recipient),
            gas_limit=request.gas_limit,
            sent_at=0,
            ttl=default_ttl(request.kind) if request.ttl is None else request.ttl,
            kind=request.kind,
            quorum=len(request.named) if request.quorum is None else request.quorum,
            replaces=request.replaces,
            payload=request.data,
        )

    async def _ttl(self, origin: ChainDeployment, request: RouteRequest) -> int:
        """What the request names, or what is recommended for its kind, but long enough to arrive."""
        if request.ttl is not None:
            return request.ttl
        recommended = default_ttl(request.kind)
        if recommended == 0 or request.kind is Kind.HEARTBEAT:
            return recommended
        finality = await seconds_to_finality(self._chain(origin), origin)
        return max(recommended, math.ceil(finality + USUAL_GMP_SECONDS))

    def _chain(self, deployed: ChainDeployment) -> Chain:
        if deployed.chain_id not in self._chains:
            raise DeploymentError(f"the client was given no connection to {deployed.name}, chain {deployed.chain_id}")
        return self._chains[deployed.chain_id]

    def _sender(self, where: ChainDeployment) -> str:
        return _sender_on(self._chain(where), self._account)

    async def _transact(self, where: ChainDeployment, data: bytes, value: int) -> TxReceipt:
        call = Call(to=where.router, data=data, value=value)
        return await transact(self._chain(where), self._account, call)


def cancellation_of(message: Message) -> Message:
    """What the router sends when a message is cancelled, but for nonce and time: good for a quote."""
    return _about(message, Kind.CANCELLATION)


def report_of(message: Message) -> Message:
    """What the destination's router sends when it reports a message's end, but for nonce, time and end: good for a quote."""
    return replace(
        _about(message, Kind.REPORT),
        source_chain=message.destination_chain,
        source_router=message.destination_router,
        sender=message.destination_router,
        destination_chain=message.source_chain,
        destination_router=message.source_router,
        recipient=message.source_router,
    )


def _about(message: Message, kind: Kind) -> Message:
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
        kind=kind,
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


def _sent(receipt: TxReceipt, router: str, asked: frozenset[Gmp], fee: int, message: Message | None) -> Sent:
    for log in receipt["logs"]:
        is_ours = log["address"] == router
        event = decode_event(tuple(map(bytes, log["topics"])), bytes(log["data"])) if is_ours else None
        if isinstance(event, MessageRouted):
            message = decode_envelope(event.envelope).message
        if isinstance(event, MessageRouted | MessageRetried) and message is not None:
            took = gmps_from_bits(event.gmps)
            attempt = event.attempt if isinstance(event, MessageRetried) else 0
            return Sent(message=message, attempt=attempt, gmps=took, failed=asked - took, fee=fee, receipt=receipt)
    raise DeploymentError(f"{router} took the transaction but emitted no routing event: is it Waybill's router?")


async def refuse_short_ttl(chain: Chain, source: ChainDeployment, request: RouteRequest) -> None:
    """Makes sure that a message can arrive within its TTL. Heartbeats are exempt: the next one replaces them.

    Raises:
        TtlTooShortError: it would expire before relayers could deliver it; nothing was sent.
        TransientError: the chain does not answer.
    """
    if not request.ttl or request.kind is Kind.HEARTBEAT:
        return
    finality = await seconds_to_finality(chain, source)
    if request.ttl < finality + USUAL_GMP_SECONDS:
        raise TtlTooShortError(request.ttl, source.name, finality, USUAL_GMP_SECONDS)


async def refuse_much_gas(chain: Chain, router: str, draft: Message, most: int | None) -> None:
    """Makes sure that a relayer can execute a message: the gas limit asked for, and what its recipient would use now.

    Args:
        chain: the destination.
        router: the destination's.
        draft: the message; nonce and time do not matter.
        most: gas that relayers give a transaction at most; None asks nothing.

    Raises:
        TooMuchGasError: it needs more; nothing was sent.
        TransientError: the chain does not answer.
    """
    if most is None:
        return
    length = len(draft.payload)
    own = _EXECUTION_GAS + _GAS_PER_BYTE * length
    if draft.gas_limit * 64 // 63 + own > most:
        by = f"a gas limit of {draft.gas_limit}"
        raise TooMuchGasError(draft.gas_limit * 64 // 63 + own, most, length=length, by=by)
    chain_id = draft.source_chain.to_bytes((draft.source_chain.bit_length() + 7) // 8, "big")
    sender = (
        b"\x00\x01\x00\x00" + bytes([len(chain_id)]) + chain_id + b"\x14" + draft.sender[-20:]
    )  # as ERC-7930 has it
    data = _RECEIVE + encode(["bytes32", "bytes", "bytes"], [bytes(32), sender, draft.payload])
    try:
        used = await chain.estimate_gas(Call(to=from_bytes32(draft.recipient), data=data), router)
    except (CallRevertedError, TerminalError, AddressError):
        return  # it may be refused now and taken later, and a recipient may know the message by its id
    if used * 64 // 63 + own > most:
        raise TooMuchGasError(used * 64 // 63 + own, most, length=length, by="as its recipient is now")


async def seconds_to_finality(chain: Chain, deployed: ChainDeployment) -> float:
    """How long a chain's blocks take at present until relayers act on them: the age of the newest that they act on.

    Raises:
        TransientError: the chain does not answer.
    """
    head = await chain.head()
    rule = FinalityRule.of(deployed)
    final = await chain.block(max(rule.last(head, await rule.tagged(chain)), 0))
    return 0.0 if final is None else float(head.timestamp - final.timestamp)


async def transact(chain: Chain, account: BaseAccount | Signer | None, call: Call) -> TxReceipt:
    """Sends one transaction and waits until a block includes it.

    For accounts that send one thing at a time; a relayer's traffic goes through the nonce ledger (`bridge.evm`).

    Raises:
        RefusedError: the contract refuses, the account can't pay, or it sends something else at the same time.
        NotIncludedError: no block includes it in time.
    """
    sender = _sender_on(chain, account)
    try:
        gas = int(await chain.estimate_gas(call, sender) * _GAS_MARGIN)
    except CallRevertedError as error:
        raise RefusedError.of(f"{call.to} on chain {chain.chain_id} refuses", error.data) from error
    except InsufficientFundsError as error:
        raise RefusedError(await _lacking(chain, sender, call.value)) from error
    fees = await chain.fees()
    try:
        if account is None:
            assert isinstance(chain, Web3Chain)
            transaction = bytes(await chain.send(call, sender, gas))
        else:
            unsigned = UnsignedTransaction(
                chain_id=chain.chain_id,
                nonce=await chain.transaction_count(sender),
                to=call.to,
                data=call.data,
                value=call.value,
                gas=gas,
                fees=fees,
            )
            signed = await _signed(account, unsigned)
            transaction = signed.hash
            await _broadcast(chain, sender, signed)
    except InsufficientFundsError as error:
        raise RefusedError(await _lacking(chain, sender, call.value + gas * fees.max_fee)) from error
    receipt = await _included(chain, transaction)
    if receipt["status"] != 1:
        raise RefusedError(
            f"transaction 0x{receipt['transactionHash'].hex()} on chain {chain.chain_id} reverted after its estimate did"
            " not: the state changed in between; try again"
        )
    return receipt


async def _broadcast(chain: Chain, sender: str, signed: SignedTransaction) -> None:
    """Hands a transaction to the chain.

    Raises:
        RefusedError: the account's other transactions have taken its nonce, so that this one is nowhere.
    """
    try:
        await chain.broadcast(signed.raw)
    except TransientError as error:
        reason = error.__cause__
        if not isinstance(reason, RpcError) or reason.meaning not in (Meaning.NONCE_USED, Meaning.UNDERPRICED):
            raise
        waiting = await chain.pending_count(sender) - await chain.transaction_count(sender)
        if waiting == 0 and reason.meaning is Meaning.UNDERPRICED:
            raise
        others = f"{waiting} that no block includes yet" if waiting else "one in the same moment"
        raise RefusedError(
            f"account {sender} has sent other transactions on chain {chain.chain_id}, {others}; this one was not sent: wait for"
            " them and try again, or send from another account"
        ) from error


async def _signed(account: BaseAccount | Signer, unsigned: UnsignedTransaction) -> SignedTransaction:
    """The transaction, signed by an account of eth_account or by a signer of ours, which may be elsewhere."""
    if not isinstance(account, BaseAccount):
        return await account.sign(unsigned)
    signed = account.sign_transaction(
        {
            "type": 2,
            "chainId": unsigned.chain_id,
            "nonce": unsigned.nonce,
            "to": to_canonical_address(unsigned.to),
            "value": unsigned.value,
            "data": unsigned.data,
            "gas": unsigned.gas,
            "maxFeePerGas": unsigned.fees.max_fee,
            "maxPriorityFeePerGas": unsigned.fees.priority_fee,
        }
    )
    return SignedTransaction(bytes(signed.hash), bytes(signed.raw_transaction))


def _sender_on(chain: Chain, account: BaseAccount | Signer | None) -> str:
    if account is not None:
        return str(account.address)
    if isinstance(chain, Web3Chain) and chain.account is not None:
        return chain.account
    raise RefusedError("this needs a key to sign with, and none was given")


async def _lacking(chain: Chain, account: str, needed: int) -> str:
    balance = await chain.balance(account)
    return f"account {account} holds {balance} wei on chain {chain.chain_id}, and needs at least {needed}: send it some"


async def _included(chain: Chain, transaction_hash: bytes) -> TxReceipt:
    if isinstance(chain, Web3Chain):
        if receipt := await chain.inclusion(transaction_hash, _INCLUSION_SECONDS):
            return receipt
    else:
        deadline = time.monotonic() + _INCLUSION_SECONDS
        while time.monotonic() < deadline:
            found = await chain.receipt(transaction_hash)
            if found is not None:
                return as_tx_receipt(found)
            await asyncio.sleep(_POLL_SECONDS)
    raise NotIncludedError(
        f"transaction 0x{transaction_hash.hex()} is on its way but in no block after {_INCLUSION_SECONDS} s;"
        " look it up before sending again"
    )
