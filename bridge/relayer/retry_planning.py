"""Whether and how a message is retried: read from both of its chains, just before the money is spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bridge.evm.actions import contract_retry_call, is_contract_retrier
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
    """A retry would change nothing any more."""


class ExecutableError(NotNeededError):
    """Its quorum has delivered: it has to be executed, not retried."""

    def __init__(self) -> None:
        super().__init__("its quorum has delivered: it has to be executed, not retried")


class ImpossibleError(Exception):
    """The router will never take the retry."""


class NotNowError(Exception):
    """The retry can't be made now, and may be later."""


class BudgetSpentError(NotNowError):
    """No further retry of its message is paid for."""

    def __init__(self, why: str, message: Message) -> None:
        super().__init__(why)
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A retry that is ready to be sent."""

    message: Message
    attempt: int
    gmps: tuple[Gmp, ...]
    call: Call
    sender: Sender

    @property
    def transaction_key(self) -> str:
        """Names the attempt: a second caller for the same one joins the transaction that is under way."""
        return retry_transaction_key(self.message.id, self.attempt)


async def _open_quorum(message: Message, destination: RouterReader) -> tuple[Progress, int]:
    """How far a message is whose quorum is still open, and how many receipts it misses."""
    progress = await destination.progress(message.id)
    if progress.executed:
        raise NotNeededError("it is executed")
    if progress.ended:
        raise NotNeededError("it has expired or was cancelled")
    missing = await destination.missing_receipts(message)
    if missing == 0:
        raise ExecutableError
    return progress, missing


def retry_transaction_key(message_id: bytes, attempt: int) -> str:
    """What the nonce ledger calls the transaction of an attempt."""
    return f"retry/0x{message_id.hex()}/{attempt}"


class Planner:
    """Makes plans for the messages of one network."""

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
        """Knows the accounts that may retry.

        Args:
            deployment: the network.
            chains: its chains by id.
            senders: accounts by chain and address in small letters.
            store: what was observed.
            usable: GMPs to retry over, as far as the routers enable them.
            gate: asked before each plan.
            retry_for: senders (32 bytes) whose appointment is accepted: anybody can appoint an account of ours as retrier, and
                that spends our money. None is every one.
        """
        self._deployment = deployment
        self._chains = chains
        self._senders = senders
        self._store = store
        self._usable = usable
        self._gate = gate
        self._retry_for = retry_for

    async def find(self, message_id: bytes, source_chain: int | None = None, hint: int | None = None) -> Message:
        """The message with that id, on its source chain or, if that is not known, on any.

        Raises:
            ImpossibleError: no router of the network created it.
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
        ranking: tuple[Gmp, ...] = (),
        blind: bool = False,
        wide: bool = False,
    ) -> Plan:
        """How to retry a message.

        Args:
            message: which one.
            attempt: the attempt asked for; None is whichever is next.
            gmps: over which; None chooses.
            tried: GMPs that took it before, as far as the caller knows; the store may know of others.
            ranking: GMPs, the best first, for the choice among those that are as good otherwise.
            blind: whether it is retried without a word of its destination, which may be down: as many GMPs as its quorum.
            wide: whether every GMP that can carry it does, and not as few as are needed.

        Raises:
            NotNeededError: it has ended, its quorum has delivered, or that attempt was made.
            ImpossibleError: it is not retriable.
            NotNowError: no key, no GMP, or too expensive.
            SpendBlockedError: its sender has appointed us without our consent, or the gate refuses it.
        """
        source, destination = self._routers(message)
        received, missing = frozenset[Gmp](), message.quorum
        if not blind:
            progress, missing = await _open_quorum(message, destination)
            received = progress.receipts
        sent = await source.sent_message(message.id)
        if sent is None:
            raise ImpossibleError("it was not routed as retriable")
        if attempt is not None and sent.attempts >= attempt:
            raise NotNeededError(f"it was retried meanwhile: {sent.attempts} times by now")
        self._gate.admit(message, message.source_chain)
        sender, contract = await self._sender(message, source, sent)
        if gmps is not None:
            order, needed = list(gmps), len(gmps)
        else:
            usable = self._usable & await source.enabled_gmps()
            usable &= self._deployed(message.destination_chain) if blind else await destination.enabled_gmps()
            order = self._ranked(message, usable, received, tried, ranking)
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
        """Who retries it, and the contract that it has to go through: the sender itself, if we are its own retrier."""
        try:
            owner = from_bytes32(message.sender).lower()
        except AddressError as error:
            raise ImpossibleError(f"its sender is no account of an EVM chain: {error}") from error
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
                why = f"its sender {owner} has appointed {named}, which pays for no retries of it: add it to {setting}"
                raise SpendBlockedError(Refusal(Bound.CONSENT, why))
            return appointed, contract
        if retrier:
            raise NotNowError(
                f"its sender {owner} has appointed the retrier {retrier}, whose key this relayer does not have"
            )
        ours = next((account for chain, account in self._senders if chain == message.source_chain), None)
        how = f": `waybill role set retrier {ours}`, signed by the sender, appoints this relayer" if ours else ""
        raise NotNowError(f"its sender {owner} has appointed no retrier{how}")

    async def _contract_retrier(self, message: Message, owner: str) -> Sender | None:
        """An account of ours that the sender, a contract, lets retry what it sends (`IRouterClient.setRetrier`)."""
        chain = self._chains[message.source_chain]
        for (chain_id, address), sender in self._senders.items():
            if chain_id == message.source_chain and await is_contract_retrier(chain, owner, address):
                return sender
        return None

    def _ranked(
        self,
        message: Message,
        usable: frozenset[Gmp],
        received: frozenset[Gmp],
        tried: frozenset[Gmp],
        ranking: tuple[Gmp, ...],
    ) -> list[Gmp]:
        tried = tried.union(*(one.gmps for one in self._store.observations.attempts(message.id)))
        failing = self._store.outbox.failing(message.source_chain, message.destination_chain)
        situation = Situation(
            usable=usable,
            received=received,
            tried=tried,
            failing=failing,
            given_up=given_up_on(self._store.outbox.entries(message.id)),
            ranking=ranking,
        )
        order = ranked(situation)
        if not order:
            raise NotNowError("no GMP is left: the others are paused, not enabled, or have delivered")
        return order

    async def _quotes(self, message: Message, source: RouterReader, order: list[Gmp], needed: int) -> dict[Gmp, int]:
        """The fees of the first GMPs that can carry it, as many as are needed."""
        fees: dict[Gmp, int] = {}
        for gmp in order:
            if len(fees) == needed:
                break
            try:
                fees[gmp] = await source.quote(message, gmp)
            except CallRevertedError:
                continue  # it has no way to that chain
        if not fees:
            raise NotNowError(f"none of {', '.join(gmp.label for gmp in order)} can carry it now")
        return fees


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known of the GMPs with regard to one message."""

    usable: frozenset[Gmp]  # enabled on both routers, and delivered over by this relayer
    received: frozenset[Gmp]  # have delivered it
    tried: frozenset[Gmp]  # took it in an earlier attempt
    failing: frozenset[Gmp]  # fail on its lane now
    given_up: frozenset[Gmp] = frozenset()  # a delivery of this very message over it has died
    ranking: tuple[Gmp, ...] = ()  # the index's: by how they have done on the lane of late, the best first


def ranked(situation: Situation) -> list[Gmp]:
    """The GMPs that may carry the message again, the best first.

    Those over which it has died come last, before them those that fail now, before them those that were tried and are silent;
    among equals the index's ranking decides.
    """
    place = {gmp: position for position, gmp in enumerate(situation.ranking)}
    return sorted(
        situation.usable - situation.received,
        key=lambda gmp: (
            gmp in situation.given_up,
            gmp in situation.failing,
            gmp in situation.tried,
            place.get(gmp, len(place)),
            gmp,
        ),
    )


def given_up_on(entries: Iterable[OutboxEntry]) -> frozenset[Gmp]:
    """The GMPs over which a message's deliveries have died."""
    return frozenset(entry.dispatch.gmp for entry in entries if entry.state is OutboxState.DEAD)


async def find_message(
    message_id: bytes, observations: Observations, chain: Chain, deployed: ChainDeployment, hint: int | None = None
) -> Message | None:
    """Finds a message in the store, or in the source's logs if it is older than the store.

    Returns None if the chain's router never routed it.

    Args:
        message_id: which one.
        observations: looked at first.
        chain: its source.
        deployed: what is on that chain.
        hint: a block that may hold it, looked at before all others.
    """
    observed = observations.message(message_id)
    if observed is not None:
        return observed.message
    for block in (None,) if hint is None else (hint, None):
        async for event, message in created_messages(chain, deployed, block):
            if message.id == message_id and isinstance(event, MessageRouted):
                return message
    return None
