"""The client with its requests, results and errors. It calls a network's routers with one account."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Self

from eth_account.signers.local import LocalAccount

from bridge.evm.finality import FinalityRule
from bridge.evm.routers import Progress, RouterReader, created_messages, is_contract
from bridge.evm.rpc_answers import Meaning, RpcError
from bridge.evm.signing import LocalSigner, Signer, UnsignedTransaction
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER, Revert, decode_revert, explain_revert, message_tuple
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.events import MessageRetried, MessageRouted, MessageUnfunded, decode_event
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.guarantee import AssetClass, class_of, default_ttl, resolve_ttl
from bridge.protocol.message import Kind, Message, decode_envelope
from bridge.protocol.ports import (
    Call,
    CallRevertedError,
    Chain,
    Fees,
    InsufficientFundsError,
    Receipt,
    TransientError,
    UnansweredError,
)

_POLL_SECONDS: Final = 0.2
_INCLUSION_SECONDS: Final = 180
_GAS_MARGIN: Final = 1.2
_RAISE_SECONDS: Final = 15.0  # until a transaction is replaced with higher fees
_FEE_RISE: Final = 1.125  # nodes require at least 10% more for a replacement

TRANSACTION_GAS: Final = 2**24
"""Highest gas limit of a transaction (EIP-7825)."""

USUAL_GMP_SECONDS: Final = 10.0
"""Usual delivery time of a GMP after source finality."""


class RefusedError(Exception):
    """A contract rejected the call. The message states the rule and, where known, the remedy.

    Attributes:
        revert: The decoded revert, or None if it can't be decoded.
    """

    revert: Revert | None = None

    @classmethod
    def of(cls, what: str, data: bytes, otherwise: str = "") -> Self:
        """Creates an error from revert data. `otherwise` is the advice to give if the data implies none."""
        revert = decode_revert(data)
        advice = (revert.advice or revert.meaning) if revert else otherwise
        error = cls(f"{what}: {explain_revert(data)}" + (f"; {advice}" if advice else ""))
        error.revert = revert
        return error


class FeeCapError(RefusedError):
    """The fee exceeds the cap. Nothing was sent."""


class NothingToRetryError(RefusedError):
    """The message has ended on its destination, so a retry would cost a fee without effect. Nothing was sent."""


class TtlTooShortError(RefusedError):
    """The message would expire before it could arrive. Nothing was sent."""


class NoRecipientError(RefusedError):
    """The recipient's address has no contract, so the message could not be executed. Nothing was sent."""


class NotIncludedError(Exception):
    """A transaction was broadcast but not included before the timeout."""


class UnknownMessageError(LookupError):
    """No chain of the network created a message with that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """A message to send, with its options."""

    destination: int | str  # chain id or name
    recipient: str
    payload: bytes | str  # text is sent as UTF-8
    gmps: Sequence[Gmp | str]  # a GMP or its name, such as "hyperlane"
    quorum: int | None = None  # None: all of `gmps`
    gas_limit: int = 200_000  # gas
    ttl: int | None = (
        None  # seconds; 0: never expires; None: the recommended TTL of its kind, but long enough to arrive
    )
    kind: Kind = Kind.PLAIN
    retriable: bool = True
    min_dispatched: int = 0  # 0: all of them
    replaces: bytes = bytes(32)  # first message of a series of re-issues; zero: none
    max_fee: int | None = None  # wei; None: no cap
    check_recipient: bool = True  # whether to reject a recipient without code

    @property
    def named(self) -> tuple[Gmp, ...]:
        """Returns the GMPs, in order.

        Raises:
            UnknownGmpError: no GMP has that name.
        """
        return named_gmps(self.gmps)

    @property
    def data(self) -> bytes:
        """Returns the payload as bytes."""
        return self.payload.encode() if isinstance(self.payload, str) else self.payload


def named_gmps(gmps: Sequence[Gmp | str]) -> tuple[Gmp, ...]:
    """Parses GMPs given as numbers or names. A string may contain several names, separated by commas.

    Raises:
        UnknownGmpError: no GMP has that name.
    """
    items: Sequence[Gmp | str] = gmps.split(",") if isinstance(gmps, str) else gmps
    return tuple(Gmp.parse(item) if isinstance(item, str) else item for item in items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that a source chain accepted, or a retry of it."""

    message: Message
    attempt: int
    gmps: frozenset[Gmp]  # GMPs that accepted it
    failed: frozenset[Gmp]  # GMPs that failed to accept it
    fee: int  # wei
    receipt: Receipt = field(repr=False)

    def __str__(self) -> str:
        """Returns message id, accepting GMPs, fee and transaction."""
        over = ", ".join(sorted(gmp.label for gmp in self.gmps)) or "no GMP"
        failed = f", refused by {', '.join(sorted(gmp.label for gmp in self.failed))}" if self.failed else ""
        return (
            f"message 0x{self.message.id.hex()}, attempt {self.attempt}, over {over}{failed}; fee {self.fee} wei;"
            f" transaction 0x{self.transaction.hex()}"
        )

    @property
    def transaction(self) -> bytes:
        """Returns the transaction's hash."""
        return self.receipt.transaction_hash


@dataclass(frozen=True, slots=True)
class Created:
    """A message as its source chain recorded it."""

    message: Message
    unfunded: bool  # created without its fee and not funded since
    retriable: bool | None  # None: unknown
    gmps: frozenset[Gmp] = frozenset()  # GMPs that the sender chose, if the event was read


class Client:
    """Calls a network's routers with one account."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        account: LocalAccount | Signer | None = None,
        asset_classes: Sequence[AssetClass] = (),
    ) -> None:
        """Creates a client without sending requests.

        Args:
            deployment: The network's deployment.
            chains: Connections by chain id, such as those from `bridge.evm.chain.open_chains`. Chains that are
                left out can't be used.
            account: Account that signs transactions. Without it, the client only reads.
            asset_classes: Classes whose minimum TTLs apply to routed messages.
        """
        self._asset_classes = asset_classes
        self._deployment = deployment
        self._chains = chains
        self._account = account

    async def quote(self, source: ChainDeployment, message: Message, gmps: Sequence[Gmp]) -> dict[Gmp, int]:
        """Returns each GMP's current fee for a message, in wei.

        Raises:
            RefusedError: a GMP can't carry the message.
            DeploymentError: the source has no adapter for a GMP.
        """
        router = RouterReader(self._chain(source), source.router)
        fees = {}
        for gmp in gmps:
            adapter = source.adapter(gmp)  # its error names the chain and the GMP
            try:
                fees[gmp] = await router.quote(message, gmp)
            except CallRevertedError as error:
                what = f"{gmp.label} gives no quote: its adapter {adapter} on {source.name}"
                wrong = (
                    f"one of {gmp.label}'s contracts failed: compare gmps.{gmp.label} and verification.{gmp.label} of"
                    f" {source.name} in the network file with {gmp.label}'s documentation"
                )
                raise RefusedError.of(what, error.data, wrong) from error
        return fees

    async def _priced(
        self, source: ChainDeployment, message: Message, gmps: Sequence[Gmp], min_dispatched: int
    ) -> dict[Gmp, int]:
        """Returns each GMP's fee in wei. The fee is 0 for a GMP without a quote if enough other GMPs have one."""
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
        """Returns each GMP's current fee for a new message, in wei. See `quote`."""
        origin = self._deployment.chain(source)
        return await self.quote(origin, self._draft(origin, request, self._sender), request.named)

    async def quote_retry(self, message: Message, gmps: Sequence[Gmp]) -> dict[Gmp, int]:
        """Returns each GMP's current fee for a retry, in wei. See `quote`."""
        return await self.quote(self._deployment.chain(message.source_chain), message, gmps)

    async def route(self, source: int | str, request: RouteRequest) -> Sent:
        """Sends a new message and waits until its transaction is included.

        A TTL below the minimum of the message's asset class is raised to that minimum. Without a TTL, the
        message gets the recommended TTL of its kind or the time that it needs to arrive, whichever is longer.

        Raises:
            TtlTooShortError: the message would expire before it could arrive; nothing was sent.
            NoRecipientError: the recipient has no contract, according to a reachable destination; nothing was sent.
            FeeCapError: the fees exceed `request.max_fee`; nothing was sent.
            RefusedError: the router rejected the call.
            DeploymentError: the network does not have the chain or an adapter.
        """
        origin = self._deployment.chain(source)
        call = await self.route_call(source, request, self._sender)
        return await self._send(call, origin, request.named)

    async def route_call(self, source: int | str, request: RouteRequest, sender: str) -> Call:
        """Returns the transaction that sends a message, for a contract or an external wallet.

        Args:
            source: Chain id or name.
            request: Message to send.
            sender: Account that sends the transaction and receives refunds.

        Raises:
            TtlTooShortError, NoRecipientError, FeeCapError, RefusedError, DeploymentError: see `route`.
        """
        origin = self._deployment.chain(source)
        destination = self._deployment.chain(request.destination)
        draft = self._draft(origin, request, sender)
        asset_class = class_of(draft, self._asset_classes)
        ttl = await self._ttl(origin, request)
        request = replace(request, ttl=resolve_ttl(ttl, None if asset_class is None else asset_class.min_ttl))
        await refuse_short_ttl(self._chain(origin), origin, request)
        if request.check_recipient and destination.chain_id in self._chains:
            with suppress(TransientError):  # a destination that does not respond is not checked
                if not await is_contract(self._chain(destination), request.recipient):
                    raise NoRecipientError(
                        f"{request.recipient} has no contract on {destination.name}, so the message could be paid for and"
                        " delivered, but not executed; correct the recipient, or set check_recipient to False"
                    )
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
        """Retries a message over the given GMPs.

        Args:
            message: The unchanged message.
            gmps: GMPs to retry over, old or new. Existing receipts still count.
            min_dispatched: Number of GMPs that must accept the message for the call to succeed.
            max_fee: Maximum fee in wei; None means no maximum.
            even_if_ended: Whether to retry a message that has ended on its destination.

        Raises:
            NothingToRetryError: the message has ended, according to a reachable destination; nothing was sent.
            FeeCapError: the fees exceed `max_fee`; nothing was sent.
            RefusedError: the router rejected the call: the account is not the sender, or the message is not
                retriable or differs from the original.
        """
        origin = self._deployment.chain(message.source_chain)
        if not even_if_ended:
            await self.refuse_ended(message)
        named = named_gmps(gmps)
        fees = await self._priced(origin, message, named, min_dispatched)
        _check_cap(fees, max_fee)
        arguments = (message.id, message_tuple(message), min_dispatched, _named(fees), self._sender)
        call = Call(to=origin.router, data=ROUTER.encode("retryRoute", arguments), value=sum(fees.values()))
        return await self._send(call, origin, named, message)

    async def execute(self, message: Message) -> Receipt:
        """Executes a message whose quorum is reached.

        Raises:
            RefusedError: the quorum is not reached, the message was already executed, or the recipient rejects it.
        """
        destination = self._deployment.chain(message.destination_chain)
        return await self._transact(destination, ROUTER.encode("execute", message_tuple(message)))

    async def fund(self, message: Message) -> Sent:
        """Pays for a message that was created without its fee, over the GMPs that its sender chose.

        Raises:
            RefusedError: the router rejected the call: the message is already funded, or too few GMPs accept it.
            UnknownMessageError: the source has not created the message.
        """
        origin, created = self._deployment.chain(message.source_chain), await self.created(message.id)
        if not created.unfunded:
            raise RefusedError(f"message 0x{message.id.hex()} is already paid for")
        gmps = sorted(created.gmps)
        fees = await self._priced(origin, message, gmps, message.quorum)
        data = ROUTER.encode("fund", message_tuple(message), self._sender)
        return await self._send(Call(to=origin.router, data=data, value=sum(fees.values())), origin, gmps, message)

    async def cancel(self, message: Message, gmps: Sequence[Gmp], min_dispatched: int = 1) -> Sent:
        """Sends a cancellation that stops the destination from executing a message.

        The message may be executed before the cancellation arrives.

        Returns:
            The cancellation, which is itself a message.

        Raises:
            RefusedError: the router rejected the call: the account is not the sender, or the router did not
                create the message.
        """
        origin = self._deployment.chain(message.source_chain)
        fees = await self.quote(origin, cancellation_of(message), gmps)
        data = ROUTER.encode("cancel", message_tuple(message), min_dispatched, _named(fees), self._sender)
        return await self._send(Call(to=origin.router, data=data, value=sum(fees.values())), origin, gmps)

    async def report(self, message: Message, gmps: Sequence[Gmp]) -> Sent:
        """Makes the destination report a message's outcome to the source, over at least its quorum of GMPs.

        Anyone may call this.

        Returns:
            The report, which is itself a message.

        Raises:
            RefusedError: the router rejected the call: the message has not ended on the destination.
        """
        destination = self._deployment.chain(message.destination_chain)
        return await self._send(await self.report_call(message, gmps, self._sender), destination, gmps)

    async def report_call(self, message: Message, gmps: Sequence[Gmp], refund_to: str) -> Call:
        """Returns the call that makes the destination report a message's outcome, with the current fees."""
        destination = self._deployment.chain(message.destination_chain)
        fees = await self.quote(destination, report_of(message), gmps)
        data = ROUTER.encode("report", message_tuple(message), message.quorum, _named(fees), refund_to)
        return Call(to=destination.router, data=data, value=sum(fees.values()))

    async def expire(self, message: Message) -> Receipt:
        """Marks an overdue message as expired, permanently. Anyone may call this.

        Raises:
            RefusedError: the TTL has not elapsed, or the message has already ended.
        """
        destination = self._deployment.chain(message.destination_chain)
        return await self._transact(destination, ROUTER.encode("expire", message_tuple(message)))

    async def appoint_retrier(self, source: int | str, retrier: str) -> Receipt:
        """Allows another account to retry all messages of this account on a chain.

        The zero address revokes the permission.
        """
        return await self._transact(self._deployment.chain(source), ROUTER.encode("appointRetrier", retrier))

    async def refuse_ended(self, message: Message) -> None:
        """Checks that a message has not ended on its destination. Passes if the destination is unreachable.

        Raises:
            NothingToRetryError: the message has ended.
        """
        if message.destination_chain not in self._chains:
            return
        try:
            progress = await self.progress(message)
        except TransientError:
            return
        if progress.ended:
            how = "was executed" if progress.executed else "expired or was cancelled"
            raise NothingToRetryError(
                f"message 0x{message.id.hex()} {how} on {self._deployment.chain(message.destination_chain).name}: a retry"
                " would cost a fee without effect"
            )

    async def progress(self, message: Message) -> Progress:
        """Returns the message's current state on the destination's router."""
        destination = self._deployment.chain(message.destination_chain)
        return await RouterReader(self._chain(destination), destination.router).progress(message.id)

    async def wait(self, message: Message, timeout: float) -> Progress:  # noqa: ASYNC109  # the user's own limit
        """Waits until the message ends or `timeout` seconds have passed, and returns its progress.

        The progress states whether the message was executed.
        """
        progress = Progress(frozenset(), executed=False, ended=False)
        async for progress in self.watch(message, timeout):
            if progress.executed:
                break
        return progress

    async def watch(self, message: Message, timeout: float) -> AsyncIterator[Progress]:  # noqa: ASYNC109  as `wait`
        """Yields the message's progress now and after each change, until it ends or `timeout` seconds have passed."""
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
        """Returns the message with that id from its source chain. See `created`."""
        return (await self.created(message_id)).message

    async def created(self, message_id: bytes) -> Created:
        """Returns the source chain's record of the message with that id.

        Raises:
            UnknownMessageError: no reachable chain of the network created it.
        """
        reachable = [chain for chain in self._deployment.chains if chain.chain_id in self._chains]
        for origin in reachable:
            created = None
            async for event, message in created_messages(self._chain(origin), origin):
                if message.id == message_id:
                    is_unfunded = isinstance(event, MessageUnfunded)
                    created = Created(message, is_unfunded, event.retriable, gmps_from_bits(event.gmps))
                    if not created.unfunded:
                        break
            if created is not None:
                return created
        unreachable = [chain.name for chain in self._deployment.chains if chain not in reachable]
        note = f", and {' and '.join(unreachable)} did not answer" if unreachable else ": check the id and the network"
        raise UnknownMessageError(
            f"no chain in network {self._deployment.network!r} created message 0x{message_id.hex()}{note}"
        )

    def _draft(self, origin: ChainDeployment, request: RouteRequest, sender: str) -> Message:
        """Returns the message as the router will create it, except for nonce and time. Suitable for quotes."""
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
        """Returns the requested TTL in seconds, or the kind's recommended TTL, but at least the time to arrive."""
        if request.ttl is not None:
            return request.ttl
        recommended = default_ttl(request.kind)
        if recommended == 0 or request.kind is Kind.HEARTBEAT:
            return recommended
        finality = await seconds_to_finality(self._chain(origin), origin)
        return max(recommended, math.ceil(finality + USUAL_GMP_SECONDS))

    def _chain(self, deployed: ChainDeployment) -> Chain:
        if deployed.chain_id not in self._chains:
            raise DeploymentError(f"the client has no connection to {deployed.name}, chain {deployed.chain_id}")
        return self._chains[deployed.chain_id]

    @property
    def _signer(self) -> LocalAccount | Signer:
        if self._account is None:
            raise RefusedError("signing requires an account, but the client has none")
        return self._account

    @property
    def _sender(self) -> str:
        return str(self._signer.address)

    async def _transact(self, where: ChainDeployment, data: bytes) -> Receipt:
        return await transact(self._chain(where), self._signer, Call(to=where.router, data=data))

    async def _send(
        self, call: Call, where: ChainDeployment, gmps: Sequence[Gmp], message: Message | None = None
    ) -> Sent:
        """Sends a call that routes a message; without `message`, the router's event has it."""
        receipt = await transact(self._chain(where), self._signer, call)
        for log in receipt.logs:
            is_ours = log.address.lower() == where.router.lower()
            event = decode_event(log.topics, log.data) if is_ours else None
            if isinstance(event, MessageRouted):
                message = decode_envelope(event.envelope).message
            if isinstance(event, MessageRouted | MessageRetried) and message is not None:
                accepted = gmps_from_bits(event.gmps)
                return Sent(
                    message=message,
                    attempt=event.attempt if isinstance(event, MessageRetried) else 0,
                    gmps=accepted,
                    failed=frozenset(gmps) - accepted,
                    fee=call.value,
                    receipt=receipt,
                )
        raise DeploymentError(f"{where.router} emitted no routing event; check that it is Waybill's router")


def cancellation_of(message: Message) -> Message:
    """Returns the message that cancels another message, except for nonce and time. Suitable for quotes."""
    return _about(message, Kind.CANCELLATION)


def report_of(message: Message) -> Message:
    """Returns the message that reports another message's outcome, except for nonce, time and outcome.

    Suitable for quotes.
    """
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
    total = sum(fees.values())
    if cap is not None and total > cap:
        breakdown = ", ".join(f"{gmp.label} {fee}" for gmp, fee in fees.items())
        raise FeeCapError(f"the GMPs charge {total} wei ({breakdown}), above the cap of {cap} wei; nothing was sent")


def _named(fees: Mapping[Gmp, int]) -> list[tuple[int, int]]:
    return [(int(gmp), fee) for gmp, fee in fees.items()]


async def refuse_short_ttl(chain: Chain, source: ChainDeployment, request: RouteRequest) -> None:
    """Checks that a message can arrive within its TTL. Heartbeats are exempt, because the next one replaces them.

    Raises:
        TtlTooShortError: the message would expire before delivery; nothing was sent.
        TransientError: the chain did not respond.
    """
    if not request.ttl or request.kind is Kind.HEARTBEAT:
        return
    finality = await seconds_to_finality(chain, source)
    if request.ttl < finality + USUAL_GMP_SECONDS:
        raise TtlTooShortError(
            f"a TTL of {request.ttl} s is too short to arrive: finality on {source.name} takes {finality:g} s, and a GMP"
            f" usually takes {USUAL_GMP_SECONDS:g} s; use a longer TTL, or 0 for none"
        )


async def seconds_to_finality(chain: Chain, deployed: ChainDeployment) -> float:
    """Returns the current delay in seconds until relayers act on a block: the age of the newest such block.

    Raises:
        TransientError: the chain did not respond.
    """
    head = await chain.head()
    rule = FinalityRule.of(deployed)
    final = await chain.block(max(rule.last(head, await rule.tagged(chain)), 0))
    return 0.0 if final is None else float(head.timestamp - final.timestamp)


async def transact(chain: Chain, account: LocalAccount | Signer, call: Call, *, nonce: int | None = None) -> Receipt:
    """Sends one transaction and waits until it is included, raising its fees every 15 seconds.

    Suitable for accounts that send one transaction at a time. The relayer uses the nonce ledger instead (`bridge.evm`).

    Args:
        chain: Connected chain.
        account: Account that signs and pays.
        call: Target, calldata and value.
        nonce: The account's next nonce, if the caller counts nonces; None queries the chain.

    Raises:
        RefusedError: the contract reverts, the account lacks funds, or another transaction used the nonce.
        NotIncludedError: the transaction was not included before the timeout, or no node confirmed that it
            accepted the transaction.
        TransientError: the chain did not respond, and nothing was sent.
    """
    signer = LocalSigner(account) if isinstance(account, LocalAccount) else account
    sender = signer.address
    try:
        needed = await chain.estimate_gas(call, sender)
    except CallRevertedError as error:
        raise RefusedError.of(f"{call.to} on chain {chain.chain_id} reverts", error.data) from error
    except InsufficientFundsError as error:
        raise RefusedError(await _funds_error(chain, sender, call.value)) from error
    unsigned = UnsignedTransaction(
        chain_id=chain.chain_id,
        nonce=await chain.transaction_count(sender) if nonce is None else nonce,
        to=call.to,
        data=call.data,
        value=call.value,
        gas=max(needed, min(int(needed * _GAS_MARGIN), TRANSACTION_GAS)),
        fees=await chain.fees(),
    )
    receipt = await _included(chain, signer, unsigned)
    if not receipt.succeeded:
        raise RefusedError(
            f"transaction 0x{receipt.transaction_hash.hex()} on chain {chain.chain_id} reverted although its estimate"
            " succeeded, because the state changed in between; try again"
        )
    return receipt


async def _included(chain: Chain, signer: Signer, unsigned: UnsignedTransaction) -> Receipt:
    """Broadcasts a transaction until it is included, raising the fees each time, and returns its receipt."""
    began, hashes = time.monotonic(), [await _broadcast(chain, signer, unsigned)]
    while (waited := time.monotonic() - began) < _INCLUSION_SECONDS:
        if waited >= len(hashes) * _RAISE_SECONDS:
            rise = _FEE_RISE ** len(hashes)
            fees = Fees(int(unsigned.fees.max_fee * rise), int(unsigned.fees.priority_fee * rise))
            with suppress(TransientError):  # an earlier version may already be included
                signed = await signer.sign(replace(unsigned, fees=fees))
                hashes.append(signed.hash)
                await chain.broadcast(signed.raw)
        with suppress(TransientError):  # for example, endpoints that must agree while only some have the block
            for transaction_hash in reversed(hashes):
                if (receipt := await chain.receipt(transaction_hash)) is not None:
                    return receipt
        await asyncio.sleep(min(0.05 + waited / 10, 1.0))
    raise NotIncludedError(
        f"transaction 0x{hashes[-1].hex()} was broadcast but not included within {_INCLUSION_SECONDS} s;"
        " look it up before sending again"
    )


async def _broadcast(chain: Chain, signer: Signer, unsigned: UnsignedTransaction) -> bytes:
    """Signs and broadcasts a transaction, and returns its hash.

    Raises:
        RefusedError: the account lacks funds, or another of its transactions used the nonce, so this one was dropped.
        NotIncludedError: no node confirmed that it accepted the transaction.
    """
    sender, signed = signer.address, await signer.sign(unsigned)
    try:
        await chain.broadcast(signed.raw)
    except InsufficientFundsError as error:
        needed = unsigned.value + unsigned.gas * unsigned.fees.max_fee
        raise RefusedError(await _funds_error(chain, sender, needed)) from error
    except UnansweredError as error:  # a node may have accepted it nevertheless
        raise NotIncludedError(
            f"no node confirmed that it accepted transaction 0x{signed.hash.hex()} ({error}); look it up before sending"
            " again"
        ) from error
    except TransientError as error:
        reason = error.__cause__
        if not isinstance(reason, RpcError) or reason.meaning not in (Meaning.NONCE_USED, Meaning.UNDERPRICED):
            raise
        waiting = await chain.pending_count(sender) - await chain.transaction_count(sender)
        if waiting == 0 and reason.meaning is Meaning.UNDERPRICED:
            raise
        others = f"{waiting} still pending" if waiting else "one at the same time"
        raise RefusedError(
            f"account {sender} sent other transactions on chain {chain.chain_id} ({others}), so this "
            "transaction was not sent: wait for them and try again, or use a different account"
        ) from error
    return signed.hash


async def _funds_error(chain: Chain, account: str, needed: int) -> str:
    balance = await chain.balance(account)
    return (
        f"account {account} has {balance} wei on chain {chain.chain_id} and needs at least {needed} wei: send it funds"
    )
