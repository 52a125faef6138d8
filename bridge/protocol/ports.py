"""The relayer's ports to chains, GMPs, signers and clocks.

The relayer depends only on these protocols; `bridge.service` chooses the implementations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridge.protocol.contracts import Contract, explain_revert
from bridge.protocol.deployment import FinalityTag
from bridge.protocol.events import UNDECODABLE
from bridge.protocol.gmps import Gmp


class TransientError(Exception):
    """A temporary failure. The same call may succeed later."""


class UnansweredError(TransientError):
    """No endpoint or service returned a usable response.

    This says nothing about the request, and does not count as a try.

    Attributes:
        chain_id: chain whose endpoints did not respond; None if no chain was queried, or the chain is unknown.
    """

    def __init__(self, *texts: object, chain_id: int | None = None) -> None:
        super().__init__(*texts)
        self.chain_id = chain_id


class NotTakenError(UnansweredError):
    """Every node rejects a transaction for a reason unknown to Waybill, perhaps permanently."""


class TransportUsedError(TransientError):
    """The GMP reports a delivery as done, but the router has no receipt for the message.

    Another message used its slot at the GMP.
    """


class AttestationPendingError(TransientError):
    """The GMP has not attested the message yet, but its usual time has not passed."""


class InsufficientFundsError(TransientError):
    """The account can't pay for a transaction now."""


class FeesTooHighError(TransientError):
    """The chain's fees exceed the limit now."""

    def __init__(self, chain_id: int, wanted: int, limit: int) -> None:
        super().__init__(f"chain {chain_id} requires {wanted} wei per gas, above the limit of {limit}")


class TerminalError(Exception):
    """The same call can never succeed."""


class CallRevertedError(Exception):
    """A contract call reverted.

    Attributes:
        data: revert data: a selector and arguments, or nothing.
    """

    def __init__(self, data: bytes, asked: str = "") -> None:
        """Stores the revert data.

        `asked` describes the function and the contract, for a contract that Waybill did not choose.
        """
        text = f"{asked}: {explain_revert(data)}" if asked else explain_revert(data)
        if asked and not data:
            text += (
                "; a contract without that function responds like this: check its address in the network "
                "file and the settings"
            )
        super().__init__(text)
        self.data = data


@dataclass(frozen=True, slots=True)
class Block:
    """The fields of a block's header that the bridge uses."""

    number: int
    hash: bytes
    parent_hash: bytes
    timestamp: int  # Unix seconds
    gas_limit: int = 0  # 0: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """An event on a chain, identified by the hash of its block."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    block_number: int
    block_hash: bytes
    transaction_hash: bytes
    log_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call into a contract."""

    to: str
    data: bytes
    value: int = 0  # wei
    gas: int | None = None  # gas limit; None lets the chain estimate it
    # Not parts of the call itself:
    by_anyone: bool = field(default=False, compare=False)  # whether the result is the same for every sender
    returns: tuple[str, ...] = field(default=(), compare=False)  # ABI types that the result must decode as


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The outcome of an included transaction, or of one of the calls that share a transaction."""

    transaction_hash: bytes
    block_number: int
    block_hash: bytes
    succeeded: bool
    gas_used: int  # gas
    logs: tuple[Log, ...]


@dataclass(frozen=True, slots=True)
class Fees:
    """EIP-1559 fees, in wei per gas."""

    max_fee: int
    priority_fee: int


class Chain(Protocol):
    """One chain behind its RPC endpoints.

    Every method raises `UnansweredError` when no endpoint returns a usable response. If several endpoints must
    agree, a result or a rejection counts once enough of them return it. For a monotonic quantity, such as the
    head, the highest value that enough of them have reached counts.
    """

    @property
    def chain_id(self) -> int:
        """Returns the EIP-155 id from the deployments file, which the endpoints have confirmed."""

    async def head(self) -> Block:
        """Returns the newest block."""

    async def height_of(self, tag: FinalityTag) -> int:
        """Returns the number of the newest block with that tag."""

    async def block(self, number: int) -> Block | None:
        """Returns the block at that height on the current chain, or None above the head."""

    async def logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        """Returns the logs of blocks `first`…`last` (inclusive), from these addresses with these topics 0, in order."""

    async def call(self, call: Call, *, sender: str | None = None, block: int | None = None) -> bytes:
        """Returns the result of a contract call without a transaction, at the head or at the end of a block.

        Raises:
            CallRevertedError: the call reverted.
            UnansweredError: no endpoint responded, or no response decodes as the types that the call `returns`.
        """

    async def estimate_gas(self, call: Call, sender: str) -> int:
        """Returns the gas that the call needs.

        Raises:
            CallRevertedError: the call would revert.
        """

    async def fees(self, limit: int | None = None) -> Fees:
        """Returns fees at which a transaction is likely to be included soon, with a margin for a rising base fee.

        Args:
            limit: upper bound in wei per gas. The margin shrinks to stay within the bound.

        Raises:
            FeesTooHighError: the next block requires more than the limit.
        """

    async def broadcast(self, transaction: bytes) -> None:
        """Broadcasts a signed transaction. It is not an error if the nodes already know the transaction.

        Raises:
            InsufficientFundsError: the account can't pay for the transaction now.
            TerminalError: a node rejected the transaction as malformed.
            TransientError: the chain does not respond, or the nonce is used, perhaps in a block that a reorg
                has removed since.
        """

    async def receipt(self, transaction_hash: bytes) -> Receipt | None:
        """Returns the receipt of a transaction in a block of the current chain, or None."""

    async def transaction_count(self, address: str) -> int:
        """Returns the number of the account's included transactions, which is its next nonce."""

    async def pending_count(self, address: str) -> int:
        """Returns the number of the account's transactions, including those that are pending in the nodes' pools."""

    async def balance(self, address: str) -> int:
        """Returns the account's balance in wei."""


async def read_view(
    chain: Chain, contract: Contract, address: str, function: str, *arguments: Any, block: int | None = None
) -> Any:
    """Returns the result of a view function: the value, or a tuple if there are several values.

    An account without code returns no data for any call, and so may a lagging or lying node. A result that
    can't be decoded therefore says nothing about the contract.

    Args:
        chain: chain to query.
        contract: ABI of the contract.
        address: address of the contract.
        function: function name, or full signature if the function is overloaded.
        arguments: arguments of the function.
        block: block at whose end the function is called; None means the head.

    Raises:
        CallRevertedError: the call reverted.
        UnansweredError: no endpoint returned a valid result for this function.
    """
    call = Call(to=address, data=contract.encode(function, *arguments), returns=contract.outputs(function))
    try:
        answer = await chain.call(call, block=block)
    except CallRevertedError as error:
        raise CallRevertedError(error.data, f"{function} of {address} on chain {chain.chain_id}") from error
    try:
        return contract.decode(function, answer)
    except UNDECODABLE as error:
        raise UnansweredError(
            f"{address} on chain {chain.chain_id} returned no valid result for {function}(): there is no such "
            "contract at that address, or this node does not have it. Check that the deployments file is for "
            "this network"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A message that a GMP accepted on its source chain."""

    gmp: Gmp
    message_id: bytes
    source_chain: int
    destination_chain: int
    envelope: bytes
    transport_id: str  # the GMP's own id, for the GMP's explorer
    block_number: int
    block_hash: bytes
    transaction_hash: bytes
    log_index: int
    evidence: Mapping[str, str | int] = field(default_factory=dict)  # further data that the attestation requires


@dataclass(frozen=True, slots=True)
class Watch:
    """The logs that an adapter reads from a chain."""

    addresses: tuple[str, ...]
    topics: tuple[bytes, ...]


class Attester(Protocol):
    """The source of a GMP's attestations: its network, or local keys on a devnet."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """Returns the attestation that the destination's contracts require.

        Raises:
            AttestationPendingError: the GMP has not attested the message yet.
            TransientError: no service responded.
        """


class Adapter(Protocol):
    """The adapter of one GMP. Recognises the messages that the GMP accepted, and delivers them."""

    @property
    def gmp(self) -> Gmp:
        """Returns the adapter's GMP."""

    def watch(self, chain_id: int) -> Watch:
        """Returns the GMP's logs that must be read on a source chain."""

    def dispatches(self, chain_id: int, logs: Sequence[Log]) -> list[Dispatch]:
        """Returns the messages in the logs that Waybill's adapter sent, and ignores all other logs.

        `logs` are all watched logs in a range of blocks, in order, so that one event can refer to another.
        """

    def delivery_gas(self, envelope: bytes) -> int:
        """Returns the gas limit of a delivery's transaction, which depends only on the message's own fields."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """Returns the attestation for a delivery; see `Attester.attest`."""

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """Returns the next transaction on the destination, or None once this GMP's delivery has arrived.

        Reads the destination first, so that a delivery by another account costs nothing.
        """


class Clock(Protocol):
    """The source of time."""

    def now(self) -> float:
        """Returns Unix seconds."""

    async def sleep(self, seconds: float) -> None:
        """Waits for that many seconds."""
