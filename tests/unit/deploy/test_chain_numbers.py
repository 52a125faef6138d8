"""A GMP's name for a chain that is wrong is found before anything is sent."""

from __future__ import annotations

import pytest

from bridge.deploy.addresses import address_table, wrong_axelar_name

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
def test_axelars_name_of_a_public_gateways_chain_is_the_tables(changes: dict[str, str], wrong: list[str]) -> None:
    assert wrong_axelar_name(SEPOLIA.chain_id, {**SEPOLIA.gmps["axelar"], **changes}) == wrong
