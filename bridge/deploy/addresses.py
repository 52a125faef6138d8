"""The table of public chains with the GMPs' contracts on them, and network plans created from this table.

`scripts/network_addresses.py` generates the table from the GMPs' own registries.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources
from typing import Any, Final

from pydantic import Field

from bridge.gmps.registry import adapter_class
from bridge.gmps.verification import DEFAULT
from bridge.protocol.deployment import Address, Deployment, FileSection, GmpSection
from bridge.protocol.gmps import Gmp

_ENDPOINTS: Final = 3  # two must agree, so one may be down
_AGREEMENT: Final = 2
_FLOOR: Final = 2
_DVNS: Final = 2


class UnknownChainError(ValueError):
    """A chain is not in the address table, or the chains can't form a network."""


class LayerZeroParts(FileSection):
    """LayerZero's contracts on a chain besides its endpoint."""

    send_library: Address | None
    receive_library: Address | None
    dvns: dict[str, Address]  # by operator, in order of preference


class PublicChain(FileSection):
    """A public chain with its entries in the GMPs' registries."""

    chain_id: int
    testnet: bool
    confirmations: int
    final_blocks: int | None
    """Confirmations after which Wormhole considers a block final."""
    gmps: dict[str, GmpSection] = Field(repr=False)
    missing: tuple[str, ...]
    layerzero: LayerZeroParts = Field(repr=False)


class AddressTable(FileSection):
    """All public chains by name, and the packages from which the addresses were taken."""

    registries: dict[str, str]
    chains: dict[str, PublicChain]

    def chain(self, name: str) -> PublicChain:
        """Returns the chain with that name.

        Raises:
            UnknownChainError: the table has no such chain.
        """
        try:
            return self.chains[name]
        except KeyError:
            raise UnknownChainError(
                f"{name!r} is not in the address table, which has {', '.join(self.chains)}; for other chains, "
                "write a network file as docs/formats.md describes"
            ) from None

    def gmps_between(self, one: str, other: str) -> list[Gmp]:
        """Returns the GMPs that both chains support."""
        missing = {*self.chain(one).missing, *self.chain(other).missing}
        return [gmp for gmp in Gmp if gmp.label not in missing]


@cache
def address_table() -> AddressTable:
    """Returns the table shipped with this package."""
    return AddressTable.model_validate_json(resources.files("bridge.deploy").joinpath("addresses.json").read_text())


def public_chain_ids() -> frozenset[int]:
    """Returns the ids of the chains in the table."""
    return frozenset(chain.chain_id for chain in address_table().chains.values())


def wrong_axelar_name(chain_id: int, section: GmpSection) -> list[str]:
    """Returns the problem with Axelar's name of a chain, if there is one.

    Axelar's gateway does not store the name, so the table's name for that gateway is compared.
    """
    for public in address_table().chains.values():
        known = public.gmps.get(Gmp.AXELAR.label)
        if known is None or public.chain_id != chain_id:
            continue
        if str(known["gateway"]).lower() != str(section["gateway"]).lower():
            continue
        actual, name = known["chainName"], section["chainName"]
        if actual != name:
            return [f"gmps.axelar: Axelar identifies the chain as {actual!r}, the plan as {name!r}"]
    return []


def is_testnet(deployment: Deployment) -> bool:
    """Returns whether a network's chains are public testnets."""
    testnets = {chain.chain_id for chain in address_table().chains.values() if chain.testnet}
    return any(chain.chain_id in testnets for chain in deployment.chains)


def create_plan(network: str, names: Sequence[str], gmps: AbstractSet[Gmp]) -> dict[str, Any]:
    """Creates a network file for public chains, with `${PLACEHOLDERS}` for values that no registry contains.

    Args:
        network: Name of the network.
        names: Names of the chains in the table.
        gmps: GMPs to use on the chains that have them.

    Raises:
        UnknownChainError: a chain is unknown or repeated, there are fewer than two, testnets and mainnets are
            mixed, or two chains share fewer GMPs than the floor requires.
    """
    table = address_table()
    chains = {name: table.chain(name) for name in names}
    if len(chains) < 2 or len(chains) != len(names):
        raise UnknownChainError(f"a network needs at least two different chains, not {', '.join(names)}")
    if len({chain.testnet for chain in chains.values()}) == 2:
        mainnets = ", ".join(name for name, chain in chains.items() if not chain.testnet)
        raise UnknownChainError(
            f"{mainnets} cannot share a network with testnets: a testnet's GMPs do not reach mainnets"
        )
    for one, other in itertools.combinations(chains, 2):
        shared = [gmp for gmp in table.gmps_between(one, other) if gmp in gmps]
        if len(shared) < _FLOOR:
            named = ", ".join(gmp.label for gmp in shared) or "no GMP"
            raise UnknownChainError(
                f"{one} and {other} share {named}, but {_FLOOR} GMPs must agree: choose other chains or more GMPs"
            )
    return {
        "version": 1,
        "network": network,
        "owner": "${OWNER}",
        "revoker": "${REVOKER}",
        "tripwire": "${TRIPWIRE}",
        "floor": _FLOOR,
        "examples": False,
        "chains": [_planned(name, chain, chains, gmps) for name, chain in chains.items()],
    }


def _planned(name: str, chain: PublicChain, chains: dict[str, PublicChain], gmps: AbstractSet[Gmp]) -> dict[str, Any]:
    prefix = _variable(name)
    sections: dict[str, Any] = {
        gmp.label: dict(chain.gmps[gmp.label]) for gmp in Gmp if gmp in gmps and gmp.label in chain.gmps
    }
    for gmp, section in sections.items():
        # Required values that the registry lacks.
        fields = adapter_class(Gmp.parse(gmp)).CONTRACTS.model_fields.values()
        needed = [str(field.alias) for field in fields if field.is_required()]
        section |= {key: f"${{{prefix}_{gmp.upper()}_{_snake(key)}}}" for key in needed if key not in section}
    return {
        "chainId": chain.chain_id,
        "name": name,
        "rpcUrls": [f"${{{prefix}_RPC_{number}}}" for number in range(1, _ENDPOINTS + 1)],
        "confirmations": chain.confirmations,
        "finality": "finalized",
        "agreement": _AGREEMENT,
        "guardian": f"${{{prefix}_GUARDIAN}}",  # a guardian per chain, since a shared key could pause only one end
        "gmps": sections,
        "verification": {gmp: _uln(name, chain, chains) if gmp == Gmp.LAYERZERO.label else DEFAULT for gmp in sections},
    }


def _uln(name: str, chain: PublicChain, chains: dict[str, PublicChain]) -> dict[str, Any]:
    """Returns LayerZero's verification.

    It uses DVN operators that are on every chain, because both ends must use the same DVNs.
    """
    prefix = f"{_variable(name)}_LAYERZERO"
    with_layerzero = [other for other in chains.values() if Gmp.LAYERZERO.label in other.gmps]
    common = [dvn for dvn in chain.layerzero.dvns if all(dvn in other.layerzero.dvns for other in with_layerzero)][
        :_DVNS
    ]
    dvns = [chain.layerzero.dvns[operator] for operator in common]
    dvns += [f"${{{prefix}_DVN_{number}}}" for number in range(len(common) + 1, _DVNS + 1)]
    return {
        "sendLibrary": chain.layerzero.send_library or f"${{{prefix}_SEND_LIBRARY}}",
        "receiveLibrary": chain.layerzero.receive_library or f"${{{prefix}_RECEIVE_LIBRARY}}",
        "requiredDvns": dvns,
        "confirmations": f"${{{prefix}_CONFIRMATIONS}}" if chain.final_blocks is None else max(chain.final_blocks, 1),
    }


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")


def _snake(key: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in key)


def defaults(document: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each GMP whose verification the network file leaves to the GMP, with the GMP's verifiers."""
    used = {gmp for chain in document["chains"] for gmp, chosen in chain["verification"].items() if chosen == DEFAULT}
    yield from (f"{gmp}: {adapter_class(Gmp.parse(gmp)).CONTRACTS.VERIFIED_BY}" for gmp in sorted(used))
