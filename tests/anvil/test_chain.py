"""The chain port against a real node."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from bridge.devnet import Devnet
from bridge.devnet.accounts import signer
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.ports import Call, TerminalError, TransientError
from tests.anvil.rpc import mine, rpc
from tests.anvil.traffic import DAPP, RELAYER, transact
from tests.builders import ALPHA


@pytest.fixture
def alpha(devnet: Devnet) -> ChainDeployment:
    return devnet.deployment.chain(ALPHA)


@pytest.fixture
async def chain(chains: dict[int, EvmChain]) -> EvmChain:
    return chains[ALPHA]


def url_of(alpha: ChainDeployment) -> str:
    return alpha.rpc_urls[0]


def signed(sender: LocalAccount, nonce: int, *, max_fee: int = 10**10, tip: int = 10**9, value: int = 1) -> bytes:
    transaction: dict[str, Any] = {
        "type": 2,
        "chainId": ALPHA,
        "nonce": nonce,
        "to": sender.address,
        "value": value,
        "gas": 21_000,
        "maxFeePerGas": max_fee,
        "maxPriorityFeePerGas": tip,
    }
    return bytes(sender.sign_transaction(transaction).raw_transaction)


async def test_blocks_are_linked_and_there_is_none_above_the_head(alpha: ChainDeployment, chain: EvmChain) -> None:
    mine(url_of(alpha), 3)
    head = await chain.head()
    parent = await chain.block(head.number - 1)
    assert parent is not None
    assert head.parent_hash == parent.hash
    assert await chain.block(head.number) == head
    assert await chain.block(head.number + 1) is None


async def test_the_chain_itself_says_what_is_final(alpha: ChainDeployment, chain: EvmChain) -> None:
    rpc(url_of(alpha), "anvil_mine", hex(3))
    head = (await chain.head()).number
    assert await chain.height_of("finalized") <= await chain.height_of("safe") < head


async def test_a_call_reads_the_state_of_the_block_asked_for(alpha: ChainDeployment, chain: EvmChain) -> None:
    # The relayer's own retrier: unlike the dApp's, the devnet appoints none.
    call = Call(to=alpha.router, data=ROUTER.encode("retrierOf", RELAYER.address))
    before = (await chain.head()).number
    appoint = Call(to=alpha.router, data=ROUTER.encode("appointRetrier", DAPP.address))
    receipt = await transact(chain, RELAYER, appoint)
    assert int.from_bytes(await chain.call(call, block=before), "big") == 0
    assert int.from_bytes(await chain.call(call), "big") == int(DAPP.address, 16)
    assert receipt.logs[0].block_hash == receipt.block_hash
    assert await chain.logs(before + 1, receipt.block_number, [alpha.router], [receipt.logs[0].topics[0]]) == [
        receipt.logs[0]
    ]


async def test_transaction_may_be_sent_again_at_any_time(alpha: ChainDeployment, chain: EvmChain) -> None:
    raw = signed(DAPP, await chain.transaction_count(DAPP.address))
    rpc(url_of(alpha), "evm_setAutomine", False)
    try:
        await chain.broadcast(raw)
        await chain.broadcast(raw)
        assert await chain.receipt(keccak(raw)) is None
    finally:
        rpc(url_of(alpha), "evm_setAutomine", True)
    mine(url_of(alpha))
    await chain.broadcast(raw)
    receipt = await chain.receipt(keccak(raw))
    assert receipt is not None
    assert receipt.succeeded


async def test_used_nonce_fails_nothing_for_good(alpha: ChainDeployment, chain: EvmChain) -> None:
    nonce = await chain.transaction_count(DAPP.address)
    await chain.broadcast(signed(DAPP, nonce))
    mine(url_of(alpha))
    with pytest.raises(TransientError, match="nonce"):
        await chain.broadcast(signed(DAPP, nonce, value=2))


async def test_underpaid_replacement_may_be_sent_with_more(alpha: ChainDeployment, chain: EvmChain) -> None:
    nonce = await chain.transaction_count(DAPP.address)
    rpc(url_of(alpha), "evm_setAutomine", False)
    try:
        await chain.broadcast(signed(DAPP, nonce))
        with pytest.raises(TransientError, match="underpriced"):
            await chain.broadcast(signed(DAPP, nonce, value=2))
        replacement = signed(DAPP, nonce, value=2, max_fee=2 * 10**10, tip=2 * 10**9)
        await chain.broadcast(replacement)
    finally:
        rpc(url_of(alpha), "evm_setAutomine", True)
    mine(url_of(alpha))
    assert await chain.receipt(keccak(replacement)) is not None


async def test_bytes_that_are_no_transaction_are_never_taken(chain: EvmChain) -> None:
    with pytest.raises(TerminalError):
        await chain.broadcast(b"\x02nonsense")


async def test_what_fell_to_a_reorg_has_no_receipt_and_no_logs(alpha: ChainDeployment, chain: EvmChain) -> None:
    appoint = Call(to=alpha.router, data=ROUTER.encode("appointRetrier", DAPP.address))
    receipt = await transact(chain, DAPP, appoint)
    assert await chain.receipt(receipt.transaction_hash) == receipt
    rpc(url_of(alpha), "anvil_reorg", 1, [])
    assert await chain.receipt(receipt.transaction_hash) is None
    topic = receipt.logs[0].topics[0]
    assert await chain.logs(receipt.block_number, receipt.block_number, [alpha.router], [topic]) == []
    block = await chain.block(receipt.block_number)
    assert block is not None
    assert block.hash != receipt.block_hash


async def test_transaction_with_chain_fees_is_included_under_load(alpha: ChainDeployment, chain: EvmChain) -> None:
    fees = await chain.fees()
    rpc(url_of(alpha), "anvil_setNextBlockBaseFeePerGas", hex(fees.max_fee - fees.priority_fee))
    sender = signer("newcomer", 0)
    rpc(url_of(alpha), "anvil_setBalance", sender.address, hex(10**18))
    raw = signed(sender, 0, max_fee=fees.max_fee, tip=fees.priority_fee, value=0)
    await chain.broadcast(raw)
    mine(url_of(alpha))
    assert await chain.receipt(keccak(raw)) is not None
