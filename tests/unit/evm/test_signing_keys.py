"""A key that is none is refused, and never shown; what a key signs is what eth_account makes of it."""

from __future__ import annotations

import asyncio

import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from bridge.evm.signing import InvalidKeyError, LocalSigner, UnsignedTransaction
from bridge.protocol.ports import Fees
from tests.cases import for_each_case

UINT64, UINT128 = st.integers(0, 2**64 - 1), st.integers(0, 2**128 - 1)


@for_each_case("key", ["", "0x", "0x1234", "zz" * 32, "0x" + "00" * 32, "0x" + "ff" * 32])
def test_a_text_that_is_no_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidKeyError) as caught:
        LocalSigner.from_key(key)
    assert len(key) < 4 or key not in str(caught.value)
    assert caught.value.__cause__ is None


@given(
    key=st.integers(1, 2**255).map(lambda number: f"0x{number:064x}"),
    numbers=st.tuples(UINT64, UINT64, UINT64, UINT128, UINT128, UINT128),
    to=st.binary(min_size=20, max_size=20),
    data=st.binary(max_size=70),
)
def test_signed_transaction_equals_eth_accounts(
    key: str, numbers: tuple[int, int, int, int, int, int], to: bytes, data: bytes
) -> None:
    chain_id, nonce, gas, value, max_fee, priority_fee = numbers
    address = f"0x{to.hex()}"
    wanted = Account.from_key(key).sign_transaction(
        {
            "type": 2,
            "chainId": chain_id,
            "nonce": nonce,
            "to": to,
            "value": value,
            "data": data,
            "gas": gas,
            "maxFeePerGas": max_fee,
            "maxPriorityFeePerGas": priority_fee,
        }
    )
    fees = Fees(max_fee, priority_fee)
    ours = UnsignedTransaction(chain_id=chain_id, nonce=nonce, to=address, data=data, value=value, gas=gas, fees=fees)
    signed = asyncio.run(LocalSigner.from_key(key).sign(ours))
    assert (signed.raw, signed.hash) == (bytes(wanted.raw_transaction), bytes(wanted.hash))
