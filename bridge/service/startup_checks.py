"""Checks the configuration of relayer and tripwire before they open any connection or store.

`open_relayer` and `open_tripwire` start with these checks; `waybill doctor` also runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.dead_letters.signing import KeySealer
from bridge.deploy.addresses import is_testnet
from bridge.evm.signing import InvalidKeyError, LocalSigner, Signer
from bridge.gmps.attestation import AttestationError, JsonDocuments
from bridge.gmps.registry import create_attesters
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Attester, Chain
from bridge.service.connections import check_endpoints
from bridge.service.keys import open_sealer, paying_signers, tripwire_signer
from bridge.service.settings import Settings, check_chains
from bridge.settings import SettingsError


@dataclass(frozen=True, slots=True)
class RelayerKeys:
    """The keys of a relayer.

    Attributes:
        paying: signers that pay for deliveries, by chain.
        sealer: the sealer of dead letters.
    """

    paying: Mapping[int, list[Signer]]
    sealer: KeySealer


def check_relayer(settings: Settings, deployment: Deployment, *, has_attesters: bool) -> RelayerKeys:
    """Checks a relayer's settings and opens its keys. Makes no connection.

    Args:
        settings: the operator's settings.
        deployment: the network.
        has_attesters: whether the network provides its own attesters, as a devnet does.

    Raises:
        SettingsError: settings are missing or invalid. The message lists every problem.
    """
    check_chains(settings, deployment)
    problems = _Problems()
    keys = (
        problems.of(lambda: paying_signers(settings, deployment)),
        problems.of(lambda: open_sealer(settings)),
    )
    problems.of(lambda: [LocalSigner.from_key(key.get_secret_value()) for key in settings.retry_keys])
    problems.of(lambda: check_endpoints(settings, deployment))
    if not has_attesters:
        web = JsonDocuments(timeout=settings.attestations.TIMEOUT)  # makes no request here
        problems.of(lambda: public_attesters(deployment, {}, settings, web))
    problems.refuse()
    return RelayerKeys(*keys)


def check_tripwire(settings: Settings, deployment: Deployment) -> Signer:
    """Checks a tripwire's settings and opens its key. Makes no connection.

    Returns:
        The signer that pauses GMPs.

    Raises:
        SettingsError: settings are missing or invalid. The message lists every problem.
    """
    check_chains(settings, deployment)
    problems = _Problems()
    signer: Signer = problems.of(lambda: tripwire_signer(settings))
    problems.of(lambda: check_endpoints(settings, deployment))
    problems.refuse()
    return signer


def public_attesters(
    deployment: Deployment, chains: Mapping[int, Chain], settings: Settings, web: JsonDocuments
) -> dict[Gmp, Attester]:
    """Creates the attesters of a public network.

    Raises:
        SettingsError: a GMP has no known source of attestations.
    """
    chosen = settings.attestations.settings(is_testnet=is_testnet(deployment))
    try:
        return create_attesters(deployment, chains, chosen, settings.gmps, web)
    except AttestationError as error:
        raise SettingsError(f"network {deployment.network!r}: {error}") from error


class _Problems:
    """Collects the problems that checks find."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def of(self, check: Callable[[], Any]) -> Any:
        """Returns a check's result, or None if it found a problem."""
        try:
            return check()
        except (SettingsError, InvalidKeyError) as error:
            self._found += str(error).splitlines()
            return None

    def refuse(self) -> None:
        """Raises an error with the problems that were found, if any.

        Raises:
            SettingsError: checks found problems.
        """
        if self._found:
            raise SettingsError("\n".join(dict.fromkeys(self._found)))
