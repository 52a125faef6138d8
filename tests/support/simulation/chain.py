"""A simulated chain: blocks that fall, a pool that forgets, and a node that answers badly."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils import keccak
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes

from bridge.protocol.deployment import FinalityTag
from bridge.protocol.ports import (
    Block,
    Call,
    CallRevertedError,
    Fees,
    FeesTooHighError,
    InsufficientFundsError,
    Log,
    Receipt,
    TransientError,
    UnansweredError,
)
from tests.support.simulation.contracts import Emitted, State, transact, view
from tests.support.simulation.reverts import RevertedError

_GAS_USED: Final = 50_000
_SLOW: Final = 10.0  # seconds


class SilentError(UnansweredError):
    """The node gave no answer: nobody knows what it did."""


Action = Callable[[State], list[Emitted]]
"""What a transaction of somebody else does."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in the pool or in a block: signed by an account, or an action of somebody who does not matter."""

    hash: bytes
    sender: str = ""
    nonce: int = 0
    call: Call | None = None
    max_fee: int = 0
    action: Action | None = None


@dataclass(slots=True)
class Faults:
    """How often a node fails; each is a share of the calls."""

    unavailable: float = 0.0  # no answer; the call did nothing
    answer_lost: float = 0.0  # a transaction was taken, and the answer never came
    forgets: float = 0.0  # a transaction was taken, and is forgotten
    hides: float = 0.0  # the logs of one transaction are left out
    stale: float = 0.0  # the head is an older block
    slow: float = 0.0  # the answer takes ten seconds
    blank: float = 0.0  # a call is answered with nothing, as by an account without code


@dataclass(frozen=True, slots=True)
class _Mined:
    header: Block
    transactions: tuple[Transaction, ...]
    receipts: dict[bytes, Receipt]
    state: State


@dataclass(slots=True)
class SimulatedChain:
    """One chain; see `bridge.protocol.ports.Chain` for what the bridge sees. The rest is for whoever plays the world."""

    chain_id: int
    random: random.Random
    faults: Faults = field(default_factory=Faults)
    latency: float = 0.01  # seconds that an answer takes
    base_fee: int = 10  # wei per gas
    now: Callable[[], float] = field(default=lambda: 0.0)
    pool: dict[bytes, Transaction] = field(default_factory=dict)
    broadcasts: int = 0
    unsettled: dict[FinalityTag, int] = field(default_factory=lambda: {"safe": 4, "finalized": 8})  # blocks above each
    _blocks: list[_Mined] = field(default_factory=list)
    _salt: int = 0

    def __post_init__(self) -> None:
        """Makes block 0."""
        header = Block(0, keccak(text=f"genesis {self.chain_id}"), bytes(32), int(self.now()))
        self._blocks.append(_Mined(header, (), {}, State(self.chain_id)))

    # --- the world's side

    @property
    def state(self) -> State:
        """What the contracts hold at the head."""
        return self._blocks[-1].state

    @property
    def height(self) -> int:
        """The head's number."""
        return self._blocks[-1].header.number

    def header(self, number: int) -> Block | None:
        """The block at that height, if there is one."""
        return self._blocks[number].header if number <= self.height else None

    def number_of(self, block_hash: bytes) -> int:
        """The height of a block.

        Raises:
            TransientError: the chain does not have it, or not any more.
        """
        for block in reversed(self._blocks):
            if block.header.hash == block_hash:
                return block.header.number
        raise TransientError("unknown block")

    def some_log(self, topic: bytes) -> Log | None:
        """Any event of that kind, if there was one."""
        receipts = (receipt for block in self._blocks for receipt in block.receipts.values())
        found = [log for receipt in receipts for log in receipt.logs if log.topics[0] == topic]
        return self.random.choice(found) if found else None

    def logs_of(self, number: int) -> list[Log]:
        """The logs of a block of the chain as it is now; none where there is no block."""
        if not 0 <= number <= self.height:
            return []
        return [log for receipt in self._blocks[number].receipts.values() for log in receipt.logs]

    def fund(self, account: str, wei: int) -> None:
        """Gives an account money, from block 0 on, so that no reorg takes it back."""
        for block in self._blocks:
            block.state.balances[account] = block.state.balances.get(account, 0) + wei

    def submit(self, action: Action) -> bytes:
        """Puts an action of somebody else into the pool; returns its hash."""
        transaction = Transaction(keccak(text=f"action {self.random.random()}"), action=action)
        self.pool[transaction.hash] = transaction
        return transaction.hash

    def includes(self, transaction_hash: bytes) -> bool:
        """Whether a block of the chain as it is now includes a transaction."""
        return any(transaction_hash in block.receipts for block in self._blocks)

    def mine(self, count: int = 1) -> None:
        """Puts blocks on top; each takes what can be executed."""
        for _ in range(count):
            self._mine_one()

    def rollback(self, depth: int, *, keep: float = 1.0) -> None:
        """Takes the newest blocks away; of their transactions that share returns to the pool."""
        fallen = self._blocks[len(self._blocks) - depth :]
        del self._blocks[len(self._blocks) - depth :]
        assert self._blocks, "block 0 does not fall"
        self._salt += 1
        for block in fallen:
            for transaction in block.transactions:
                if self.random.random() < keep:
                    self.pool[transaction.hash] = transaction

    def reorganise(self, depth: int, *, keep: float = 1.0) -> None:
        """Replaces the newest blocks by as many others and one more."""
        depth = min(depth, self.height)
        self.rollback(depth, keep=keep)
        self.mine(depth + 1)

    def _mine_one(self) -> None:
        parent = self._blocks[-1]
        state = parent.state.copy()
        number = parent.header.number + 1
        state.timestamp = max(parent.header.timestamp + 1, int(self.now()))
        included: list[Transaction] = []
        results: list[tuple[Transaction, int, bool, list[Emitted]]] = []
        while (transaction := self._executable(state, included)) is not None:
            del self.pool[transaction.hash]
            state, gas_used, succeeded, events = _apply(state, transaction)
            included.append(transaction)
            results.append((transaction, gas_used, succeeded, events))
        hashes = b"".join(transaction.hash for transaction in included)
        block_hash = keccak(parent.header.hash + number.to_bytes(8, "big") + self._salt.to_bytes(8, "big") + hashes)
        header = Block(number, block_hash, parent.header.hash, state.timestamp)
        receipts: dict[bytes, Receipt] = {}
        log_index = 0
        for transaction, gas_used, succeeded, events in results:
            logs = tuple(_log(event, header, transaction.hash, log_index + at) for at, event in enumerate(events))
            log_index += len(logs)
            receipts[transaction.hash] = Receipt(
                transaction_hash=transaction.hash,
                block_number=number,
                block_hash=block_hash,
                succeeded=succeeded,
                gas_used=gas_used,
                logs=logs,
            )
        self._blocks.append(_Mined(header, tuple(included), receipts, state))

    def _executable(self, state: State, included: Sequence[Transaction]) -> Transaction | None:
        for transaction in self.pool.values():
            if transaction.action is not None and transaction not in included:
                return transaction
            if (
                transaction.call is not None
                and transaction.nonce == state.nonces.get(transaction.sender, 0)
                and transaction.max_fee >= self.base_fee
            ):
                return transaction
        return None

    # --- the bridge's side

    async def _answer(self) -> None:
        await asyncio.sleep(_SLOW if self.random.random() < self.faults.slow else self.latency)
        if self.random.random() < self.faults.unavailable:
            raise SilentError(f"chain {self.chain_id} does not answer", chain_id=self.chain_id)

    async def head(self) -> Block:
        """See `Chain.head`."""
        await self._answer()
        behind = self.random.randint(1, 5) if self.random.random() < self.faults.stale else 0
        return self._blocks[max(self.height - behind, 0)].header

    async def height_of(self, tag: FinalityTag) -> int:
        """See `Chain.height_of`."""
        await self._answer()
        return max(0, self.height - self.unsettled[tag])

    async def block(self, number: int) -> Block | None:
        """See `Chain.block`."""
        await self._answer()
        return self.header(number)

    async def logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        """See `Chain.logs`."""
        await self._answer()
        found = [
            log
            for block in self._blocks[first : last + 1]
            for receipt in block.receipts.values()
            for log in receipt.logs
            if log.address in addresses and log.topics[0] in topics
        ]
        if found and self.random.random() < self.faults.hides:
            hidden = self.random.choice(found).transaction_hash
            found = [log for log in found if log.transaction_hash != hidden]
        return found

    async def call(
        self,
        call: Call,
        *,
        sender: str | None = None,
        block: int | None = None,
    ) -> bytes:
        """See `Chain.call`."""
        await self._answer()
        if block is not None and block > self.height:
            raise TransientError("header not found")
        if self.faults.blank and self.random.random() < self.faults.blank:
            return b""
        state = self.state if block is None else self._blocks[block].state
        try:
            return view(state, call)
        except RevertedError as error:
            raise CallRevertedError(error.data) from error

    async def estimate_gas(self, call: Call, sender: str) -> int:
        """See `Chain.estimate_gas`."""
        await self._answer()
        try:
            transact(self.state.trial(), sender, call)
        except RevertedError as error:
            raise CallRevertedError(error.data) from error
        return _GAS_USED

    async def fees(self, limit: int | None = None) -> Fees:
        """See `Chain.fees`."""
        await self._answer()
        offered = 2 * self.base_fee + 1
        if limit is not None and self.base_fee + 1 > limit:
            raise FeesTooHighError(self.chain_id, self.base_fee + 1, limit)
        return Fees(offered if limit is None else min(offered, limit), 1)

    async def broadcast(self, transaction: bytes) -> None:
        """See `Chain.broadcast`."""
        await self._answer()
        self.broadcasts += 1
        decoded = _decode(transaction)
        if self.includes(decoded.hash) or decoded.hash in self.pool:
            return
        self._check(decoded)
        if self.random.random() >= self.faults.forgets:
            self.pool[decoded.hash] = decoded
        if self.random.random() < self.faults.answer_lost:
            raise SilentError(f"the answer of chain {self.chain_id} was lost")

    async def receipt(self, transaction_hash: bytes) -> Receipt | None:
        """See `Chain.receipt`."""
        await self._answer()
        return next((b.receipts[transaction_hash] for b in self._blocks if transaction_hash in b.receipts), None)

    async def transaction_count(self, address: str) -> int:
        """See `Chain.transaction_count`."""
        await self._answer()
        return self.state.nonces.get(address, 0)

    async def pending_count(self, address: str) -> int:
        """See `Chain.pending_count`."""
        await self._answer()
        count = self.state.nonces.get(address, 0)
        waiting = {transaction.nonce for transaction in self.pool.values() if transaction.sender == address}
        while count in waiting:
            count += 1
        return count

    async def balance(self, address: str) -> int:
        """See `Chain.balance`."""
        await self._answer()
        return self.state.balances.get(address, 0)

    def _check(self, transaction: Transaction) -> None:
        assert transaction.call is not None
        if transaction.nonce < self.state.nonces.get(transaction.sender, 0):
            raise TransientError("nonce too low")
        cost = transaction.call.value + (transaction.call.gas or 0) * transaction.max_fee
        if self.state.balances.get(transaction.sender, 0) < cost:
            raise InsufficientFundsError("insufficient funds for gas * price + value")
        for other in list(self.pool.values()):
            if other.call is not None and (other.sender, other.nonce) == (transaction.sender, transaction.nonce):
                if transaction.max_fee * 8 < other.max_fee * 9:
                    raise TransientError("replacement transaction underpriced")
                del self.pool[other.hash]


def _apply(state: State, transaction: Transaction) -> tuple[State, int, bool, list[Emitted]]:
    """The state after a transaction, the gas that it used, whether it succeeded, and its events.

    What reverts burns all the gas that it was given, as a hostile contract would.
    """
    if transaction.action is not None:
        return state, _GAS_USED, True, transaction.action(state)
    assert transaction.call is not None
    paid = state.copy()
    paid.nonces[transaction.sender] = transaction.nonce + 1
    paid.balances[transaction.sender] = paid.balances.get(transaction.sender, 0) - _GAS_USED * transaction.max_fee
    attempted = paid.copy()
    try:
        events = transact(attempted, transaction.sender, transaction.call)
    except RevertedError:
        burnt = max(transaction.call.gas or 0, _GAS_USED)
        paid.balances[transaction.sender] -= (burnt - _GAS_USED) * transaction.max_fee
        return paid, burnt, False, []
    attempted.balances[transaction.sender] -= transaction.call.value
    return attempted, _GAS_USED, True, events


def _log(event: Emitted, header: Block, transaction_hash: bytes, index: int) -> Log:
    address, topics, data = event
    return Log(
        address=address,
        topics=topics,
        data=data,
        block_number=header.number,
        block_hash=header.hash,
        transaction_hash=transaction_hash,
        log_index=index,
    )


@functools.lru_cache(maxsize=4096)  # what is broadcast again is the same bytes, and recovering a signer is slow
def _decode(raw: bytes) -> Transaction:
    fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    call = Call(
        to=to_checksum_address(fields["to"]), data=bytes(fields["data"]), value=fields["value"], gas=fields["gas"]
    )
    sender = str(Account.recover_transaction(raw))
    return Transaction(keccak(raw), sender, fields["nonce"], call, fields["maxFeePerGas"])
