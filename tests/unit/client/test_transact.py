"""A transaction that may have been sent is never reported as if nothing had happened."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from eth_account import Account

from bridge.client import NotIncludedError, transact
from bridge.protocol.ports import Call, Chain, Fees, UnansweredError


class SilentChain:
    """Answers until a transaction is broadcast."""

    chain_id = 31337

    async def estimate_gas(self, call: Call, sender: str) -> int:
        return 21_000

    async def transaction_count(self, address: str) -> int:
        return 0

    async def fees(self, limit: int | None = None) -> Fees:
        return Fees(max_fee=2, priority_fee=1)

    async def broadcast(self, transaction: bytes) -> Any:
        raise UnansweredError("timed out")


def test_a_broadcast_without_an_answer_names_the_transaction() -> None:
    account = Account.from_key("0x" + "11" * 32)
    call = Call(to=account.address, data=b"")
    with pytest.raises(
        NotIncludedError, match=r"transaction 0x[0-9a-f]{64} \(timed out\); look it up before sending again"
    ):
        asyncio.run(transact(cast(Chain, SilentChain()), account, call))
