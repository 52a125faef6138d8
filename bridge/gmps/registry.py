"""The GMPs that Waybill speaks. Each number in `bridge.protocol.gmps.Gmp` has a folder here, with a module for each part.

adapter.py   `ADAPTER`, a `BaseAdapter`, and the GMP's contracts that it reads
attester.py  `create_attester`: where attestations come from on a public network, `SETTING` if an operator says where, and
             `ON_TESTNETS` if its default is another one there
devnet.py    `DEVNET`: the GMP on a network on this machine; see `bridge.devnet.gmps`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from bridge.gmps.attestation import AttestationSettings, AttestationSources, JsonDocuments
from bridge.gmps.base_adapter import BaseAdapter
from bridge.gmps.verification import DEFAULT, VerificationSection
from bridge.protocol.deployment import Deployment, DeploymentError, GmpSection
from bridge.protocol.file_problems import file_problems
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Adapter, Attester, Chain


def adapter_class(gmp: Gmp) -> type[BaseAdapter]:
    """The adapter in a GMP's folder."""
    found: type[BaseAdapter] = import_module(f"bridge.gmps.{gmp.label}.adapter").ADAPTER
    return found


def create_adapters(
    deployment: Deployment, chains: Mapping[int, Chain], attesters: Mapping[Gmp, Attester]
) -> dict[Gmp, Adapter]:
    """An adapter for every GMP that has an attester.

    Args:
        deployment: the network.
        chains: the network's chains by id, connected.
        attesters: where each GMP's attestations come from.
    """
    return {gmp: adapter_class(gmp)(deployment, chains, attester) for gmp, attester in attesters.items()}


def create_attesters(
    deployment: Deployment,
    chains: Mapping[int, Chain],
    settings: AttestationSettings,
    gmps: AbstractSet[Gmp],
    web: JsonDocuments,
) -> dict[Gmp, Attester]:
    """Where the attestations of those GMPs come from on a public network.

    Args:
        deployment: the network.
        chains: its chains by id, connected.
        settings: whom to ask.
        gmps: those that are delivered over.
        web: asks services; its owner closes it.

    Raises:
        AttestationError: the settings do not say enough.
    """
    deployed = frozenset[Gmp]().union(*(chain.gmp_numbers for chain in deployment.chains))
    attesters: dict[Gmp, Attester] = {}
    for gmp in sorted(deployed & gmps):
        given = attestation_choice(gmp, settings)
        sources = AttestationSources(deployment=deployment, chains=chains, setting=given, web=web)
        attesters[gmp] = _attester_module(gmp).create_attester(sources)
    return attesters


def attestation_setting(gmp: Gmp) -> tuple[Any, Any] | None:
    """The type and the pydantic field of what an operator may say of a GMP in ``[attestations]``; None: nothing."""
    found: tuple[Any, Any] | None = getattr(_attester_module(gmp), "SETTING", None)
    return found


def attestation_choice(gmp: Gmp, settings: AttestationSettings) -> Any:
    """What holds for a GMP: what an operator said, else the GMP's own default; None: nothing can be said of it."""
    setting = attestation_setting(gmp)
    if setting is None or gmp in settings.gmps:
        return settings.gmps.get(gmp)
    default = setting[1].get_default(call_default_factory=True)
    return getattr(_attester_module(gmp), "ON_TESTNETS", default) if settings.is_testnet else default


def _attester_module(gmp: Gmp) -> Any:
    return import_module(f"bridge.gmps.{gmp.label}.attester")


def section_problems(sections: Mapping[str, GmpSection]) -> Iterator[str]:
    """What is wrong with the sections of the GMPs on one chain, one line each."""
    for name, section in sections.items():
        try:
            adapter_class(Gmp.parse(name)).CONTRACTS.read(section)
        except ValidationError as error:
            yield from file_problems(error, f"gmps.{name}.")


def verification_problems(chosen: Mapping[str, VerificationSection], gmps: Mapping[str, GmpSection]) -> Iterator[str]:
    """What is wrong with what is chosen of the GMPs' verification on one chain, one line each."""
    for name, section in chosen.items():
        kind = adapter_class(Gmp.parse(name)).CONTRACTS.VERIFICATION
        if name not in gmps:
            yield f"verification.{name}: the chain has no gmps.{name}"
        elif section != DEFAULT and kind is None:
            yield f'verification.{name}: an application can choose nothing of it; write "{DEFAULT}"'
        elif section != DEFAULT and kind is not None:
            try:
                kind.read(section)
            except ValidationError as error:
                yield from file_problems(error, f"verification.{name}.")


def check_sections(deployment: Deployment, source: str) -> None:
    """Checks what a deployments file says of the GMPs; `source` names it in the error.

    Raises:
        DeploymentError: a GMP's folder can't use what is said of it.
    """
    problems = [f"  {chain.name}: {problem}" for chain in deployment.chains for problem in section_problems(chain.gmps)]
    if problems:
        raise DeploymentError(
            "\n".join([f"{source} is not a deployments file this version can use:", *problems])
            + "\nwrite it again with `waybill deploy`"
        )
