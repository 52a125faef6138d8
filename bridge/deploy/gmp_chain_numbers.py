"""What GMPs call a chain, against what a network file says: with a wrong number messages go elsewhere, or nowhere."""

from __future__ import annotations

from bridge.deploy.addresses import address_table
from bridge.deploy.plan import PlannedChain
from bridge.gmps.registry import adapter_class
from bridge.protocol.contracts import contract
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import CallRevertedError, Chain, read_view


async def wrong_numbers(planned: PlannedChain, chain: Chain) -> list[str]:
    """The numbers and names of a chain in its GMPs' sections that are wrong, one line each.

    The GMP's own contract is asked where it knows. Axelar's gateway does not: the table says what the public one belongs to.

    Raises:
        UnansweredError: no endpoint answers.
    """
    lines = []
    for gmp, section in planned.gmps.items():
        contracts = adapter_class(Gmp.parse(gmp)).CONTRACTS
        number = contracts.read(section).number
        if contracts.ASKED_FOR_NUMBER is not None:
            field, function = contracts.ASKED_FOR_NUMBER
            address = str(section[field])
            asked = contract(f"{function}() returns ({contracts.NUMBER_OF[1]})")
            try:
                found = await read_view(chain, asked, address, function)
            except CallRevertedError:
                lines.append(f"gmps.{gmp}.{field}: {address} does not say what it calls the chain ({function})")
            else:
                if found != number:
                    lines.append(f"gmps.{gmp}: {address} calls the chain {found}, the plan {number}")
    return lines + _wrong_axelar_name(planned)


def _wrong_axelar_name(planned: PlannedChain) -> list[str]:
    label = Gmp.AXELAR.label
    section = planned.gmps.get(label, {})
    for public in address_table().chains.values():
        known = public.gmps.get(label)
        is_its_gateway = known and str(known["gateway"]).lower() == str(section.get("gateway")).lower()
        if public.chain_id == planned.chain_id and known and is_its_gateway:
            found, name = known["chainName"], section["chainName"]
            return [] if found == name else [f"gmps.{label}: Axelar calls the chain {found!r}, the plan {name!r}"]
    return []
