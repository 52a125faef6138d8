"""Compares the state of a chain's contracts with the network's plan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from bridge.deploy.artifacts import ForgeError
from bridge.deploy.plan import ROLES, NetworkPlan, PlannedChain
from bridge.deploy.transactions import ChainWork, DeployError
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import GmpSection
from bridge.protocol.ports import read_view


async def find_drift(
    plan: NetworkPlan, planned: PlannedChain, chain: EvmChain, deployed: Mapping[str, GmpSection]
) -> list[str]:
    """Returns the differences between the plan and one chain in addresses, floors, verifiers and roles, one line each.

    Args:
        plan: The network's plan.
        planned: The chain in the plan.
        chain: Connection to the chain.
        deployed: The chain's GMP sections in the deployments file, which relayers read.

    Raises:
        DeployError: the contracts are not compiled.
        TransientError: no endpoint responded.
    """
    try:
        work = await ChainWork.find(plan, planned, chain)
    except ForgeError as error:
        raise DeployError(str(error)) from error
    except DeployError as error:  # the chain's owner made a change that contradicts the plan
        return [str(error)]
    lines = [f"{transaction.name}: missing, or set differently" for transaction in work.missing]
    read = {gmp: deployed.get(gmp, {}) | section for gmp, section in planned.gmps.items()}
    lines += (await plan.look_up(planned, chain, read))[1]
    if await chain.code(work.contracts.router.address):
        lines += [line async for line in _owner_changes(plan, planned, chain, work.contracts.router.address)]
    return lines


async def _owner_changes(plan: NetworkPlan, planned: PlannedChain, chain: EvmChain, router: str) -> AsyncIterator[str]:
    """Yields roles and floors that the owner has changed since the deployment. A new deployment would keep them."""
    for role in ROLES:
        actual, planned_account = await read_view(chain, ROUTER, router, role), plan.appointed(role, planned)
        if planned_account is not None and actual != planned_account.lower():
            yield f"{role}: {planned_account} in the plan, {actual} on the router"
    for there in plan.chains:
        floor = await read_view(chain, ROUTER, router, "floorOf", there.chain_id)
        if floor > plan.floor:
            yield f"floor to {there.name}: {plan.floor} in the plan, {floor} on the router"
