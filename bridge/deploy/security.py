"""Checks that the plan of a public network specifies roles, quorums and verifiers before anything is deployed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from bridge.deploy.addresses import public_chain_ids
from bridge.deploy.plan import ROLES, NetworkPlan, PlanError, PlannedChain
from bridge.gmps.registry import adapter_class
from bridge.gmps.verification import DEFAULT
from bridge.gmps.wormhole.adapter import IMMEDIATE
from bridge.protocol.gmps import Gmp

_LEAST_AGREEMENT: Final = 2
_POWERS: Final = {"guardian": "may pause", "revoker": "may revoke trust", "tripwire": "may pause a faulty GMP"}
_THIS_MACHINE: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def require_security(plan: NetworkPlan, *, accept_single_verifier: bool) -> None:
    """Checks a plan, unless all its chains are local.

    Raises:
        PlanError: the plan leaves security decisions open. The message lists all of them.
    """
    if not any(_is_public(chain) for chain in plan.chains):
        return
    problems = [*_open_decisions(plan), *(() if accept_single_verifier else _single_verifiers(plan))]
    if problems:
        raise PlanError(f"the plan of network {plan.network!r} is not safe to deploy:\n  " + "\n  ".join(problems))


def _is_public(chain: PlannedChain) -> bool:
    elsewhere = any(urlsplit(url).hostname not in _THIS_MACHINE for url in chain.endpoints)
    return elsewhere or chain.chain_id in public_chain_ids()


def _open_decisions(plan: NetworkPlan) -> Iterator[str]:
    for role in ROLES:
        lacking = [chain.name for chain in plan.chains if plan.appointed(role, chain) is None]
        if lacking:
            place = "" if len(lacking) == len(plan.chains) else f" on {', '.join(lacking)}"
            yield f"{role}: name the account that {_POWERS[role]}{place}"
    if "floor" not in plan.model_fields_set:
        yield "floor: write the quorum for recipients without a policy (2)"
    for chain in plan.chains:
        if (chain.agreement or 1) < _LEAST_AGREEMENT:
            yield f"{chain.name}.agreement: write {_LEAST_AGREEMENT} or more, so that no single endpoint is trusted"
        elif len(chain.rpc_urls) < (chain.agreement or 1):
            yield f"{chain.name}.rpcUrls: {chain.agreement} endpoints must agree, but only {len(chain.rpc_urls)} are listed"
        for gmp in chain.gmps:
            if gmp not in chain.verification:
                yield f'{chain.name}.verification.{gmp}: write who verifies, or "{DEFAULT}" for {_by_default(gmp)}'
        level = chain.gmps.get(Gmp.WORMHOLE.label, {"consistencyLevel": 1}).get("consistencyLevel")
        if level in (None, IMMEDIATE):
            yield f"{chain.name}.gmps.wormhole.consistencyLevel: write 1 (final) or 201 (safe), not {IMMEDIATE}"


def _single_verifiers(plan: NetworkPlan) -> Iterator[str]:
    for chain in plan.chains:
        for gmp in map(Gmp.parse, chain.gmps):
            chosen = chain.chosen(gmp)
            single = chosen.verifiers == 1 if chosen else adapter_class(gmp).CONTRACTS.ONE_MAY_VERIFY
            if single:
                yield (
                    f"{chain.name}.verification.{gmp.label}: {chosen or _by_default(gmp.label)}; name two verifiers, leave"
                    f" {gmp.label} out, or accept that with --accept-single-verifier"
                )


def _by_default(gmp: str) -> str:
    return adapter_class(Gmp.parse(gmp)).CONTRACTS.VERIFIED_BY
