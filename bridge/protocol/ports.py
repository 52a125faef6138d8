"""The ports: what the relayer needs of chains, GMPs, signers and clocks.

The relayer is written against these protocols; `bridge.service` alone knows which implementation stands behind each.
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
    """The world did not answer, or said "later": the same call may succeed."""


class UnansweredError(TransientError):
    """No endpoint or service gave an answer that can be used: that says nothing of what was asked for, and costs no try.

    Attributes:
        chain_id: the chain whose endpoints did not answer; None where no chain was asked, or it is not known which.
    """

    def __init__(self, *texts: object, chain_id: int | None = None) -> None:
        super().__init__(*texts)
        self.chain_id = chain_id


class NotTakenError(UnansweredError):
    """No node takes a transaction, in words that do not say why: they may mean that none ever will."""


class TransportUsedError(TransientError):
    """A GMP counts a delivery as made, and the router has no receipt of the message: another message has its place."""


class AttestationPendingError(TransientError):
    """A GMP's own parties have not attested yet, which takes them its time: nothing is wrong with anybody."""


class InsufficientFundsError(TransientError):
    """The account can't pay for a transaction now; it needs money."""


class FeesTooHighError(TransientError):
    """The chain wants more per gas than is to be paid; it may want less later."""

    def __init__(self, chain_id: int, wanted: int, limit: int) -> None:
        super().__init__(f"chain {chain_id} wants {wanted} wei per gas, more than the limit of {limit}")


class TerminalError(Exception):
    """The same call can never succeed."""


class CallRevertedError(Exception):
    """A contract refused a call.

    Attributes:
        data: what it returned: a selector and arguments, or nothing.
    """

    def __init__(self, data: bytes, asked: str = "") -> None:
        """`asked` names function and contract, where they are not of Waybill's own choice."""
        text = f"{asked}: {explain_revert(data)}" if asked else explain_revert(data)
        if asked and not data:
            text += "; so answers a contract without that function: compare its address in the network file and the settings"
        super().__init__(text)
        self.data = data


@dataclass(frozen=True, slots=True)
class Block:
    """A block's header, as far as the bridge needs it."""

    number: int
    hash: bytes
    parent_hash: bytes
    timestamp: int  # Unix seconds
    gas_limit: int = 0  # gas that all its transactions may use together; 0: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """An event as a chain keeps it, pinned by the hash of its block."""

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
    gas: int | None = None  # gas; None lets the chain estimate it
    by_anyone: bool = field(
        default=False, compare=False
    )  # whether nothing depends on who makes it; no part of the call
    returns: tuple[str, ...] = field(
        default=(), compare=False
    )  # ABI types that an answer must decode as to be one; no part of the call


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of a transaction that a block included, or of one call among several that share it."""

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

    Every method raises `UnansweredError` when no endpoint gives a usable answer. Where several have to agree, an answer, a refusal
    too, is what so many of them give; a number in which they may differ is what so many have reached.
    """

    @property
    def chain_id(self) -> int:
        """The EIP-155 id, as the deployment has it and the endpoints confirmed it."""

    async def head(self) -> Block:
        """The newest block."""

    async def height_of(self, tag: FinalityTag) -> int:
        """The number of the newest block that the chain itself calls so."""

    async def block(self, number: int) -> Block | None:
        """The block at that height on the chain as it is now, or None above the head."""

    async def logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        """Logs of blocks `first`…`last` (both included) from those addresses with one of those topics 0, in order."""

    async def call(self, call: Call, *, sender: str | None = None, block: int | None = None) -> bytes:
        """What a contract answers, without a transaction; at the head or at the end of a block.

        Raises:
            CallRevertedError: the contract refused.
            UnansweredError: no endpoint's answer decodes as the types that the call `returns`, too.
        """

    async def estimate_gas(self, call: Call, sender: str) -> int:
        """How much gas the call would need.

        Raises:
            CallRevertedError: the call would revert.
        """

    async def fees(self, limit: int | None = None) -> Fees:
        """Fees at which a transaction is likely to be included soon, with a margin for a rising base fee.

        Args:
            limit: wei per gas that they do not exceed; the margin gives way to it.

        Raises:
            FeesTooHighError: the next block wants more than the limit.
        """

    async def broadcast(self, transaction: bytes) -> None:
        """Hands a signed transaction to the chain; one that it already knows is no error.

        Raises:
            InsufficientFundsError: the account can't pay for it now.
            TerminalError: a node calls this transaction malformed.
            TransientError: the chain does not answer; or its nonce is used, by what a reorg may have taken back by now.
        """

    async def receipt(self, transaction_hash: bytes) -> Receipt | None:
        """The receipt of a transaction that a block of the current chain includes, else None."""

    async def transaction_count(self, address: str) -> int:
        """How many transactions of that account are included: its next nonce as far as the chain knows."""

    async def pending_count(self, address: str) -> int:
        """The same with the transactions that nodes hold and no block includes yet."""

    async def balance(self, address: str) -> int:
        """What the account holds, in wei."""


async def read_view(
    chain: Chain, contract: Contract, address: str, function: str, *arguments: Any, block: int | None = None
) -> Any:
    """What a view function returns: the value, or a tuple of values if there are several.

    An account without code answers every call with nothing, as does a node that lags or lies. So an answer that does not
    decode is never a fact about the contract.

    Args:
        chain: where.
        contract: the ABI.
        address: the contract's.
        function: its name, or its full signature where it is overloaded.
        arguments: the function's.
        block: at whose end; None is the head.

    Raises:
        CallRevertedError: the contract refused.
        UnansweredError: no endpoint gives an answer of this function.
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
            f"{address} on chain {chain.chain_id} does not answer {function}() as it should: the contract is not there, or"
            " not on this node; is the deployments file of this network?"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One GMP took a message on its source chain."""

    gmp: Gmp
    message_id: bytes
    source_chain: int
    destination_chain: int
    envelope: bytes
    transport_id: str  # the GMP's own name for it, to look it up in the GMP's explorer
    block_number: int
    block_hash: bytes
    transaction_hash: bytes
    log_index: int
    evidence: Mapping[str, str | int] = field(default_factory=dict)  # what attesting needs beyond the envelope


@dataclass(frozen=True, slots=True)
class Watch:
    """Which logs an adapter wants to see of a chain."""

    addresses: tuple[str, ...]
    topics: tuple[bytes, ...]


class Attester(Protocol):
    """Where a GMP's attestation comes from: its own network, or, on a devnet, keys kept here."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """The attestation that the destination's contracts ask for.

        Raises:
            AttestationPendingError: not there yet.
            TransientError: nobody could be asked.
        """


class Adapter(Protocol):
    """One GMP: how to see that it took a message, and how to deliver what it took."""

    @property
    def gmp(self) -> Gmp:
        """Which one."""

    def watch(self, chain_id: int) -> Watch:
        """The GMP's logs on a source chain."""

    def dispatches(self, chain_id: int, logs: Sequence[Log]) -> list[Dispatch]:
        """The messages in those logs that Waybill's adapter sent; everything else is left out.

        `logs` are all that were watched in a range of blocks, in order, so that one event can lean on another.
        """

    def delivery_gas(self, envelope: bytes) -> int:
        """The gas that a delivery's transaction is given: it follows from what the message declares, and from nothing else."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """The attestation for a delivery; see `Attester.attest`."""

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """The next transaction on the destination, or None once this GMP's delivery is there.

        Reads the destination first, so that what another account delivered costs nothing.
        """


class Clock(Protocol):
    """Time, and waiting."""

    def now(self) -> float:
        """Unix seconds."""

    async def sleep(self, seconds: float) -> None:
        """Returns after that many seconds."""
