"""Reads the ramps of a network's lanes from CCIP's router on each chain.

`typeAndVersion` identifies a ramp's version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from eth_utils.address import to_checksum_address

from bridge.protocol.contracts import contract
from bridge.protocol.ports import CallRevertedError, Chain, UnansweredError, read_view

_ROUTER: Final = contract(
    "getOnRamp(uint64) returns (address)",
    "getOffRamps() returns ((uint64,address)[])",
)
_VERSIONED: Final = contract("typeAndVersion() returns (string)")
_CONFIGURED: Final = contract(
    "getStaticConfig() returns (uint64)"
)  # the chain's selector is the first of several fields
_VERSIONS: Final = {
    "onRamp": "OnRamp 1.6.",
    "onRampV2": "OnRamp 2.",
    "offRamp": "OffRamp 1.6.",
}  # prefix of `typeAndVersion` by key


async def find_ramps(
    chain: Chain, router: str, given: Mapping[str, str], selectors: Mapping[str, int]
) -> tuple[dict[str, str], list[str]]:
    """Returns the ramps that serve the lanes to and from other chains, and the problems with the configured ones.

    Args:
        chain: Chain whose ramps are read.
        router: Address of CCIP's router.
        given: Configured ramps by the file's keys onRamp, onRampV2 and offRamp.
        selectors: CCIP's selectors of the other chains by chain name.

    Returns:
        Ramps by those keys, where configured ones take precedence; and a list of problems, one line each.

    Raises:
        UnansweredError: no endpoint answered.
    """
    try:
        sending = [
            (f"to {name}", await read_view(chain, _ROUTER, router, "getOnRamp", selector))
            for name, selector in selectors.items()
        ]
        receiving = await read_view(chain, _ROUTER, router, "getOffRamps")
    except CallRevertedError:
        return {}, [f"gmps.ccip.router: {router} has no getOnRamp or getOffRamps; write the address of CCIP's router"]
    names = {selector: name for name, selector in selectors.items()}
    lanes = [(lane, ramp) for lane, ramp in sending if int(ramp, 16)]
    lanes += [(f"from {names[selector]}", ramp) for selector, ramp in receiving if selector in names]
    versions = {ramp: await _version(chain, ramp) for ramp in dict.fromkeys(ramp for _, ramp in lanes)}
    problems, named = [], dict[str, dict[str, str]]()
    for lane, ramp in lanes:
        key = next((key for key, start in _VERSIONS.items() if versions[ramp].startswith(start)), None)
        if key is not None:
            named.setdefault(key, {})[to_checksum_address(ramp)] = lane
        elif lane.startswith("to "):  # a lane may have other off-ramps too, and a 2.0 message names its own
            problems.append(
                f"gmps.ccip: CCIP's router sends {lane} through {to_checksum_address(ramp)}, which is {versions[ramp]!r};"
                " Waybill supports CCIP 1.6 and 2.0: leave ccip out on one of the two chains"
            )
    if not (problems or named.keys() & {"onRamp", "onRampV2"}):
        problems.append(f"gmps.ccip: CCIP's router {router} has no on-ramp to {', '.join(selectors)}: leave ccip out")
    for key in _VERSIONS:
        if key in given:
            problems += await _ramp_problems(chain, key, given[key], list(named.get(key, {}).items()))
        elif len(candidates := named.get(key, {})) > 1:
            ramps = ", ".join(f"{ramp} ({lane})" for ramp, lane in candidates.items())
            problems.append(
                f"gmps.ccip.{key}: the router has several, and a relayer reads only one: {ramps}; write one"
            )
    return {key: next(iter(ramps)) for key, ramps in named.items()} | dict(given), problems


async def _ramp_problems(chain: Chain, key: str, given: str, named: Sequence[tuple[str, str]]) -> list[str]:
    version = await _version(chain, given)
    others = [f"{ramp} ({lane})" for ramp, lane in named if ramp.lower() != given.lower()]
    advice = f"write {' or '.join(others)}" if others else "leave the key out"
    if not version.startswith(_VERSIONS[key]):
        wanted = _VERSIONS[key].removesuffix(".")
        return [f"gmps.ccip.{key}: {given} is {version!r}, not an {wanted}: {advice}"]
    if others and len(others) == len(named):
        return [f"gmps.ccip.{key}: {given} is not the ramp that CCIP's router uses: {advice}, or leave the key out"]
    return []


async def wrong_selector(chain: Chain, selector: int, ramps: Mapping[str, str]) -> list[str]:
    """Returns the on-ramps' disagreements with the configured selector of a chain, one line each.

    Args:
        chain: Chain that the selector identifies.
        selector: CCIP's selector of the chain in the file.
        ramps: Ramps by the file's keys.

    Raises:
        UnansweredError: no endpoint answered.
    """
    lines = []
    for key in ("onRamp", "onRampV2"):
        if key in ramps:
            try:
                actual = await read_view(chain, _CONFIGURED, ramps[key], "getStaticConfig")
            except CallRevertedError:
                continue  # `find_ramps` reports contracts of another kind
            if actual != selector:
                lines.append(f"gmps.ccip: {key} {ramps[key]} identifies the chain as {actual}, the plan as {selector}")
    return lines


async def _version(chain: Chain, ramp: str) -> str:
    """Returns a ramp's `typeAndVersion`, or a note that it has none."""
    try:
        return str(await read_view(chain, _VERSIONED, ramp, "typeAndVersion"))
    except (CallRevertedError, UnansweredError):  # the router answered, so the ramp is at fault
        return "not a contract with typeAndVersion"
