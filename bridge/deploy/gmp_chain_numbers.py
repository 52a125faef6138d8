"""Checks the GMPs' chain identifiers in a network file; a wrong identifier misroutes or loses messages."""

from __future__ import annotations

from bridge.deploy.addresses import address_table
from bridge.deploy.plan import PlannedChain
from bridge.gmps.registry import adapter_class
from bridge.protocol.contracts import contract
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import CallRevertedError, Chain, read_view


async def wrong_numbers(planned: PlannedChain, chain: Chain) -> list[str]:
    """Returns the wrong chain identifiers in the GMPs' sections of a chain, one line each.

    The GMP's own contract is queried if it stores the identifier. Axelar's gateway does not, so its address is
    looked up in the address table.

    Raises:
        UnansweredError: no endpoint responded.
    """
    lines = []
    for gmp, section in planned.gmps.items():
        contracts = adapter_class(Gmp.parse(gmp)).CONTRACTS
        number = contracts.read(section).number
        if contracts.ASKED_FOR_NUMBER is not None:
            field, function = contracts.ASKED_FOR_NUMBER
            address = str(section[field])
            getter = contract(f"{function}() returns ({contracts.NUMBER_OF[1]})")
            try:
                actual = await read_view(chain, getter, address, function)
            except CallRevertedError:
                lines.append(
                    f"gmps.{gmp}.{field}: {address} has no {function}(); write the address of the GMP's contract"
                )
            else:
                if actual != number:
                    lines.append(f"gmps.{gmp}: {address} identifies the chain as {actual}, the plan as {number}")
    return lines + _wrong_axelar_name(planned)


def _wrong_axelar_name(planned: PlannedChain) -> list[str]:
    label = Gmp.AXELAR.label
    section = planned.gmps.get(label, {})
    for public in address_table().chains.values():
        known = public.gmps.get(label)
        is_its_gateway = known and str(known["gateway"]).lower() == str(section.get("gateway")).lower()
        if public.chain_id == planned.chain_id and known and is_its_gateway:
            actual, name = known["chainName"], section["chainName"]
            return (
                []
                if actual == name
                else [f"gmps.{label}: Axelar identifies the chain as {actual!r}, the plan as {name!r}"]
            )
    return []
