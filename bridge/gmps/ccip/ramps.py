"""The ramps of a network's lanes, as CCIP's router on a chain names them. Each says by `typeAndVersion` which version it speaks."""

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
_CONFIGURED: Final = contract("getStaticConfig() returns (uint64)")  # the first of several: the chain's selector
_KINDS: Final = {
    "onRamp": "OnRamp 1.6.",
    "onRampV2": "OnRamp 2.",
    "offRamp": "OffRamp 1.6.",
}  # how versions begin, by key


async def find_ramps(
    chain: Chain, router: str, given: Mapping[str, str], selectors: Mapping[str, int]
) -> tuple[dict[str, str], list[str]]:
    """Which ramps serve the lanes to and from other chains, and what is wrong with those that a file names.

    Args:
        chain: where.
        router: CCIP's.
        given: the ramps in the file, by its keys: onRamp, onRampV2 and offRamp.
        selectors: CCIP's numbers for the other chains, by name.

    Returns:
        The ramps by those keys, the file's where it has them; and what is wrong, one line each.

    Raises:
        UnansweredError: no endpoint answers.
    """
    try:
        sending = [
            (f"to {name}", await read_view(chain, _ROUTER, router, "getOnRamp", selector))
            for name, selector in selectors.items()
        ]
        receiving = await read_view(chain, _ROUTER, router, "getOffRamps")
    except CallRevertedError:
        return {}, [f"gmps.ccip.router: {router} knows no getOnRamp or getOffRamps; is it CCIP's router?"]
    names = {selector: name for name, selector in selectors.items()}
    lanes = [(lane, ramp) for lane, ramp in sending if int(ramp, 16)]
    lanes += [(f"from {names[selector]}", ramp) for selector, ramp in receiving if selector in names]
    versions = {ramp: await _version(chain, ramp) for ramp in dict.fromkeys(ramp for _, ramp in lanes)}
    problems, named = [], dict[str, dict[str, str]]()
    for lane, ramp in lanes:
        key = next((key for key, start in _KINDS.items() if versions[ramp].startswith(start)), None)
        if key is not None:
            named.setdefault(key, {})[to_checksum_address(ramp)] = lane
        elif lane.startswith("to "):  # one that receives is beside others, and of 2.0 a message names its own
            problems.append(
                f"gmps.ccip: CCIP's router sends {lane} by {to_checksum_address(ramp)}, which is {versions[ramp]!r}; Waybill"
                " speaks CCIP 1.6 and 2.0: leave ccip out on this chain or on that one"
            )
    if not (problems or named.keys() & {"onRamp", "onRampV2"}):
        problems.append(f"gmps.ccip: CCIP's router {router} names no on-ramp to {', '.join(selectors)}: leave ccip out")
    for key in _KINDS:
        if key in given:
            problems += await _wrong(chain, key, given[key], list(named.get(key, {}).items()))
        elif len(found := named.get(key, {})) > 1:
            ramps = ", ".join(f"{ramp} ({lane})" for ramp, lane in found.items())
            problems.append(f"gmps.ccip.{key}: the router names several, and a relayer reads one: {ramps}; write which")
    return {key: next(iter(ramps)) for key, ramps in named.items()} | dict(given), problems


async def _wrong(chain: Chain, key: str, given: str, named: Sequence[tuple[str, str]]) -> list[str]:
    version = await _version(chain, given)
    others = [f"{ramp} ({lane})" for ramp, lane in named if ramp.lower() != given.lower()]
    advice = f"write {' or '.join(others)}" if others else "leave the key out"
    if not version.startswith(_KINDS[key]):
        wanted = _KINDS[key].removesuffix(".")
        return [f"gmps.ccip.{key}: {given} is {version!r}, and an {wanted} belongs there: {advice}"]
    if others and len(others) == len(named):
        return [f"gmps.ccip.{key}: {given} is not the one that CCIP's router names: {advice}, or leave the key out"]
    return []


async def wrong_selector(chain: Chain, selector: int, ramps: Mapping[str, str]) -> list[str]:
    """What is wrong with CCIP's number for a chain, by what the on-ramps there say of themselves, one line each.

    Args:
        chain: which one.
        selector: that number, as a file has it.
        ramps: there, by the file's keys.

    Raises:
        UnansweredError: no endpoint answers.
    """
    lines = []
    for key in ("onRamp", "onRampV2"):
        if key in ramps:
            try:
                found = await read_view(chain, _CONFIGURED, ramps[key], "getStaticConfig")
            except CallRevertedError:
                continue  # what else it is, is said of its version
            if found != selector:
                lines.append(f"gmps.ccip: {key} {ramps[key]} calls the chain {found}, the plan {selector}")
    return lines


async def _version(chain: Chain, ramp: str) -> str:
    """What a ramp says it is."""
    try:
        return str(await read_view(chain, _VERSIONED, ramp, "typeAndVersion"))
    except (CallRevertedError, UnansweredError):  # the router has answered: so this is none, or of another kind
        return "no contract that says its version"
