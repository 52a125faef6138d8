"""Reads the on-ramps of a network's lanes from CCIP's router on each chain.

`typeAndVersion` identifies an on-ramp's version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eth_utils.address import to_checksum_address

from bridge.protocol.contracts import contract
from bridge.protocol.ports import CallRevertedError, Chain, UnansweredError, read_view

_ROUTER: Final = contract("getOnRamp(uint64) returns (address)")
_ON_RAMP: Final = contract(
    "typeAndVersion() returns (string)",
    "getStaticConfig() returns (uint64)",  # the chain's selector is the first of several fields
)
_VERSIONS: Final = {"onRamp": "OnRamp 2.", "onRampV1": "OnRamp 1.6."}  # prefix of `typeAndVersion` by key


async def find_on_ramps(
    chain: Chain, router: str, given: Mapping[str, str], selectors: Mapping[str, int]
) -> tuple[dict[str, str], list[str]]:
    """Returns the on-ramps of the lanes to other chains, and the problems with the configured ones.

    Args:
        chain: Chain whose on-ramps are read.
        router: Address of CCIP's router.
        given: Configured on-ramps by their keys in the file, onRamp and onRampV1.
        selectors: CCIP's selectors of the other chains by chain name.

    Returns:
        On-ramps by the same keys, of which configured ones take precedence, and a list of problems, one line each.

    Raises:
        UnansweredError: no endpoint responded.
    """
    try:
        ramps = {
            name: await read_view(chain, _ROUTER, router, "getOnRamp", selector) for name, selector in selectors.items()
        }
    except CallRevertedError:
        return {}, [f"gmps.ccip.router: {router} has no getOnRamp; write the address of CCIP's router"]
    problems, named = [], dict[str, dict[str, str]]()
    for name, lowercase in ramps.items():
        if not int(lowercase, 16):
            continue
        ramp, version = to_checksum_address(lowercase), await _version(chain, lowercase)
        key = next((key for key, prefix in _VERSIONS.items() if version.startswith(prefix)), None)
        if key is not None:
            named.setdefault(key, {})[ramp] = f"to {name}"
        else:
            problems.append(
                f"gmps.ccip: CCIP's router sends to {name} through {ramp}, which is {version!r};"
                " Waybill supports CCIP 2.0 and 1.6: leave ccip out on one of the two chains"
            )
    if not (problems or named):
        problems.append(f"gmps.ccip: CCIP's router {router} has no on-ramp to {', '.join(selectors)}: leave ccip out")
    for key in _VERSIONS:
        candidates = named.get(key, {})
        if key in given:
            problems += await _problems(chain, key, given[key], candidates)
        elif len(candidates) > 1:
            problems.append(
                f"gmps.ccip.{key}: the router has several, and a relayer reads only one: {_list(candidates, ', ')};"
                " write one"
            )
    return {key: next(iter(ramps)) for key, ramps in named.items()} | dict(given), problems


async def _problems(chain: Chain, key: str, given: str, named: Mapping[str, str]) -> list[str]:
    """Returns the problem with a configured on-ramp, if there is one."""
    version = await _version(chain, given)
    advice = f"write {_list(named, ' or ')}" if named else "leave the key out"
    if not version.startswith(_VERSIONS[key]):
        wanted = _VERSIONS[key].removesuffix(".")
        return [f"gmps.ccip.{key}: {given} is {version!r}, not an {wanted}: {advice}"]
    if named and to_checksum_address(given) not in named:
        return [f"gmps.ccip.{key}: {given} is not the on-ramp that CCIP's router uses: {advice}, or leave the key out"]
    return []


def _list(ramps: Mapping[str, str], separator: str) -> str:
    return separator.join(f"{ramp} ({lane})" for ramp, lane in ramps.items())


async def wrong_selector(chain: Chain, selector: int, ramps: Mapping[str, str]) -> list[str]:
    """Returns the on-ramps that contradict the configured selector of a chain, one line each.

    Args:
        chain: Chain that the selector identifies.
        selector: The chain's CCIP selector according to the file.
        ramps: On-ramps by the file's keys.

    Raises:
        UnansweredError: no endpoint responded.
    """
    lines = []
    for key, ramp in ramps.items():
        try:
            actual = await read_view(chain, _ON_RAMP, ramp, "getStaticConfig")
        except CallRevertedError:
            continue  # `find_on_ramps` reports contracts of another kind
        if actual != selector:
            lines.append(f"gmps.ccip: {key} {ramp} identifies the chain as {actual}, the plan as {selector}")
    return lines


async def _version(chain: Chain, ramp: str) -> str:
    """Returns an on-ramp's `typeAndVersion`, or a note that it has none."""
    try:
        return str(await read_view(chain, _ON_RAMP, ramp, "typeAndVersion"))
    except (CallRevertedError, UnansweredError):  # the router answered, so the on-ramp is at fault
        return "not a contract with typeAndVersion"
