"""Where a chain is not as the network's plan says: what was decided in the plan, against what the contracts answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from bridge.deploy.artifacts import ForgeError
from bridge.deploy.gmp_chain_numbers import wrong_numbers
from bridge.deploy.plan import ROLES, NetworkPlan, PlannedChain
from bridge.deploy.transactions import ChainWork, DeployError
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import GmpSection
from bridge.protocol.ports import read_view


async def find_drift(
    plan: NetworkPlan, planned: PlannedChain, chain: EvmChain, deployed: Mapping[str, GmpSection]
) -> list[str]:
    """What is not as planned on one chain, one line each: addresses, floors, verifiers, roles.

    Args:
        plan: the network.
        planned: the chain in it.
        chain: where.
        deployed: the GMPs' contracts there by the deployments file, which a relayer reads.

    Raises:
        DeployError: the contracts are not compiled.
        TransientError: no endpoint answers.
    """
    try:
        work = await ChainWork.find(plan, planned, chain)
    except ForgeError as error:
        raise DeployError(str(error)) from error
    except DeployError as error:  # the owner has decided otherwise
        return [str(error)]
    lines = [f"{one.name}: not there, or set otherwise" for one in work.missing]
    lines += await wrong_numbers(planned, chain)
    read = {gmp: deployed.get(gmp, {}) | section for gmp, section in planned.gmps.items()}
    lines += (await plan.look_up(planned, chain, read))[1]
    if await chain.code(work.contracts.router.address):
        lines += [line async for line in _decided(plan, planned, chain, work.contracts.router.address)]
    return lines


async def _decided(plan: NetworkPlan, planned: PlannedChain, chain: EvmChain, router: str) -> AsyncIterator[str]:
    """What the owner may have decided since. A deployment leaves that alone."""
    for role in ROLES:
        found, named = await read_view(chain, ROUTER, router, role), plan.appointed(role, planned)
        if named is not None and found != named.lower():
            yield f"{role}: the plan names {named}, the router {found}"
    for there in plan.chains:
        floor = await read_view(chain, ROUTER, router, "floorOf", there.chain_id)
        if floor > plan.floor:
            yield f"floor to {there.name}: the plan asks for {plan.floor}, the router for {floor}"
