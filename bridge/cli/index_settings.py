"""Derives the index's settings from the workspace: its section, and each chain's endpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bridge.cli.workspace import Workspace
from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.settings import ChainSettings
from bridge.protocol.deployment import Deployment
from bridge.service.settings import Settings, check_chains
from indexer.model.settings import INDEX_POLICY, IndexSettings

if TYPE_CHECKING:
    from indexer.sources.chain import ChainConfig


def index_settings(workspace: Workspace) -> IndexSettings:
    """Returns the settings for indexing the network.

    Raises:
        CliError: the network is not deployed.
        SettingsError: the settings are invalid.
    """
    settings, deployment = workspace.settings(), workspace.deployment()
    check_chains(settings, deployment)
    table = settings.index
    retries = {kind: policy.max_retries for kind, policy in settings.delivery_policies().items()}
    return IndexSettings(
        folder=workspace.index_folder,
        stall=table.stall_policy(deployment, max_message_retries=settings.max_message_retries, retries_by_kind=retries),
        limits=table.limits,
        endpoints=_endpoints(settings, deployment),
        lake_interval=table.lake_interval,
        refresh_interval=table.refresh_interval,
        keep_ended=table.keep_days * 86_400,
    )


def indexed_deployment(workspace: Workspace) -> Deployment:
    """Returns the deployment, with endpoints from the settings instead of those in the deployments file."""
    deployment = workspace.deployment()
    urls = workspace.settings().rpc_urls(deployment)
    chains = tuple(
        chain.model_copy(update={"rpc_urls": urls.get(chain.chain_id) or chain.rpc_urls}) for chain in deployment.chains
    )
    return deployment.model_copy(update={"chains": chains})


def chains_to_ask(workspace: Workspace) -> list[ChainConfig]:
    """Returns the configuration of each chain, for commands that read the chains themselves."""
    from indexer.sources.chain import chain_config

    deployment = indexed_deployment(workspace)
    limits = _endpoints(workspace.settings(), deployment)
    return [chain_config(chain, limits[chain.chain_id]) for chain in deployment.chains]


def _endpoints(settings: Settings, deployment: Deployment) -> dict[int, EndpointPolicy]:
    named = {chain.chain_id: settings.chains.get(chain.name, ChainSettings()) for chain in deployment.chains}
    relayers = settings.endpoint_policies(deployment)
    return {
        chain_id: replace(
            INDEX_POLICY,
            requests_per_second=chain.requests_per_second,
            batch=chain.batch,
            origin=relayers[chain_id].origin,
            chain_name=relayers[chain_id].chain_name,
        )
        for chain_id, chain in named.items()
    }
