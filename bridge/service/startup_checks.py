"""Checks the configuration of relayer and tripwire before they open any connection or store.

`open_relayer` and `open_tripwire` start with these checks; `waybill doctor` also runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def check_relayer(
    settings: Settings, deployment: Deployment, *, has_attesters: bool
) -> tuple[dict[int, list[Signer]], KeySealer]:
    """Checks a relayer's settings and opens its keys. Makes no connection.

    Args:
        settings: the operator's settings.
        deployment: the network.
        has_attesters: whether the network provides its own attesters, as a devnet does.

    Returns:
        The signers that pay for deliveries, by chain, and the sealer of dead letters.

    Raises:
        SettingsError: settings are missing or invalid. The message lists every problem.
    """
    check_chains(settings, deployment)
    checks: list[Callable[[], Any]] = [
        lambda: paying_signers(settings, deployment),
        lambda: open_sealer(settings),
        lambda: [LocalSigner.from_key(key.get_secret_value()) for key in settings.retry_keys],
        lambda: check_endpoints(settings, deployment),
    ]
    if not has_attesters:
        web = JsonDocuments(timeout=settings.attestations.TIMEOUT)  # makes no request here
        checks.append(lambda: public_attesters(deployment, {}, settings, web))
    paying, sealer, *_ = _checked(checks)
    return paying, sealer


def check_tripwire(settings: Settings, deployment: Deployment) -> Signer:
    """Checks a tripwire's settings and opens its key. Makes no connection.

    Returns:
        The signer that pauses GMPs.

    Raises:
        SettingsError: settings are missing or invalid. The message lists every problem.
    """
    check_chains(settings, deployment)
    signer: Signer
    signer, _ = _checked([lambda: tripwire_signer(settings), lambda: check_endpoints(settings, deployment)])
    return signer


def public_attesters(
    deployment: Deployment, chains: Mapping[int, Chain], settings: Settings, web: JsonDocuments
) -> dict[Gmp, Attester]:
    """Creates the attesters of a public network.

    Raises:
        SettingsError: a GMP has no known source of attestations.
    """
    chosen = settings.attestations.by_gmp(is_testnet=is_testnet(deployment))
    try:
        return create_attesters(deployment, chains, chosen, settings.gmps, web)
    except AttestationError as error:
        raise SettingsError(f"network {deployment.network!r}: {error}") from error


def _checked(checks: Iterable[Callable[[], Any]]) -> list[Any]:
    """Returns the results of all checks.

    Raises:
        SettingsError: checks found problems. The message lists all of them.
    """
    results, problems = [], list[str]()
    for check in checks:
        try:
            results.append(check())
        except (SettingsError, InvalidKeyError) as error:
            problems += str(error).splitlines()
    if problems:
        raise SettingsError("\n".join(dict.fromkeys(problems)))
    return results
