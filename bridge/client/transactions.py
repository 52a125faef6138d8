"""One transaction, sent and waited for."""

from __future__ import annotations

import asyncio
import time

from eth_account.signers.base import BaseAccount
from eth_utils.address import to_canonical_address

from bridge.client.requests import NotIncludedError, RefusedError
from bridge.domain.ports import Call, CallRevertedError, Chain, InsufficientFundsError, Receipt

_POLL_SECONDS = 0.2
_GAS_MARGIN = 1.2
_INCLUSION_SECONDS = 180


async def transact(chain: Chain, account: BaseAccount, call: Call) -> Receipt:
    """Sends one transaction and waits until a block includes it.

    For accounts that send one thing at a time; a relayer's traffic goes through the nonce ledger (`bridge.evm`).

    Raises:
        RefusedError: the contract refuses, or the account can't pay.
        NotIncludedError: no block includes it in time.
    """
    try:
        gas = int(await chain.estimate_gas(call, account.address) * _GAS_MARGIN)
    except CallRevertedError as error:
        raise RefusedError.of(f"{call.to} on chain {chain.chain_id} refuses", error.data) from error
    except InsufficientFundsError as error:
        raise RefusedError(await _lacking(chain, account.address, call.value)) from error
    fees = await chain.fees()
    signed = account.sign_transaction(
        {
            "type": 2,
            "chainId": chain.chain_id,
            "nonce": await chain.transaction_count(account.address),
            "to": to_canonical_address(call.to),
            "value": call.value,
            "data": call.data,
            "gas": gas,
            "maxFeePerGas": fees.max_fee,
            "maxPriorityFeePerGas": fees.priority_fee,
        }
    )
    try:
        await chain.broadcast(bytes(signed.raw_transaction))
    except InsufficientFundsError as error:
        raise RefusedError(await _lacking(chain, account.address, call.value + gas * fees.max_fee)) from error
    receipt = await _included(chain, bytes(signed.hash))
    if not receipt.succeeded:
        raise RefusedError(
            f"transaction 0x{receipt.transaction_hash.hex()} on chain {chain.chain_id} reverted after its estimate did"
            " not: the state changed in between; try again"
        )
    return receipt


async def _lacking(chain: Chain, account: str, needed: int) -> str:
    balance = await chain.balance(account)
    return f"account {account} holds {balance} wei on chain {chain.chain_id}, and needs at least {needed}: send it some"


async def _included(chain: Chain, transaction_hash: bytes) -> Receipt:
    deadline = time.monotonic() + _INCLUSION_SECONDS
    while time.monotonic() < deadline:
        receipt = await chain.receipt(transaction_hash)
        if receipt is not None:
            return receipt
        await asyncio.sleep(_POLL_SECONDS)
    raise NotIncludedError(
        f"transaction 0x{transaction_hash.hex()} is on its way but in no block after {_INCLUSION_SECONDS} s;"
        " look it up before sending again"
    )
