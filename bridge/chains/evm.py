"""An EVM chain behind JSON-RPC: the `Chain` port over web3.py."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from eth_utils import keccak

from bridge.chains.answers import RpcError, revert_data
from bridge.chains.decoding import decode, to_base_fee, to_block, to_bytes, to_int, to_logs, to_receipt
from bridge.chains.endpoints import Endpoints, EndpointState
from bridge.chains.policy import EndpointPolicy
from bridge.ports import (
    Block,
    Call,
    CallRevertedError,
    Fees,
    FeesTooHighError,
    InsufficientFundsError,
    Log,
    Receipt,
    TerminalError,
    TransientError,
)
from bridge.protocol.deployment import FinalityTag
from bridge.protocol.node_errors import Meaning

# A base fee grows by at most an eighth per block: twice the present one lasts for six full blocks.
_BASE_FEE_MARGIN = 2
_LEAST_PRIORITY_FEE = 1  # wei; nodes refuse or forget transactions that offer nothing


class EvmChain:
    """One chain behind its endpoints, asked in order. Close it, or use it in an ``async with``."""

    def __init__(self, chain_id: int, endpoints: Endpoints) -> None:
        self._chain_id = chain_id
        self._endpoints = endpoints

    @classmethod
    async def connect(
        cls, chain_id: int, rpc_urls: Sequence[str], policy: EndpointPolicy | None = None, **changes: Any
    ) -> EvmChain:
        """Connects to a chain.

        Args:
            chain_id: the EIP-155 id that must be behind every URL.
            rpc_urls: endpoints, the preferred first.
            policy: how they are asked.
            changes: to the policy, by the names of its fields.

        Raises:
            WrongChainIdError: an endpoint is of another chain.
            TransientError: no endpoint answers.
        """
        asked = replace(policy or EndpointPolicy(), **changes)
        return cls(chain_id, await Endpoints.open(chain_id, rpc_urls, asked))

    async def close(self) -> None:
        """Closes the connections."""
        await self._endpoints.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def chain_id(self) -> int:
        """See `Chain.chain_id`."""
        return self._chain_id

    @property
    def answering_url(self) -> str:
        """The endpoint that requests go to first at present: for programs that take only one."""
        return self._endpoints.answering_url

    @property
    def endpoint_states(self) -> list[EndpointState]:
        """How each endpoint does."""
        return self._endpoints.states

    async def head(self) -> Block:
        """See `Chain.head`."""
        return decode("the newest block", to_block, await self._ask("eth_getBlockByNumber", "latest", False))

    async def height_of(self, tag: FinalityTag) -> int:
        """See `Chain.height_of`.

        Raises:
            TransientError: a node does not know the tag, too.
        """
        try:
            answers = await self._endpoints.opinions("eth_getBlockByNumber", tag, False)
        except RpcError as error:
            raise TransientError(
                f"chain {self._chain_id} does not tell which block is {tag!r}: {error}; a chain whose nodes do not know the"
                " tag needs a deployments file without finality, and confirmations"
            ) from error
        heights = [decode(f"the {tag} block", to_block, answer).number for answer in answers if answer is not None]
        needed = self._endpoints.agreement
        if len(heights) < needed:
            raise TransientError(f"chain {self._chain_id} has no {tag} block yet, say its nodes")
        return sorted(heights, reverse=True)[needed - 1]

    async def block(self, number: int) -> Block | None:
        """See `Chain.block`."""
        try:
            answer = await self._endpoints.agreed(_hash_of_block, "eth_getBlockByNumber", hex(number), False)
        except RpcError as error:
            raise _as_port_error(error) from error
        return None if answer is None else decode(f"block {number}", to_block, answer)

    async def logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        """See `Chain.logs`. A range that the node finds too large is asked for in halves."""
        if first > last or not addresses or not topics:
            return []
        criteria = {
            "fromBlock": hex(first),
            "toBlock": hex(last),
            "address": list(addresses),
            "topics": [[_hex(topic) for topic in topics]],
        }
        try:
            answer = await self._endpoints.agreed(_sum_of_logs, "eth_getLogs", criteria)
        except RpcError as error:
            if error.meaning is not Meaning.TOO_MUCH_ASKED or first == last:
                raise _as_port_error(error) from error
            middle = (first + last) // 2
            lower = await self.logs(first, middle, addresses, topics)
            return lower + await self.logs(middle + 1, last, addresses, topics)
        found = decode(f"logs of blocks {first} to {last}", to_logs, answer)
        wanted, emitters = set(topics), {address.lower() for address in addresses}
        for log in found:
            if not (
                first <= log.block_number <= last
                and log.address.lower() in emitters
                and log.topics
                and log.topics[0] in wanted
            ):
                raise TransientError(
                    f"the node of chain {self._chain_id} answered with a log that was not asked for: "
                    f"block {log.block_number}, index {log.log_index}, of {log.address}"
                )
        return found

    async def call(
        self, call: Call, *, sender: str | None = None, block: int | None = None, agreed: bool = False
    ) -> bytes:
        """See `Chain.call`."""
        params = (_to_json(call, sender), "latest" if block is None else hex(block))
        if not agreed:
            return decode("a call's answer", to_bytes, await self._ask("eth_call", *params))
        try:
            answer = await self._endpoints.agreed(str, "eth_call", *params)
        except RpcError as error:
            raise _as_port_error(error) from error
        return decode("a call's answer", to_bytes, answer)

    async def estimate_gas(self, call: Call, sender: str) -> int:
        """See `Chain.estimate_gas`."""
        return decode("a gas estimate", to_int, await self._ask("eth_estimateGas", _to_json(call, sender)))

    async def fees(self, limit: int | None = None) -> Fees:
        """See `Chain.fees`."""
        block = await self._ask("eth_getBlockByNumber", "latest", False)
        base = decode("the newest block", to_base_fee, block)
        if base is None:
            raise TerminalError(f"chain {self._chain_id} has no base fee; Waybill sends EIP-1559 transactions only")
        offer = decode("the priority fee", to_int, await self._ask("eth_maxPriorityFeePerGas"))
        priority = max(offer, _LEAST_PRIORITY_FEE)
        offered = _BASE_FEE_MARGIN * base + priority
        if limit is not None and base + priority > limit:
            raise FeesTooHighError(self._chain_id, base + priority, limit)
        return Fees(max_fee=offered if limit is None else min(offered, limit), priority_fee=priority)

    async def broadcast(self, transaction: bytes) -> None:
        """See `Chain.broadcast`."""
        try:
            await self._endpoints.request("eth_sendRawTransaction", _hex(transaction))
        except RpcError as error:
            meaning = error.meaning
            if meaning is Meaning.ALREADY_KNOWN:
                return
            # Sent again after a crash, a transaction that was included meanwhile is refused for its nonce.
            if meaning is Meaning.NONCE_USED and await self._knows(keccak(transaction)):
                return
            raise _as_port_error(error) from error

    async def receipt(self, transaction_hash: bytes) -> Receipt | None:
        """See `Chain.receipt`."""
        answer = await self._look_up("eth_getTransactionReceipt", _hex(transaction_hash))
        return None if answer is None else decode("a receipt", to_receipt, answer)

    async def transaction_count(self, address: str) -> int:
        """See `Chain.transaction_count`."""
        return decode("a nonce", to_int, await self._ask("eth_getTransactionCount", address, "latest"))

    async def pending_count(self, address: str) -> int:
        """See `Chain.pending_count`."""
        return decode("a nonce", to_int, await self._ask("eth_getTransactionCount", address, "pending"))

    async def balance(self, address: str) -> int:
        """See `Chain.balance`."""
        return decode("a balance", to_int, await self._ask("eth_getBalance", address, "latest"))

    async def code(self, address: str) -> bytes:
        """The contract at an address, or nothing if there is none."""
        return decode("a contract's code", to_bytes, await self._ask("eth_getCode", address, "latest"))

    async def _knows(self, transaction_hash: bytes) -> bool:
        return await self._look_up("eth_getTransactionByHash", _hex(transaction_hash)) is not None

    async def _look_up(self, method: str, *params: Any) -> Any:
        """The result of a request; None for what is not there."""
        try:
            return await self._endpoints.request(method, *params)
        except RpcError as error:
            raise _as_port_error(error) from error

    async def _ask(self, method: str, *params: Any) -> Any:
        """The result of a request that always has one."""
        answer = await self._look_up(method, *params)
        if answer is None:
            raise TransientError(f"{method} answered null on chain {self._chain_id}")
        return answer


def _as_port_error(error: RpcError) -> Exception:
    meaning = error.meaning
    if meaning is Meaning.REVERTED:
        return CallRevertedError(revert_data(error))
    if meaning is Meaning.NO_FUNDS:
        return InsufficientFundsError(str(error))
    if meaning is Meaning.MALFORMED:
        return TerminalError(str(error))
    # What has used a nonce may be gone in a moment: only blocks tell what became of it, and a message is not to blame.
    # What nobody knows the meaning of may be a node's passing trouble: the caller's policy bounds how often it is tried.
    return TransientError(str(error))


def _to_json(call: Call, sender: str | None) -> dict[str, str]:
    fields = {"to": call.to, "data": _hex(call.data)}
    if call.value:
        fields["value"] = hex(call.value)
    if call.gas is not None:
        fields["gas"] = hex(call.gas)
    if sender is not None:
        fields["from"] = sender
    return fields


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _hash_of_block(answer: Any) -> Hashable:
    return answer.get("hash") if isinstance(answer, dict) else None


def _sum_of_logs(answer: Any) -> Hashable:
    """What of logs must be equal: their places and contents, whatever else a client writes beside them."""
    if not isinstance(answer, list):
        return None
    names = ("blockHash", "logIndex", "address", "topics", "data")
    return tuple(sorted(str([str(log.get(name)).lower() for name in names]) for log in answer))
