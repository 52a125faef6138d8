"""A GMP's name for a chain that is wrong is found before anything is sent."""

from __future__ import annotations

import pytest

from bridge.deploy.addresses import address_table
from bridge.deploy.gmp_chain_numbers import wrong_numbers
from bridge.deploy.plan import PlannedChain
from bridge.evm.chain import EvmChain
from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.endpoints import Endpoints

SEPOLIA = address_table().chain("sepolia")


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, []),
        (
            {"chainName": "sepolia"},
            [
                f"gmps.axelar: Axelar identifies the chain as {SEPOLIA.gmps['axelar']['chainName']!r}, the plan as 'sepolia'"
            ],
        ),
        ({"chainName": "sepolia", "gateway": "0x" + "11" * 20}, []),
    ],
    ids=["as Axelar says", "another name", "another gateway, which the table does not know"],
)
async def test_axelars_name_of_a_public_gateways_chain_is_the_tables(changes: dict[str, str], wrong: list[str]) -> None:
    url = "http://127.0.0.1:9"  # nobody is asked
    axelar = {**SEPOLIA.gmps["axelar"], **changes}
    planned = PlannedChain(
        chain_id=SEPOLIA.chain_id, name="sepolia", rpc_urls=(url,), confirmations=2, gmps={"axelar": axelar}
    )
    async with EvmChain(SEPOLIA.chain_id, Endpoints(SEPOLIA.chain_id, [url], EndpointPolicy())) as chain:
        assert await wrong_numbers(planned, chain) == wrong
