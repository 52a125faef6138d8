"""A node of a simulated chain, as JSON-RPC sees it; one in a few may lie."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from eth_utils import keccak
from eth_utils.address import to_checksum_address

from bridge.evm.rpc_answers import TransientRpcError
from bridge.protocol.contracts import ROUTER
from bridge.protocol.events import MessageRouted, decode_event, topic_of
from bridge.protocol.gmps import gmps_from_bits
from bridge.protocol.message import decode_envelope
from bridge.protocol.ports import Block, Call, CallRevertedError, Log, Receipt, TransientError
from tests.support.simulation.chain import SilentError, SimulatedChain
from tests.support.simulation.contracts import DISPATCHED, event_log, gmp_address


class SimulatedNode:
    """See `bridge.evm.transport.Exchange`: one way to a chain, which knows all of it."""

    def __init__(self, chain: SimulatedChain) -> None:
        self.chain = chain
        self._answers: dict[str, Callable[..., Awaitable[Any]]] = {
            "eth_chainId": self._chain_id,
            "eth_getBlockByNumber": self._block,
            "eth_getLogs": self._logs,
            "eth_call": self._call,
            "eth_estimateGas": self._gas,
            "eth_maxPriorityFeePerGas": self._priority_fee,
            "eth_sendRawTransaction": self._take,
            "eth_getTransactionByHash": self._transaction,
            "eth_getTransactionReceipt": self._receipt,
            "eth_getTransactionCount": self._count,
            "eth_getBalance": self._balance,
        }

    async def ask(self, method: str, params: Sequence[Any]) -> dict[str, Any]:
        """See `Exchange.ask`."""
        try:
            return {"result": await self._answers[method](*params)}
        except SilentError as error:
            raise TransientRpcError(str(error)) from error
        except CallRevertedError as error:
            return {"error": {"code": 3, "message": "execution reverted", "data": _hex(error.data)}}
        except TransientError as error:
            return {"error": {"code": -32000, "message": str(error)}}

    async def close(self) -> None:
        """See `Exchange.close`."""

    async def _chain_id(self) -> str:
        return hex(self.chain.chain_id)

    async def _block(self, which: str, _whole: bool) -> Any:
        if which == "latest":
            return self._block_json(await self.chain.head())
        number = int(which, 16) if which.startswith("0x") else await self.chain.height_of(which)  # type: ignore[arg-type]  # a tag
        block = await self.chain.block(number)
        return None if block is None else self._block_json(block)

    def _block_json(self, block: Block) -> dict[str, str]:
        return {
            "number": hex(block.number),
            "hash": _hex(block.hash),
            "parentHash": _hex(block.parent_hash),
            "timestamp": hex(block.timestamp),
            "baseFeePerGas": hex(self.chain.base_fee),
        }

    async def _logs(self, criteria: dict[str, Any]) -> Any:
        topics = [bytes.fromhex(topic[2:]) for topic in criteria["topics"][0]]
        if "blockHash" in criteria:
            first = last = self.chain.number_of(bytes.fromhex(criteria["blockHash"][2:]))
        else:
            first, last = int(criteria["fromBlock"], 16), int(criteria["toBlock"], 16)
        return [_log_json(log) for log in await self.chain.logs(first, last, criteria["address"], topics)]

    async def _call(self, fields: dict[str, str], block: str) -> str:
        number = None if block == "latest" else int(block, 16)
        return _hex(await self.chain.call(_call_of(fields), block=number))

    async def _gas(self, fields: dict[str, str]) -> str:
        return hex(await self.chain.estimate_gas(_call_of(fields), fields["from"]))

    async def _priority_fee(self) -> str:
        return hex((await self.chain.fees()).priority_fee)

    async def _take(self, raw: str) -> str:
        transaction = bytes.fromhex(raw[2:])
        await self.chain.broadcast(transaction)
        return _hex(keccak(transaction))

    async def _transaction(self, transaction_hash: str) -> Any:
        key = bytes.fromhex(transaction_hash[2:])
        return {"hash": transaction_hash} if key in self.chain.pool or self.chain.includes(key) else None

    async def _receipt(self, transaction_hash: str) -> Any:
        receipt = await self.chain.receipt(bytes.fromhex(transaction_hash[2:]))
        return None if receipt is None else _receipt_json(receipt)

    async def _count(self, address: str, block: str) -> str:
        count = self.chain.transaction_count if block == "latest" else self.chain.pending_count
        return hex(await count(address))

    async def _balance(self, address: str, _block: str) -> str:
        return hex(await self.chain.balance(address))


class LyingNode(SimulatedNode):
    """Answers some requests with what is not so, each as a liar would want to be believed."""

    def __init__(self, chain: SimulatedChain, dice: random.Random, share: float) -> None:
        """Lies in that share of its answers."""
        super().__init__(chain)
        self._dice = dice
        self.share = share
        self.told = 0  # lies
        self._lies: dict[str, Callable[..., Any]] = {
            "eth_getBlockByNumber": self._lie_about_block,
            "eth_getLogs": self._lie_about_logs,
            "eth_call": self._lie_about_call,
            "eth_estimateGas": lambda *_: self._dice.choice([_result(hex(1)), _result(hex(10**12)), _reverted()]),
            "eth_maxPriorityFeePerGas": lambda *_: _result(hex(self._dice.choice([0, 1_000]))),
            "eth_sendRawTransaction": self._lie_about_taking,
            "eth_getTransactionByHash": lambda *_: _result(None),
            "eth_getTransactionReceipt": self._lie_about_receipt,
            "eth_getTransactionCount": lambda *_: _result(hex(self._dice.choice([0, self._dice.randrange(50)]))),
            "eth_getBalance": lambda *_: _result("0x0"),
        }

    async def ask(self, method: str, params: Sequence[Any]) -> dict[str, Any]:
        """See `Exchange.ask`."""
        honest: dict[str, Any] = {}
        lie = self._lies.get(method) if self._dice.random() < self.share else None
        if lie is None or method != "eth_sendRawTransaction":
            honest = await super().ask(method, params)
        if lie is None:
            return honest
        answer: dict[str, Any] = lie(honest, *params)
        self.told += answer != honest
        return answer

    def _lie_about_block(self, honest: dict[str, Any], *_params: Any) -> dict[str, Any]:
        block = honest.get("result")
        if not isinstance(block, dict):
            return honest
        number = int(block["number"], 16)
        match self._dice.randrange(4):
            case 0:
                return _result(None)
            case 1:
                return _result({**block, "timestamp": "0x1"})
            case 2:  # of another branch
                return _result({**block, "hash": _hex(keccak(text=f"{number} {self._dice.random()}"))})
            case _:  # an old one, or one that is not there yet
                other = max(0, number + self._dice.choice([-20, -8, -3, 5]))
                known = self.chain.header(other)
                made_up = {**block, "number": hex(other), "hash": _hex(keccak(text=f"{other}"))}
                return _result(made_up if known is None else self._block_json(known))

    def _lie_about_logs(self, honest: dict[str, Any], *_params: Any) -> dict[str, Any]:
        logs = honest.get("result") or []
        match self._dice.randrange(5):
            case 0:
                return _result([])
            case 1:
                return _result([{**log, "removed": True} for log in logs])
            case 2:
                return _result([{**log, "transactionHash": "0x" + "66" * 32} for log in logs])
            case 3:
                return _result(self._dice.sample(logs, len(logs) // 2))
            case _:
                return _result([*logs, *self._invented()])

    def _invented(self) -> list[dict[str, Any]]:
        """A message that nobody sent, made of one that somebody did; in the same block, in a transaction of its own."""
        routed = self.chain.some_log(topic_of("MessageRouted"))
        if routed is None:
            return []
        event = decode_event(routed.topics, routed.data)
        assert isinstance(event, MessageRouted)
        message = replace(decode_envelope(event.envelope).message, payload=b"forged", nonce=10_000)
        forged = replace(event, message_id=message.id, envelope=message.encode())
        address, topics, data = event_log(forged)
        gmps = sorted(gmps_from_bits(event.gmps))
        invented = [(gmp_address(gmp), (DISPATCHED,), message.encode()) for gmp in gmps]
        return [
            _log_json(
                replace(routed, address=to, topics=named, data=content, transaction_hash=message.id, log_index=900 + at)
            )
            for at, (to, named, content) in enumerate([*invented, (address, topics, data)])
        ]

    def _lie_about_call(self, honest: dict[str, Any], fields: dict[str, str], _block: str) -> dict[str, Any]:
        answer, selector = honest.get("result"), bytes.fromhex(fields["data"][2:10])
        if answer is None or self._dice.random() < 0.2:
            return _result("0x") if answer is None else _reverted()
        if selector == ROUTER.selector("hasReceived"):
            return _result(_hex((1 - int(answer, 16)).to_bytes(32, "big")))
        if selector == ROUTER.selector("receiptsOf"):  # all have delivered and it is executed, or nobody has
            return _result(_hex(self._dice.choice([b"\x00" * 30 + b"\x00\x0e" + b"\x00" * 31 + b"\x01", b"\x00" * 64])))
        return _result("0x" + "00" * (len(answer) // 2 - 1))

    def _lie_about_taking(self, _honest: dict[str, Any], raw: str) -> dict[str, Any]:
        said = ["nonce too low", "insufficient funds", "replacement transaction underpriced", "invalid sender"]
        text = self._dice.choice(["", *said])
        return _error(text) if text else _result(_hex(keccak(bytes.fromhex(raw[2:]))))

    def _lie_about_receipt(self, honest: dict[str, Any], transaction_hash: str) -> dict[str, Any]:
        receipt, head = honest.get("result"), self.chain.header(self.chain.height)
        assert head is not None
        if receipt is None:  # included at the head, it says
            made_up = Receipt(
                transaction_hash=bytes.fromhex(transaction_hash[2:]),
                block_number=head.number,
                block_hash=head.hash,
                succeeded=self._dice.random() < 0.5,
                gas_used=1,
                logs=(),
            )
            return _result(_receipt_json(made_up))
        match self._dice.randrange(4):
            case 0:
                return _result(None)
            case 1:
                return _result({**receipt, "status": "0x0", "logs": []})
            case 2:
                return _result({**receipt, "logs": []})
            case _:
                return _result({**receipt, "blockNumber": hex(head.number), "blockHash": _hex(head.hash)})


def _result(value: Any) -> dict[str, Any]:
    return {"result": value}


def _error(text: str) -> dict[str, Any]:
    return {"error": {"code": -32000, "message": text}}


def _reverted() -> dict[str, Any]:
    return {"error": {"code": 3, "message": "execution reverted", "data": "0x"}}


def _call_of(fields: dict[str, str]) -> Call:
    return Call(
        to=to_checksum_address(fields["to"]),
        data=bytes.fromhex(fields["data"][2:]),
        value=int(fields.get("value", "0x0"), 16),
        gas=int(fields["gas"], 16) if "gas" in fields else None,
    )


def _log_json(log: Log) -> dict[str, Any]:
    return {
        "address": log.address,
        "topics": [_hex(topic) for topic in log.topics],
        "data": _hex(log.data),
        "blockNumber": hex(log.block_number),
        "blockHash": _hex(log.block_hash),
        "transactionHash": _hex(log.transaction_hash),
        "logIndex": hex(log.log_index),
    }


def _receipt_json(receipt: Receipt) -> dict[str, Any]:
    return {
        "transactionHash": _hex(receipt.transaction_hash),
        "blockNumber": hex(receipt.block_number),
        "blockHash": _hex(receipt.block_hash),
        "status": hex(receipt.succeeded),
        "gasUsed": hex(receipt.gas_used),
        "logs": [_log_json(log) for log in receipt.logs],
    }


def _hex(data: bytes) -> str:
    return "0x" + data.hex()
