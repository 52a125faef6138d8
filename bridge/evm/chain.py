"""Implements the `Chain` port over JSON-RPC, with the endpoints of `bridge.evm.endpoints`."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from eth_abi.abi import decode
from eth_utils import decode_hex
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.endpoints import Endpoints, EndpointState, KnownBlock
from bridge.evm.rpc_answers import (
    DisagreementError,
    Meaning,
    RangeTooLargeError,
    RefusedError,
    Request,
    RpcError,
    TransientRpcError,
    decoder_of,
    revert_data,
)
from bridge.protocol.deployment import Deployment, FinalityTag
from bridge.protocol.ports import (
    Block,
    Call,
    CallRevertedError,
    Fees,
    FeesTooHighError,
    InsufficientFundsError,
    Log,
    NotTakenError,
    Receipt,
    TerminalError,
    TransientError,
    UnansweredError,
)

# A base fee grows by at most an eighth per block: twice the present one lasts for six full blocks.
_BASE_FEE_MARGIN = 2
_LEAST_PRIORITY_FEE = 1  # wei; nodes refuse or drop transactions without a tip

_NO_TAG = "for a chain without that tag, set confirmations and leave finality out of the deployments file"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Simulated:
    """The result of a simulated call."""

    gas: int  # gas used
    succeeded: bool
    returned: bytes  # return data, or revert data


class EvmChain:
    """One chain, reached through its endpoints in order of preference. Close it, or use it in an ``async with``."""

    def __init__(self, chain_id: int, endpoints: Endpoints) -> None:
        self._chain_id = chain_id
        self._endpoints = endpoints

    @classmethod
    async def connect(
        cls,
        chain_id: int,
        rpc_urls: Sequence[str],
        policy: EndpointPolicy | None = None,
        *,
        may_be_down: bool = False,
        **changes: Any,
    ) -> EvmChain:
        """Connects to a chain.

        Args:
            chain_id: the EIP-155 id that every endpoint must have.
            rpc_urls: URLs of the endpoints, most preferred first.
            policy: the endpoint policy.
            may_be_down: whether to continue if no endpoint responds.
            changes: changes to the policy, by field name.

        Raises:
            WrongChainError: an endpoint serves a different chain.
            TransientError: no endpoint responds.
        """
        effective = replace(policy or EndpointPolicy(), **changes)
        try:
            return cls(chain_id, await Endpoints.open(chain_id, rpc_urls, effective, may_be_down=may_be_down))
        except TransientRpcError as error:
            raise as_port_error(error, chain_id) from error

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
    def _name(self) -> str:
        """Returns the chain's name for errors."""
        return self._endpoints.chain

    @property
    def endpoint_states(self) -> list[EndpointState]:
        """Returns the state of each endpoint."""
        return self._endpoints.states

    async def head(self) -> Block:
        """See `Chain.head`."""
        blocks = await self._opinions("the newest block", self._to_remembered, "eth_getBlockByNumber", "latest", False)
        number = _reached([block.number for block in blocks], self._endpoints.policy.agreement)
        same = [block for block in blocks if block.number == number]
        if all(block == same[0] for block in same) and len(same) >= self._endpoints.policy.agreement:
            return same[0]
        agreed = await self.block(number)  # endpoints lag, and a malicious one may invent its head
        if agreed is None:
            raise UnansweredError(f"the endpoints of {self._name} do not agree on the newest block")
        return agreed

    async def height_of(self, tag: FinalityTag) -> int:
        """See `Chain.height_of`.

        Raises:
            UnansweredError: no endpoint responded, or a node does not know the tag.
        """
        request, what = Request("eth_getBlockByNumber", (tag, False)), f"the {tag} block"
        try:
            blocks = await self._endpoints.opinions(request, decoder_of(what, self._to_remembered_or_none))
        except RefusedError as error:
            raise UnansweredError(f"{self._name} did not return the {tag!r} block: {error}; {_NO_TAG}") from error
        except RpcError as error:
            raise as_port_error(error, self._chain_id) from error
        heights = [block.number for block in blocks if block is not None]
        if len(heights) < self._endpoints.policy.agreement:
            raise UnansweredError(f"the nodes of {self._name} report no {tag} block yet; {_NO_TAG}")
        return _reached(heights, self._endpoints.policy.agreement)

    async def block(self, number: int) -> Block | None:
        """See `Chain.block`."""
        decoder = self._block_decoder(number)
        block: Block | None = await self._look_up(
            f"block {number}", decoder, "eth_getBlockByNumber", hex(number), False
        )
        return block

    async def logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        """See `Chain.logs`. Splits a range in half if the node rejects it as too large."""
        if first > last or not addresses or not topics:
            return []
        try:
            return await self._logs(first, last, addresses, topics)
        except RpcError as error:
            if not isinstance(error, RangeTooLargeError) or first == last:
                raise as_port_error(error, self._chain_id) from error
            middle = (first + last) // 2
            lower = await self.logs(first, middle, addresses, topics)
            return lower + await self.logs(middle + 1, last, addresses, topics)

    async def _logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        wanted, emitters = set(topics), {address.lower() for address in addresses}

        def decoder(answer: Any) -> list[Log]:
            entries = to_logs(answer)
            for log in entries:
                is_within = first <= log.block_number <= last and log.address.lower() in emitters
                if not (is_within and log.topics and log.topics[0] in wanted):
                    raise ValueError(
                        f"block {log.block_number}, index {log.log_index}, of {log.address} is outside the "
                        "requested range or addresses"
                    )
            return entries

        criteria = {
            "fromBlock": hex(first),
            "toBlock": hex(last),
            "address": list(addresses),
            "topics": [[_hex(topic) for topic in topics]],
        }
        read = decoder_of(f"the response with logs of blocks {first} to {last}", decoder)
        logs: list[Log] = await self._endpoints.agreed(Request("eth_getLogs", (criteria,)), read)
        return logs

    async def call(self, call: Call, *, sender: str | None = None, block: int | None = None) -> bytes:
        """See `Chain.call`."""
        at = "latest" if block is None else hex(block)
        what, request = f"the answer of {call.to} to a call", _to_json(call, sender)
        answer: bytes = await self._look_up(what, to_values(call.returns), "eth_call", request, at)
        return answer

    async def estimate_gas(self, call: Call, sender: str) -> int:
        """See `Chain.estimate_gas`."""
        return await self._amount("a gas estimate", to_int, "eth_estimateGas", _to_json(call, sender))

    async def simulate(self, calls: Sequence[Call], sender: str) -> list[Simulated]:
        """Simulates calls in sequence, each in a block of its own on top of the previous one's state.

        Raises:
            UnansweredError: no endpoint responds, or none supports eth_simulateV1.
        """
        blocks = {"blockStateCalls": [{"calls": [_to_json(call, sender)]} for call in calls], "validation": False}
        # Endpoints may simulate on different heads, so only the calls' results must agree.
        results: list[Simulated] = await self._look_up(
            "a simulation", _to_simulated, "eth_simulateV1", blocks, "latest"
        )
        if len(results) != len(calls):
            raise UnansweredError(f"{self._name} returned results for {len(results)} of {len(calls)} simulated calls")
        return results

    async def fees(self, limit: int | None = None) -> Fees:
        """See `Chain.fees`."""
        answers = await self._opinions("the newest block", to_base_fee, "eth_getBlockByNumber", "latest", False)
        bases = [base for base in answers if base is not None]
        if len(bases) < self._endpoints.policy.agreement:
            raise UnansweredError(
                f"the endpoints of {self._name} report no base fee; Waybill sends EIP-1559 transactions only"
            )
        base = _reached(bases, self._endpoints.policy.agreement)
        offer = await self._amount("the priority fee", to_int, "eth_maxPriorityFeePerGas")
        priority = max(offer, _LEAST_PRIORITY_FEE)
        offered = _BASE_FEE_MARGIN * base + priority
        if limit is not None and base + priority > limit:
            raise FeesTooHighError(self._chain_id, base + priority, limit)
        return Fees(max_fee=offered if limit is None else min(offered, limit), priority_fee=priority)

    async def broadcast(self, transaction: bytes) -> None:
        """See `Chain.broadcast`."""
        try:
            request = Request("eth_sendRawTransaction", (_hex(transaction),))
            await self._endpoints.agreed(request, lambda _answer: True)
        except RpcError as error:
            meaning = error.meaning
            if meaning is Meaning.ALREADY_KNOWN:
                return
            # After a crash, a rebroadcast of an included transaction is rejected for its nonce. Endpoints of one node
            # disagree about a transaction that the first of them accepted.
            in_doubt = meaning is Meaning.NONCE_USED or isinstance(error, DisagreementError)
            if in_doubt and await self._knows(keccak(transaction)):
                return
            if meaning is Meaning.MALFORMED:
                raise TerminalError(str(error)) from error
            if meaning is Meaning.NOT_UNDERSTOOD:
                raise TransientError(str(error)) from error
            if isinstance(error, DisagreementError) or (error.code is not None and meaning in _UNEXPLAINED):
                raise NotTakenError(str(error), chain_id=self._chain_id) from error
            raise as_port_error(error, self._chain_id) from error

    async def receipt(self, transaction_hash: bytes) -> Receipt | None:
        """See `Chain.receipt`."""
        name, decoder = _hex(transaction_hash), _receipt_decoder(transaction_hash)
        receipt: Receipt | None = await self._look_up(
            f"the receipt of {name}", decoder, "eth_getTransactionReceipt", name
        )
        return receipt

    async def transaction_count(self, address: str) -> int:
        """See `Chain.transaction_count`."""
        return await self._amount("a nonce", to_int, "eth_getTransactionCount", address, "latest")

    async def pending_count(self, address: str) -> int:
        """See `Chain.pending_count`."""
        return await self._amount("a nonce", to_int, "eth_getTransactionCount", address, "pending")

    async def balance(self, address: str) -> int:
        """See `Chain.balance`."""
        return await self._amount("a balance", to_int, "eth_getBalance", address, "latest")

    async def code(self, address: str) -> bytes:
        """Returns the code at an address, or empty bytes if there is none."""
        code: bytes = await self._look_up(f"the code of {address}", to_bytes, "eth_getCode", address, "latest")
        return code

    async def _knows(self, transaction_hash: bytes) -> bool:
        is_there: bool = await self._look_up(
            "a transaction", lambda answer: answer is not None, "eth_getTransactionByHash", _hex(transaction_hash)
        )
        return is_there

    async def _look_up(self, what: str, decoder: Callable[[Any], Any], method: str, *params: Any) -> Any:
        """Returns the decoded result that enough endpoints agree on.

        `decoder` may raise any error for malformed results.
        """
        try:
            return await self._endpoints.agreed(Request(method, params), decoder_of(what, decoder))
        except RpcError as error:
            raise as_port_error(error, self._chain_id) from error

    async def _amount(self, what: str, decoder: Callable[[Any], int], method: str, *params: Any) -> int:
        """Returns the highest value of a monotonic quantity, such as the head, that enough endpoints have reached."""
        return _reached(await self._opinions(what, decoder, method, *params), self._endpoints.policy.agreement)

    async def _opinions(self, what: str, decoder: Callable[[Any], _T], method: str, *params: Any) -> list[_T]:
        """Returns well-formed results from at least as many endpoints as `agreement` requires."""
        try:
            return await self._endpoints.opinions(Request(method, params), decoder_of(what, decoder))
        except RpcError as error:
            raise as_port_error(error, self._chain_id) from error

    def _block_decoder(self, number: int) -> Callable[[Any], Block | None]:
        def decoder(answer: Any) -> Block | None:
            if answer is not None and to_int(answer["number"]) != number:
                raise ValueError(f"the response contains block {to_int(answer['number'])}")
            return self._to_remembered_or_none(answer)

        return decoder

    def _to_remembered(self, answer: Any) -> Block:
        """Decodes a block header.

        If a single endpoint suffices, remembers the header so that a second endpoint can be checked by it.
        """
        block = to_block(answer)
        if self._endpoints.policy.agreement == 1:
            self._endpoints.remember(KnownBlock(block.number, block.hash))
        return block

    def _to_remembered_or_none(self, answer: Any) -> Block | None:
        return None if answer is None else self._to_remembered(answer)


def _to_simulated(answer: Any) -> list[Simulated]:
    calls = [call for block in answer for call in block["calls"]]
    return [
        Simulated(
            to_int(call["gasUsed"]),
            to_int(call["status"]) == 1,
            to_bytes((call.get("error") or {}).get("data") or call.get("returnData") or "0x"),
        )
        for call in calls
    ]


def _reached(numbers: Sequence[int], needed: int) -> int:
    """Returns the highest number that at least `needed` endpoints have reached."""
    return sorted(numbers, reverse=True)[needed - 1]


_UNEXPLAINED: Final = (Meaning.UNKNOWN, Meaning.LIMITED)


def as_port_error(error: RpcError, chain_id: int | None = None) -> Exception:
    """Translates an endpoint's error into an error of the `Chain` port. `chain_id` is the chain that was queried."""
    meaning = error.meaning
    if meaning is Meaning.REVERTED:
        return CallRevertedError(revert_data(error))
    if meaning is Meaning.NO_FUNDS:
        return InsufficientFundsError(str(error))
    if isinstance(error, RangeTooLargeError) or (
        isinstance(error, RefusedError) and meaning is not Meaning.NOT_UNDERSTOOD
    ):
        # The transaction that used a nonce may be reorged away, so only blocks decide, and the message is not to blame.
        return TransientError(str(error))
    return UnansweredError(str(error), chain_id=chain_id)


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


def to_int(quantity: str) -> int:
    """Decodes a JSON-RPC quantity."""
    if not quantity.startswith("0x"):
        raise ValueError(f"{quantity[:20]!r} does not start with 0x")
    return int(quantity, 16)


def to_bytes(data: str) -> bytes:
    """Decodes JSON-RPC data."""
    if not data.startswith("0x"):
        raise ValueError(f"{data[:20]!r} does not start with 0x")
    return decode_hex(data)


def to_values(types: Sequence[str]) -> Callable[[str], bytes]:
    """Returns a decoder that checks return data against ABI types; without types, it accepts any data."""

    def check(data: str) -> bytes:
        answer = to_bytes(data)
        if types:
            decode(types, answer)
        return answer

    return check


def to_block(block: Mapping[str, Any]) -> Block:
    """Decodes a block's header."""
    return Block(
        number=to_int(block["number"]),
        hash=to_bytes(block["hash"]),
        parent_hash=to_bytes(block["parentHash"]),
        timestamp=to_int(block["timestamp"]),
        gas_limit=to_int(block.get("gasLimit", "0x0")),
    )


def to_base_fee(block: Mapping[str, Any]) -> int | None:
    """Returns a block's base fee in wei per gas, or None on a chain without EIP-1559."""
    fee = block.get("baseFeePerGas")
    return None if fee is None else to_int(fee)


@functools.lru_cache(maxsize=4096)  # cached: a checksum costs a hash, and few contracts emit nearly all logs
def _checksummed(address: str) -> str:
    return to_checksum_address(address)


def to_log(log: Mapping[str, Any]) -> Log:
    """Decodes a log of an included transaction."""
    return Log(
        address=_checksummed(log["address"]),
        topics=tuple(to_bytes(topic) for topic in log["topics"]),
        data=to_bytes(log["data"]),
        block_number=to_int(log["blockNumber"]),
        block_hash=to_bytes(log["blockHash"]),
        transaction_hash=to_bytes(log["transactionHash"]),
        log_index=to_int(log["logIndex"]),
    )


def to_logs(logs: list[Mapping[str, Any]]) -> list[Log]:
    """Decodes logs, and returns them in chain order without duplicates and removed logs."""
    by_position = {}
    for item in logs:
        if not item.get("removed", False):
            log = to_log(item)
            by_position[log.block_number, log.log_index] = log
    return [by_position[position] for position in sorted(by_position)]


def to_receipt(receipt: Mapping[str, Any]) -> Receipt:
    """Decodes a transaction's receipt."""
    return Receipt(
        transaction_hash=to_bytes(receipt["transactionHash"]),
        block_number=to_int(receipt["blockNumber"]),
        block_hash=to_bytes(receipt["blockHash"]),
        succeeded=to_int(receipt["status"]) == 1,
        gas_used=to_int(receipt["gasUsed"]),
        logs=tuple(to_logs(receipt["logs"])),
    )


def _receipt_decoder(transaction_hash: bytes) -> Callable[[Any], Receipt | None]:
    def decoder(answer: Any) -> Receipt | None:
        if answer is None:
            return None
        receipt = to_receipt(answer)
        if receipt.transaction_hash != transaction_hash:
            raise ValueError(f"the receipt belongs to transaction 0x{receipt.transaction_hash.hex()}")
        return receipt

    return decoder


@asynccontextmanager
async def open_chains(
    deployment: Deployment,
    chain_ids: Collection[int] | None = None,
    policies: Mapping[int, EndpointPolicy] = MappingProxyType({}),
    rpc_urls: Mapping[int, Sequence[str]] = MappingProxyType({}),
    *,
    eager: bool = True,
    may_be_down: bool = False,
) -> AsyncIterator[dict[int, EvmChain]]:
    """Connects to the given chains of a network, or to all of them, and closes the connections afterwards.

    Args:
        deployment: the network.
        chain_ids: ids of the chains to connect to; None means all.
        policies: endpoint policies by chain id, for chains that do not use the default.
        rpc_urls: endpoints by chain id that replace the deployment's.
        eager: whether to check every URL's chain id now; otherwise it is checked on first use, and nothing is
            raised here.
        may_be_down: with `eager`, whether to continue if no endpoint of a chain responds.

    Raises:
        WrongChainError: an endpoint serves a different chain.
        TransientError: no endpoint of a chain responds.
    """
    async with AsyncExitStack() as stack:
        chains = {}
        for deployed in deployment.chains:
            if chain_ids is None or deployed.chain_id in chain_ids:
                urls = rpc_urls.get(deployed.chain_id) or deployed.rpc_urls
                policy = replace(policies.get(deployed.chain_id, EndpointPolicy()), chain_name=deployed.name)
                chain = (
                    await EvmChain.connect(deployed.chain_id, urls, policy, may_be_down=may_be_down)
                    if eager
                    else EvmChain(deployed.chain_id, Endpoints(deployed.chain_id, urls, policy))
                )
                chains[deployed.chain_id] = await stack.enter_async_context(chain)
        yield chains
