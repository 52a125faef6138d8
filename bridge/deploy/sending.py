"""Sends a chain's transactions with the owner's key, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bridge.deploy.transactions import DeployError, Transaction
from bridge.evm.chain import EvmChain
from bridge.evm.signing import Signer
from bridge.evm.simple_sender import RevertedError, send
from bridge.protocol.contracts import explain_revert
from bridge.protocol.ports import Call, CallRevertedError, TransientError

MOST_GAS: Final = 2**24
"""Gas limit of a transaction (EIP-7825)."""

_INCLUSION_SECONDS: Final = 600.0


async def send_all(
    name: str,
    chain: EvmChain,
    signer: Signer,
    transactions: Sequence[Transaction],
    included: Callable[[Transaction], None] = lambda _: None,
) -> None:
    """Sends transactions, waiting for each to be included before sending the next.

    Args:
        name: Name of the chain, for errors.
        chain: Connection to the chain.
        signer: The owner's signer.
        transactions: Transactions in order.
        included: Called with each included transaction.

    Raises:
        DeployError: a transaction reverted or was not included within ten minutes. Earlier transactions stand, and the
            next run
            continues from there.
        TransientError: no endpoint answered.
    """
    if not transactions:
        return
    nonce, pending = await chain.transaction_count(signer.address), await chain.pending_count(signer.address)
    if pending > nonce:
        raise DeployError(
            f"chain {name!r}: {pending - nonce} transactions of {signer.address} are pending, perhaps from an interrupted run;"
            " wait until they are included or replace them, then deploy again"
        )
    for transaction in transactions:
        await _send(name, chain, signer, transaction, nonce)
        included(transaction)
        nonce += 1


def gas_limit(needed: int) -> int:
    """Returns the gas limit for an estimate: a fifth more, up to the limit of a transaction."""
    return max(needed, min(needed * 6 // 5, MOST_GAS))


async def _send(name: str, chain: EvmChain, signer: Signer, transaction: Transaction, nonce: int) -> None:
    call = Call(to=transaction.to, data=transaction.data)
    try:
        needed = await chain.estimate_gas(call, signer.address)
    except CallRevertedError as error:
        raise DeployError(
            f"chain {name!r}: {transaction.name!r} ({transaction.to}) would revert: {explain_revert(error.data)}"
        ) from error
    limited = replace(call, gas=gas_limit(needed))
    try:
        await send(chain, signer, limited, nonce=nonce, patience=_INCLUSION_SECONDS)
    except RevertedError as error:
        raise DeployError(f"chain {name!r}: {transaction.name!r}: {error}; inspect it, then deploy again") from error
    except TransientError as error:
        raise DeployError(
            f"chain {name!r}: {transaction.name!r}: {error}; deploy again once the chain includes transactions"
        ) from error
