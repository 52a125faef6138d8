"""Whether settings name chains that the network has: one that is misspelt would be passed over without a word."""

from __future__ import annotations

from bridge.protocol.deployment import Deployment
from bridge.settings.model import Settings
from bridge.settings.problems import SettingsError


def check_chains(settings: Settings, deployment: Deployment) -> None:
    """Makes sure that settings name only chains that the network has.

    Raises:
        SettingsError: they name others.
    """
    known = {chain.name for chain in deployment.chains}
    ids = {str(chain.chain_id) for chain in deployment.chains}  # [dlq] may name chains so
    named = {
        "chains": set(settings.chains),
        "allow_chains": settings.allow_chains,
        "deny_chains": settings.deny_chains,
        "signers": {name for signer in settings.signers for name in signer.chains},
        "index": {end for lane in settings.index.lanes for end in (lane.source, lane.destination) if end},
        "attestations.hyperlane": set(settings.attestations.hyperlane),
        "asset_classes": {name for table in settings.asset_classes.values() for name in table.members},
        "dlq": {
            contract.chain
            for contract in (settings.dlq.parameters, settings.dlq.governance)
            if contract is not None and contract.chain not in ids
        },
        **{
            name: {end for limit in limits for end in (limit.source, limit.destination) if end}
            for name, limits in (("spend_limits", settings.spend_limits), ("retry_limits", settings.retry_limits))
        },
    }
    problems = [
        f"  {setting} ({settings.origin(setting.partition('.')[0])}): network {deployment.network!r} has no chain {name!r};"
        f" its chains are {', '.join(sorted(known))}"
        for setting, names in named.items()
        for name in sorted(names - known)
    ]
    if problems:
        raise SettingsError("settings can't be used:\n" + "\n".join(problems))
