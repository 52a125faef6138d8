"""Who runs which verifier, as the GMPs themselves publish it. A plan file may name more, or others.

Sources: Wormhole's guardian set 4 (wormhole-foundation/wormhole-networks, mainnetv2/guardianset/v4.prototxt); Hyperlane's default
ISM of Ethereum (hyperlane-xyz/hyperlane-monorepo, typescript/sdk/src/consts/multisigIsm.ts); LayerZero's DVNs on Ethereum (the list
of DVN addresses in LayerZero's documentation). A name is one operator, whichever GMP it verifies for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KNOWN_OPERATORS: Final[Mapping[str, str]] = {
    # Wormhole's guardians
    "0x5893B5A76c3f739645648885bDCcC06cd70a3Cd3": "RockawayX",
    "0xfF6CB952589BDE862c25Ef4392132fb9D4A42157": "Staked",
    "0x114De8460193bdf3A2fCf81f86a09765F4762fD1": "Figment",
    "0x107A0086b32d7A0977926A205131d8731D39cbEB": "ChainodeTech",
    "0x8C82B2fd82FaeD2711d59AF0F2499D16e726f6b2": "Inotel",
    "0x11b39756C042441BE6D8650b69b54EbE715E2343": "HashKey Cloud",
    "0x54Ce5B4D348fb74B958e8966e2ec3dBd4958a7cd": "ChainLayer",
    "0x15e7cAF07C4e3DC8e7C469f92C8Cd88FB8005a20": "xLabs",
    "0x74a3bf913953D695260D88BC1aA25A4eeE363ef0": "Forbole",
    "0x000aC0076727b35FBea2dAc28fEE5cCB0fEA768e": "Staking Fund",
    "0xAF45Ced136b9D9e24903464AE889F5C8a723FC14": "Moonlet",
    "0xf93124b7c738843CBB89E864c862c38cddCccF95": "P2P Validator",
    "0xD2CC37A4dc036a8D232b48f62cDD4731412f4890": "01node",
    "0xDA798F6896A3331F64b48c12D1D57Fd9cbe70811": "MCF",
    "0x71AA1BE1D36CaFE3867910F99C09e347899C19C3": "Everstake",
    "0x8192b6E7387CCd768277c17DAb1b7a5027c0b3Cf": "Chorus One",
    "0x178e21ad2E77AE06711549CFBB1f9c7a9d8096e8": "syncnode",
    "0x5E1487F35515d02A92753504a8D75471b9f49EdB": "Triton",
    "0x6FbEBc898F403E4773E95feB15E80C9A99c8348d": "Staking Facilities",
    # Hyperlane's validators of Ethereum
    "0x03c842db86a6a3e524d4a6615390c1ea8e2b9541": "Abacus Works",
    "0x94438a7de38d4548ae54df5c6010c4ebc5239eae": "DSRV",
    "0x5450447aee7b544c462c9352bef7cad049b0c2dc": "Zee Prime",
    "0xb3ac35d3988bca8c2ffd195b1c6bee18536b317b": "Staked",
    "0xb683b742b378632a5f73a2a5a45801b3489bba44": "Luganodes",
    "0x3786083ca59dc806d894104e65a13a70c2b39276": "Imperator",
    "0x4f977a59fdc2d9e39f6d780a84d5b4add1495a36": "Mitosis",
    "0x29d783efb698f9a2d3045ef4314af1f5674f52c5": "Substance Labs",
    # LayerZero's DVNs on Ethereum
    "0x589dEDbD617e0CBcB916A9223F4d1300c294236b": "LayerZero Labs",
    "0xD56e4eAb23cb81f43168F9F45211Eb027b9aC7cc": "Google Cloud",
    "0x380275805876Ff19055EA900CDb2B46a94ecF20D": "Horizen",
    "0xa59BA433ac34D2927232918Ef5B2eaAfcF130BA5": "Nethermind",
    "0xa4fE5A5B9A846458a70Cd0748228aED3bF65c2cd": "Canary",
}
