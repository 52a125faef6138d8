"""Thresholds and operators on a real chain: read from the contract, and changed by governance alone."""

from __future__ import annotations

import pytest
from eth_abi.abi import encode
from eth_utils import keccak

from bridge.dead_letters.parameters import ALERT_THRESHOLD, Thresholds, operator_parameter
from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.evm.chain import EvmChain
from bridge.protocol.ports import Call
from bridge.service.dead_letter_service import on_chain_parameters
from tests.anvil.traffic import DAPP, transact

pytestmark = pytest.mark.long

OWNER = account(DEPLOYER_KEY)


async def test_thresholds_and_operators_come_from_the_contract(devnet: Devnet, chains: dict[int, EvmChain]) -> None:
    alpha = devnet.deployment.chains[0]
    assert alpha.parameters is not None
    parameters = on_chain_parameters(devnet.deployment, chains)
    assert await parameters.thresholds() == Thresholds(10, 100)
    assert await parameters.is_operator(OWNER.address)
    assert not await parameters.is_operator(DAPP.address)
    names, values = [ALERT_THRESHOLD, operator_parameter(DAPP.address)], [3, 1]
    arguments = encode(["uint64", "bytes32[]", "uint256[]"], [2, names, values])
    data = keccak(text="set(uint64,bytes32[],uint256[])")[:4] + arguments
    by_stranger = await transact(chains[alpha.chain_id], DAPP, Call(to=alpha.parameters, data=data))
    assert not by_stranger.succeeded, "no operator changes this alone"
    assert (await parameters.thresholds()).alert == 10
    await transact(chains[alpha.chain_id], OWNER, Call(to=alpha.parameters, data=data))
    assert (await parameters.thresholds()).alert == 3
    assert await parameters.is_operator(DAPP.address)
