"""Plans retries. Reads both chains just before spending money, and decides whether to retry and over which GMPs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bridge.evm.retriers import contract_retry_call, is_contract_retrier
from bridge.evm.routers import Progress, RouterReader, SentMessage, created_messages
from bridge.evm.sender import Sender
from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.events import MessageRouted
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, CallRevertedError, Chain
from bridge.records.outbox import OutboxEntry, OutboxState
from bridge.records.spending import Bound, Refusal, SpendBlockedError
from bridge.relayer.spending import SpendGate
from bridge.store import Store
from bridge.store.observations import Observations


class NotNeededError(Exception):
    """A retry would not change anything."""


class ExecutableError(NotNeededError):
    """The quorum has delivered: the message needs an execution, not a retry."""

    def __init__(self) -> None:
        super().__init__("the quorum has delivered: execute the message instead of retrying it")


class ImpossibleError(Exception):
    """The router will never accept the retry."""


class NotNowError(Exception):
    """The retry is not possible now, but may be later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A retry that is ready to send."""

    message: Message
    attempt: int
    gmps: tuple[Gmp, ...]
    call: Call
    sender: Sender

    @property
    def transaction_key(self) -> str:
        """Returns the key of the attempt's transaction; a second caller joins the transaction in progress."""
        return retry_transaction_key(self.message.id, self.attempt)


async def _open_quorum(message: Message, destination: RouterReader) -> tuple[Progress, int]:
    """Returns the progress of a message without a quorum, and the number of missing receipts."""
    progress = await destination.progress(message.id)
    if progress.executed:
        raise NotNeededError("the message was already executed")
    if progress.ended:
        raise NotNeededError("the message has expired or was cancelled")
    missing = await destination.missing_receipts(message)
    if missing == 0:
        raise ExecutableError
    return progress, missing


def retry_transaction_key(message_id: bytes, attempt: int) -> str:
    """Returns the nonce ledger's key for the transaction of an attempt."""
    return f"retry/0x{message_id.hex()}/{attempt}"


class Planner:
    """Plans retries of messages on one network."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        senders: Mapping[tuple[int, str], Sender],
        store: Store,
        usable: frozenset[Gmp],
        gate: SpendGate,
        retry_for: frozenset[bytes] | None = None,
    ) -> None:
        """Stores the dependencies.

        Args:
            deployment: The network.
            chains: Chains of the network by id.
            senders: Retry accounts by chain and lower-case address.
            store: Observed messages.
            usable: GMPs to retry over, if the routers enable them.
            gate: Spending gate, consulted before each plan.
            retry_for: Senders (32 bytes) whose appointment is accepted; None accepts all. Anyone can appoint
                our account as their retrier and so make us pay for their retries.
        """
        self._deployment = deployment
        self._chains = chains
        self._senders = senders
        self._store = store
        self._usable = usable
        self._gate = gate
        self._retry_for = retry_for

    async def find(self, message_id: bytes, source_chain: int | None = None, hint: int | None = None) -> Message:
        """Finds a message by id on its source chain, or on any chain if the source is not known.

        Raises:
            ImpossibleError: No router of the network created the message.
        """
        for deployed in self._deployment.chains:
            if source_chain is not None and deployed.chain_id != source_chain:
                continue
            chain = self._chains[deployed.chain_id]
            message = await find_message(message_id, self._store.observations, chain, deployed, hint)
            if message is not None:
                return message
        raise ImpossibleError(f"no router of network {self._deployment.network!r} created message 0x{message_id.hex()}")

    async def plan(
        self,
        message: Message,
        *,
        attempt: int | None = None,
        gmps: tuple[Gmp, ...] | None = None,
        tried: frozenset[Gmp] = frozenset(),
        blind: bool = False,
        wide: bool = False,
    ) -> Plan:
        """Plans the retry of a message.

        Args:
            message: The message.
            attempt: Requested attempt number; None means the next one.
            gmps: GMPs to use; None lets the planner choose.
            tried: GMPs that carried the message before, as far as the caller knows. The store may know more.
            blind: Whether to retry without querying the destination, which may be down, over as many GMPs as
                the quorum.
            wide: Whether to use every GMP that can carry it, rather than as few as needed.

        Raises:
            NotNeededError: The message has ended, its quorum has delivered, or that attempt was already made.
            ImpossibleError: The message is not retriable.
            NotNowError: There is no key or no GMP for the retry now.
            SpendBlockedError: The sender appointed us without our consent, or the gate blocks the payment.
        """
        source, destination = self._routers(message)
        received, missing = frozenset[Gmp](), message.quorum
        if not blind:
            progress, missing = await _open_quorum(message, destination)
            received = progress.receipts
        sent = await source.sent_message(message.id)
        if sent is None:
            raise ImpossibleError("the message was not routed as retriable")
        if attempt is not None and sent.attempts >= attempt:
            raise NotNeededError(f"retry {attempt} was already sent; the router counts {sent.attempts} so far")
        self._gate.admit(message, message.source_chain)
        sender, contract = await self._sender(message, source, sent)
        if gmps is not None:
            order, needed = list(gmps), len(gmps)
        else:
            usable = self._usable & await source.enabled_gmps()
            usable &= self._deployed(message.destination_chain) if blind else await destination.enabled_gmps()
            order = self._ranked(message, usable - received, tried)
            needed = len(order) if wide else missing
        fees = await self._quotes(message, source, order, needed)
        if contract is None:
            call = source.retry_call(message, list(fees.items()), sender.address)
        else:
            call = contract_retry_call(message, contract, list(fees.items()), sender.address)
        return Plan(message=message, attempt=sent.attempts + 1, gmps=tuple(fees), call=call, sender=sender)

    def _deployed(self, chain_id: int) -> frozenset[Gmp]:
        return self._deployment.chain(chain_id).gmp_numbers

    def _routers(self, message: Message) -> tuple[RouterReader, RouterReader]:
        try:
            source = self._deployment.chain(message.source_chain)
            destination = self._deployment.chain(message.destination_chain)
        except DeploymentError as error:
            raise ImpossibleError(str(error)) from error
        return (
            RouterReader(self._chains[source.chain_id], source.router),
            RouterReader(self._chains[destination.chain_id], destination.router),
        )

    async def _sender(self, message: Message, source: RouterReader, sent: SentMessage) -> tuple[Sender, str | None]:
        """Returns the account that retries, and the contract to call.

        The contract is None if we are the sender's own retrier.
        """
        try:
            owner = from_bytes32(message.sender).lower()
        except AddressError as error:
            raise ImpossibleError(f"the sender is not an EVM account: {error}") from error
        own = self._senders.get((message.source_chain, owner))
        if own is not None:
            return own, None
        retrier = await source.retrier_of(sent.sender)
        appointed: Sender | None = None
        contract: str | None = None
        if retrier:
            appointed = self._senders.get((message.source_chain, retrier))
        if appointed is None:
            appointed, contract = await self._contract_retrier(message, owner), owner
        if appointed is not None:
            if self._retry_for is not None and message.sender not in self._retry_for:
                setting, named = Bound.CONSENT.value, appointed.address.lower()
                why = (
                    f"sender {owner} has appointed {named}, which does not pay for the sender's retries: add "
                    f"the sender to {setting}"
                )
                raise SpendBlockedError(Refusal(Bound.CONSENT, why))
            return appointed, contract
        if retrier:
            raise NotNowError(
                f"sender {owner} has appointed the retrier {retrier}, whose key this relayer does not have"
            )
        ours = next((account for chain, account in self._senders if chain == message.source_chain), None)
        how = f": `waybill role set retrier {ours}`, signed by the sender, appoints this relayer" if ours else ""
        raise NotNowError(f"sender {owner} has appointed no retrier{how}")

    async def _contract_retrier(self, message: Message, owner: str) -> Sender | None:
        """Returns our account that a sending contract allows to retry its messages (`IRouterClient.setRetrier`)."""
        chain = self._chains[message.source_chain]
        for (chain_id, address), sender in self._senders.items():
            if chain_id == message.source_chain and await is_contract_retrier(chain, owner, address):
                return sender
        return None

    def _ranked(self, message: Message, candidates: frozenset[Gmp], tried: frozenset[Gmp]) -> list[Gmp]:
        order = ranked(
            candidates,
            tried=tried.union(*(one.gmps for one in self._store.observations.attempts(message.id))),
            failing=self._store.outbox.failing(message.source_chain, message.destination_chain),
            given_up=given_up_on(self._store.outbox.entries(message.id)),
        )
        if not order:
            raise NotNowError("no GMP left to try: all are paused, disabled, or have delivered")
        return order

    async def _quotes(self, message: Message, source: RouterReader, order: list[Gmp], needed: int) -> dict[Gmp, int]:
        """Returns the fees in wei of the first `needed` GMPs that can carry the message."""
        fees: dict[Gmp, int] = {}
        for gmp in order:
            if len(fees) == needed:
                break
            try:
                fees[gmp] = await source.quote(message, gmp)
            except CallRevertedError:
                continue  # no route to that chain
        if not fees:
            raise NotNowError(f"none of {', '.join(gmp.label for gmp in order)} can carry the message now")
        return fees


def ranked(
    candidates: frozenset[Gmp],
    *,
    tried: frozenset[Gmp],
    failing: frozenset[Gmp],
    given_up: frozenset[Gmp],
) -> list[Gmp]:
    """Ranks the GMPs that may carry a message again, best first.

    Untried GMPs come first, then those tried without a result, then those failing now, and last those over
    which a delivery has died. Equals are ordered by their number.

    Args:
        candidates: GMPs that can carry the message and have not delivered it.
        tried: GMPs that accepted an earlier attempt.
        failing: GMPs that currently fail on the message's lane.
        given_up: GMPs over which a delivery of the message is DEAD.
    """
    return sorted(candidates, key=lambda gmp: (gmp in given_up, gmp in failing, gmp in tried, gmp))


def given_up_on(entries: Iterable[OutboxEntry]) -> frozenset[Gmp]:
    """Returns the GMPs over which a message's deliveries have died."""
    return frozenset(entry.dispatch.gmp for entry in entries if entry.state is OutboxState.DEAD)


async def find_message(
    message_id: bytes, observations: Observations, chain: Chain, deployed: ChainDeployment, hint: int | None = None
) -> Message | None:
    """Finds a message in the store, or in the source's logs if the message is older than the store.

    Returns None if the chain's router never routed the message.

    Args:
        message_id: Id of the message.
        observations: Observed messages, searched first.
        chain: Source chain.
        deployed: Contracts on that chain.
        hint: Block that may contain the message, searched before all others.
    """
    observed = observations.message(message_id)
    if observed is not None:
        return observed.message
    for block in (None,) if hint is None else (hint, None):
        async for event, message in created_messages(chain, deployed, block):
            if message.id == message_id and isinstance(event, MessageRouted):
                return message
    return None
