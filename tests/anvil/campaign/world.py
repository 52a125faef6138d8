"""Everything around the routers: time, money, and doubles, which play accounts, recipients and adapters (Double.sol)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eth_utils import keccak

from bridge.protocol.message import Message
from tests.anvil.campaign.records import Call, Conduct, Execution, Mood, RevertError, about

if TYPE_CHECKING:
    from tests.anvil.campaign.router import Router


class World:
    """Two chains: their time, their routers, what every account has and does."""

    def __init__(self, now: int) -> None:
        self.now = now  # Unix seconds, on both chains
        self.gas = 0  # of the transaction under way
        self.routers: list[Router] = []
        self.balances: dict[tuple[int, str], int] = {}
        """In wei, by chain and account."""
        self.conducts: dict[tuple[int, str], Conduct] = {}
        self.events: list[tuple[Any, ...]] = []
        """Of the transaction under way: who emitted it, its name, its arguments."""
        self.messages: dict[bytes, Message] = {}
        self.abouts: dict[bytes, tuple[Message, Execution]] = {}
        """Payloads of cancellations and reports, and what they say: the message they are about, and its end."""
        self.speakers: dict[tuple[int, str], str] = {}
        """The router that a double speaks to as an adapter, by chain and double."""

    def know(self, message: Message) -> Message:
        """Adds a message to those that can be delivered, whether or not a router created it."""
        self.messages[message.id] = message
        return message

    def say(self, original: Message, end: Execution) -> bytes:
        """The payload of a message about another one."""
        payload = about(original, end)
        self.abouts[payload] = (original, end)
        return payload

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Undoes everything that happened in it if it is refused."""
        stores: list[Any] = [self, *self.routers]
        before = [{key: _copied(value) for key, value in vars(store).items()} for store in stores]
        try:
            yield
        except RevertError:
            known, payloads = self.messages, self.abouts
            for store, values in zip(stores, before, strict=True):
                vars(store).update(values)
            self.messages, self.abouts = known, payloads
            raise

    def emit(self, emitter: str, name: str, *arguments: Any) -> None:
        """Notes an event."""
        self.events.append((emitter, name, *arguments))

    def transact(self, caller: str, call: Call, gas: int) -> None:
        """Makes a call of a router in a transaction of its own."""
        self.gas, self.events = gas, []
        self.perform(caller, call)

    def perform(self, caller: str, call: Call) -> None:
        """Makes a call of a router."""
        router = self.routers[call.router]
        with self.frame():
            self.pay(router.chain, caller, router.address, call.value)
            getattr(router, call.method)(caller, call.value, *call.arguments)

    def pay(self, chain: int, payer: str, payee: str, amount: int) -> None:
        """Moves money; the payee is not called."""
        if self.balances.get((chain, payer), 0) < amount:
            raise RevertError("")
        self.balances[chain, payer] = self.balances.get((chain, payer), 0) - amount
        self.balances[chain, payee] = self.balances.get((chain, payee), 0) + amount

    # ---- doubles

    def refund(self, router: Router, account: str, amount: int) -> None:
        """A router pays an account, which is called."""
        with self.frame():
            self.pay(router.chain, router.address, account, amount)
            conduct = self.conducts.get((router.chain, account))
            if conduct is not None and conduct.mood == Mood.REFUSES_MONEY:
                raise RevertError("Refused")
            self.act(router.chain, account)

    def quote(self, router: Router, adapter: str) -> int | None:
        """What an adapter asks for, in wei; None if it gives no quote."""
        conduct = self.conducts[router.chain, adapter]
        return conduct.fee if conduct.mood in (Mood.WILLING, Mood.REFUSES_MONEY) else None

    def dispatch(self, router: Router, adapter: str, fee: int, message: Message, refund_to: str) -> None:
        """A router hands a message to an adapter."""
        with self.frame():
            self.pay(router.chain, router.address, adapter, fee)
            conduct = self._submit(router.chain, adapter)
            if fee < conduct.fee:
                raise RevertError("WrongFee")
            envelope_hash = keccak(message.encode())
            carried = (
                message.destination_chain,
                message.destination_router,
                envelope_hash,
                message.gas_limit,
                refund_to,
            )
            self.emit(adapter, "Carried", *carried)
            if fee > conduct.fee:
                self.perform(adapter, Call(router.index, "credit_surplus", (refund_to,), fee - conduct.fee))
            self.act(router.chain, adapter)

    def receive(self, router: Router, recipient: str, message: Message) -> None:
        """A router calls a recipient."""
        with self.frame():
            if any((other.chain, other.address) == (router.chain, recipient) for other in self.routers):
                raise RevertError("")  # a router is no recipient of another's messages
            if (router.chain, recipient) not in self.conducts:
                raise RevertError("WrongReturnValue")
            conduct = self._submit(router.chain, recipient)
            self.emit(recipient, "Received", message.id, message.payload_hash)
            self.act(router.chain, recipient)
            if conduct.mood == Mood.ANSWERS_WRONGLY:
                raise RevertError("WrongReturnValue")

    def act(self, chain: int, double: str) -> None:
        """A double makes its call, and notes what became of it."""
        conduct = self.conducts.get((chain, double))
        if conduct is None or conduct.call is None:
            return
        try:
            self.perform(double, conduct.call)
        except RevertError as refused:
            self.emit(double, "Called", False, refused.name)
        else:
            self.emit(double, "Called", True, "")

    def _submit(self, chain: int, double: str) -> Conduct:
        conduct = self.conducts[chain, double]
        if conduct.mood == Mood.REFUSES:
            raise RevertError("Refused")
        if conduct.mood == Mood.BURNS_GAS:
            raise RevertError("")
        return conduct


def _copied(value: Any) -> Any:
    return type(value)(value) if isinstance(value, dict | list) else value
