"""A chain behind the user's own Web3, which keeps its provider, middleware and account."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from eth_typing import ChecksumAddress, HexStr
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes
from web3 import AsyncWeb3, Web3
from web3.exceptions import BlockNotFound, ContractLogicError, TimeExhausted, TransactionNotFound, Web3RPCError
from web3.types import LogReceipt, TxParams, TxReceipt

from bridge.evm.chain import as_port_error, to_values
from bridge.evm.rpc_answers import Request, RpcError, decoder_of, error_of, revert_data
from bridge.protocol.deployment import DeploymentError, FinalityTag
from bridge.protocol.ports import (
    Block,
    Call,
    CallRevertedError,
    Fees,
    FeesTooHighError,
    Log,
    Receipt,
    TransientError,
    UnansweredError,
)

_BASE_FEE_MARGIN: Final = 2  # as in `bridge.evm.chain`


class Web3Chain:
    """Implements `Chain` through `web3.eth`. A synchronous Web3 runs in a thread."""

    def __init__(self, chain_id: int, web3: AsyncWeb3[Any] | Web3) -> None:
        """Wraps a Web3 for `chain_id`; the caller keeps ownership of its connections."""
        self._chain_id = chain_id
        self._web3 = web3
        self._is_verified = False

    @property
    def chain_id(self) -> int:
        """See `Chain.chain_id`."""
        return self._chain_id

    @property
    def account(self) -> ChecksumAddress | None:
        """The account that this Web3 signs for (`eth.default_account`), or None."""
        account = self._web3.eth.default_account
        return ChecksumAddress(account) if isinstance(account, str) else None

    async def head(self) -> Block:
        """See `Chain.head`."""
        return _block_of(await self._ask("eth_getBlockByNumber", lambda eth: eth.get_block("latest")))

    async def height_of(self, tag: FinalityTag) -> int:
        """See `Chain.height_of`."""
        try:
            return int((await self._ask("eth_getBlockByNumber", lambda eth: eth.get_block(tag)))["number"])
        except BlockNotFound as error:
            raise UnansweredError(f"the node of chain {self._chain_id} reports no {tag} block yet") from error

    async def block(self, number: int) -> Block | None:
        """See `Chain.block`."""
        try:
            return _block_of(await self._ask("eth_getBlockByNumber", lambda eth: eth.get_block(number)))
        except BlockNotFound:
            return None

    async def logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        """See `Chain.logs`."""
        criteria = {
            "fromBlock": first,
            "toBlock": last,
            "address": [to_checksum_address(address) for address in addresses],
            "topics": [list(topics)],
        }
        entries = await self._ask("eth_getLogs", lambda eth: eth.get_logs(criteria))
        return [_log_of(log) for log in entries if not log.get("removed")]

    async def call(self, call: Call, *, sender: str | None = None, block: int | None = None) -> bytes:
        """See `Chain.call`."""
        at = "latest" if block is None else block
        answer = await self._ask("eth_call", lambda eth: eth.call(_params_of(call, sender), at))
        read = decoder_of(f"the answer of {call.to} to a call", to_values(call.returns))
        try:
            return read(f"0x{bytes(answer).hex()}")
        except RpcError as error:
            raise as_port_error(error) from error

    async def estimate_gas(self, call: Call, sender: str) -> int:
        """See `Chain.estimate_gas`."""
        return int(await self._ask("eth_estimateGas", lambda eth: eth.estimate_gas(_params_of(call, sender))))

    async def fees(self, limit: int | None = None) -> Fees:
        """See `Chain.fees`."""
        base = (await self._ask("eth_getBlockByNumber", lambda eth: eth.get_block("latest"))).get("baseFeePerGas")
        if base is None:
            raise UnansweredError(f"chain {self._chain_id} has no base fee; Waybill sends EIP-1559 transactions only")
        priority = max(1, int(await self._ask("eth_maxPriorityFeePerGas", lambda eth: eth.max_priority_fee)))
        if limit is not None and base + priority > limit:
            raise FeesTooHighError(self._chain_id, base + priority, limit)
        offered = _BASE_FEE_MARGIN * base + priority
        return Fees(max_fee=offered if limit is None else min(offered, limit), priority_fee=priority)

    async def broadcast(self, transaction: bytes) -> None:
        """See `Chain.broadcast`."""
        await self._ask("eth_sendRawTransaction", lambda eth: eth.send_raw_transaction(transaction))

    async def send(self, call: Call, sender: str, gas: int) -> HexBytes:
        """Sends a transaction that this Web3 signs, through its middleware or node; returns the hash."""
        params: TxParams = {**_params_of(call, sender), "gas": gas}
        return HexBytes(await self._ask("eth_sendTransaction", lambda eth: eth.send_transaction(params)))

    async def inclusion(self, transaction_hash: bytes, seconds: float) -> TxReceipt | None:
        """Returns the receipt once the transaction is included, or None after `seconds`."""
        try:
            return cast(
                TxReceipt,
                await self._ask(
                    "eth_getTransactionReceipt",
                    lambda eth: eth.wait_for_transaction_receipt(transaction_hash, seconds),
                ),
            )
        except TimeExhausted:
            return None

    async def receipt(self, transaction_hash: bytes) -> Receipt | None:
        """See `Chain.receipt`."""
        try:
            receipt = await self._ask(
                "eth_getTransactionReceipt", lambda eth: eth.get_transaction_receipt(HexBytes(transaction_hash))
            )
        except TransactionNotFound:
            return None
        return Receipt(
            transaction_hash=bytes(receipt["transactionHash"]),
            block_number=receipt["blockNumber"],
            block_hash=bytes(receipt["blockHash"]),
            succeeded=receipt["status"] == 1,
            gas_used=receipt["gasUsed"],
            logs=tuple(_log_of(log) for log in receipt["logs"]),
        )

    async def transaction_count(self, address: str) -> int:
        """See `Chain.transaction_count`."""
        return await self._count(address, "latest")

    async def pending_count(self, address: str) -> int:
        """See `Chain.pending_count`."""
        return await self._count(address, "pending")

    async def _count(self, address: str, at: str) -> int:
        account = to_checksum_address(address)
        return int(await self._ask("eth_getTransactionCount", lambda eth: eth.get_transaction_count(account, at)))

    async def balance(self, address: str) -> int:
        """See `Chain.balance`."""
        return int(await self._ask("eth_getBalance", lambda eth: eth.get_balance(to_checksum_address(address))))

    async def _ask(self, method: str, ask: Callable[[Any], Any]) -> Any:
        """Calls `web3.eth`.

        Raises:
            BlockNotFound, TransactionNotFound, TimeExhausted: raised by web3.
            CallRevertedError, TransientError: see `Chain`.
            DeploymentError: the Web3 is connected to another chain.
        """
        if not self._is_verified:
            actual = await self._request("eth_chainId", lambda eth: eth.chain_id)
            if actual != self._chain_id:
                raise DeploymentError(f"the Web3 for chain {self._chain_id} is connected to chain {actual}")
            self._is_verified = True
        return await self._request(method, ask)

    async def _request(self, method: str, ask: Callable[[Any], Any]) -> Any:
        try:
            if isinstance(self._web3, AsyncWeb3):
                return await ask(self._web3.eth)
            return await asyncio.to_thread(ask, self._web3.eth)
        except (BlockNotFound, TransactionNotFound, TimeExhausted):
            raise
        except ContractLogicError as error:
            raise CallRevertedError(revert_data(RpcError(str(error), data=error.data))) from error
        except Web3RPCError as error:
            response = (error.rpc_response or {}).get("error") or str(error)
            reason = error_of(response, Request(method), f"chain {self._chain_id}: {method}")
            reason.__cause__ = error
            raise as_port_error(reason) from reason
        except Exception as error:
            # Providers raise different exceptions for an unreachable node.
            raise TransientError(f"chain {self._chain_id}: {method}: {type(error).__name__}: {error}") from error


def as_tx_receipt(receipt: Receipt) -> TxReceipt:
    """Converts a receipt of Waybill's transport to web3's type, with the fields that Waybill uses."""
    logs = [
        {
            "address": to_checksum_address(log.address),
            "topics": [HexBytes(topic) for topic in log.topics],
            "data": HexBytes(log.data),
            "blockNumber": log.block_number,
            "blockHash": HexBytes(log.block_hash),
            "transactionHash": HexBytes(log.transaction_hash),
            "logIndex": log.log_index,
            "removed": False,
        }
        for log in receipt.logs
    ]
    fields = {
        "transactionHash": HexBytes(receipt.transaction_hash),
        "blockNumber": receipt.block_number,
        "blockHash": HexBytes(receipt.block_hash),
        "status": int(receipt.succeeded),
        "gasUsed": receipt.gas_used,
        "logs": logs,
    }
    return cast(TxReceipt, fields)


def _block_of(block: Any) -> Block:
    return Block(
        number=block["number"],
        hash=bytes(block["hash"]),
        parent_hash=bytes(block["parentHash"]),
        timestamp=block["timestamp"],
    )


def _log_of(log: LogReceipt) -> Log:
    return Log(
        address=log["address"],
        topics=tuple(map(bytes, log["topics"])),
        data=bytes(log["data"]),
        block_number=log["blockNumber"],
        block_hash=bytes(log["blockHash"]),
        transaction_hash=bytes(log["transactionHash"]),
        log_index=log["logIndex"],
    )


def _params_of(call: Call, sender: str | None) -> TxParams:
    params: TxParams = {"to": to_checksum_address(call.to), "data": HexStr(f"0x{call.data.hex()}")}
    if call.value:
        params["value"] = cast(Any, call.value)
    if call.gas is not None:
        params["gas"] = call.gas
    if sender is not None:
        params["from"] = to_checksum_address(sender)
    return params
