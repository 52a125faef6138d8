"""`waybill role`: shows the roles on routers, assigns them, and transfers ownership."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from eth_utils.address import to_checksum_address

from bridge.cli.decider import Chains, Steps, carry_out, named_chains
from bridge.cli.output import UsageError, progress, result, table
from bridge.cli.workspace import Workspace
from bridge.deploy.transactions import DeployError, Transaction
from bridge.evm.chain import EvmChain
from bridge.protocol.addresses import checksummed
from bridge.protocol.contracts import ROUTER, contract
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.ports import read_view
from bridge.service.connections import connected, newest_blocks
from bridge.service.settings import Settings
from bridge.settings import ANY

app = typer.Typer(help="Show and assign the roles on routers, and transfer ownership.", no_args_is_help=True)

_NOBODY: Final = "0x" + "00" * 20
_OWNED: Final = contract(
    "owner() returns (address)",
    "pendingOwner() returns (address)",
    "transferOwnership(address)",
    "acceptOwnership()",
)


class Role(StrEnum):
    """A role that can be assigned to an account.

    The owner assigns it; RETRIER is assigned by the sender whose messages it retries.
    """

    GUARDIAN = "guardian"
    REVOKER = "revoker"
    TRIPWIRE = "tripwire"
    RETRIER = "retrier"

    def call(self, account: str) -> bytes:
        """Returns the call that assigns the role."""
        function = "appointRetrier" if self is Role.RETRIER else f"set{self.capitalize()}"
        return ROUTER.encode(function, account)


Account = Annotated[str, typer.Argument(help="The account, or `nobody`.", metavar="ADDRESS")]


@dataclass(frozen=True, slots=True)
class _Owned:
    """A contract whose ownership is transferred in two steps."""

    name: str
    address: str
    owner: str
    pending: str


@app.command()
def show(
    chains: Chains = None,
    senders: Annotated[
        str | None,
        typer.Option(
            help="Also show the retriers of these senders, separated by commas. Senders in the setting retry_for are always shown.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show which account has each role on each chain.

    Example: waybill role show
    """
    workspace = Workspace.current()
    deployment, settings = workspace.deployment(), workspace.settings()
    wanted, shown = named_chains(deployment, chains), _senders(senders, settings)

    async def read() -> list[dict[str, Any]]:
        async with connected(deployment, settings, {one.chain_id for one in wanted}, eager=False) as opened:
            answering = await newest_blocks(opened)
            for here in wanted:
                if here.chain_id not in answering:
                    progress(f"{here.name} does not answer: its roles are unknown")
            return await asyncio.gather(
                *(_roles(here, opened[here.chain_id], shown) for here in wanted if here.chain_id in answering)
            )

    value = asyncio.run(read())
    rows = [
        [one["chain"], role, account or "nobody"]
        for one in value
        for role, account in [*one["roles"].items(), *((f"retrier of {of}", by) for of, by in one["retriers"].items())]
    ]
    result({"chains": value}, table(None, ["chain", "role", "account"], rows))


@app.command("set")
def set_role(
    role: Annotated[Role, typer.Argument(help="The role to assign.")],
    account: Account,
    *,
    chains: Chains = None,
) -> None:
    """Assign a role to an account, as the router's owner.

    The retrier is assigned by the sender whose messages it may retry. Exits with status 1 if a chain rejects the call.

    Example: waybill role set guardian 0x2222222222222222222222222222222222222222 --chains beta
    """
    named = _account(account)

    async def present(here: ChainDeployment, chain: EvmChain, of: str) -> str:
        asked = ("retrierOf", of) if role is Role.RETRIER else (role.value,)
        return str(await read_view(chain, ROUTER, here.router, *asked))

    async def steps(here: ChainDeployment, chain: EvmChain, by: str) -> list[Transaction]:
        if (await present(here, chain, by)).lower() == named.lower():
            return []
        return [Transaction(str(role), here.router, role.call(named))]

    _carry_out(chains, f"role {role}", steps)


@app.command()
def transfer(
    account: Account,
    *,
    chains: Chains = None,
) -> None:
    """Offer the ownership of routers and parameters to an account, as their owner.

    The transfer takes effect when the account accepts it.

    `nobody` withdraws the offer. Parameters that the signer does not own are skipped.

    Example: waybill role transfer 0x1111111111111111111111111111111111111111
    """
    named = _account(account)
    done = "no longer offered" if named == _NOBODY else "offered"

    async def steps(here: ChainDeployment, chain: EvmChain, by: str) -> list[Transaction]:
        owned = await _owned(here, chain)
        return [
            Transaction(f"{one.name} {done}", one.address, _OWNED.encode("transferOwnership", named))
            for one in owned
            if one.pending.lower() != named.lower() and (one.address == here.router or one.owner.lower() == by.lower())
        ]

    _carry_out(chains, "role transfer", steps)


@app.command()
def accept(
    *,
    chains: Chains = None,
) -> None:
    """Accept the ownership that was offered to the signer.

    Example: waybill --signer owner role accept
    """

    async def steps(here: ChainDeployment, chain: EvmChain, by: str) -> list[Transaction]:
        owned = await _owned(here, chain)
        router = owned[0]
        is_offered_to_another = router.pending != _NOBODY and by.lower() != router.pending.lower()
        if by.lower() not in (router.owner.lower(), router.pending.lower()) or is_offered_to_another:
            offered = "nobody" if router.pending == _NOBODY else to_checksum_address(router.pending)
            raise DeployError(f"chain {here.name!r}: ownership of the router is offered to {offered}, not to {by}")
        offered_to_it = [one for one in owned if one.pending.lower() == by.lower()]
        return [
            Transaction(f"{one.name} accepted", one.address, _OWNED.encode("acceptOwnership")) for one in offered_to_it
        ]

    _carry_out(chains, "role accept", steps)


def _carry_out(chains: str | None, name: str, steps: Steps) -> None:
    """Sends the calls to the named chains, or to all of them; see `carry_out`."""
    workspace = Workspace.current()

    async def after(here: ChainDeployment, chain: EvmChain) -> dict[str, Any]:
        return {"roles": (await _roles(here, chain, ()))["roles"]}

    wanted = named_chains(workspace.deployment(), chains)
    carry_out(workspace, wanted, name, steps, then="`waybill role show` shows it", after=after)


async def _owned(here: ChainDeployment, chain: EvmChain) -> list[_Owned]:
    """Reads the owners of the router, and of the parameters if the chain has them."""
    places = {"router": here.router} | ({"parameters": here.parameters} if here.parameters else {})
    return [
        _Owned(
            name,
            address,
            owner=str(await read_view(chain, _OWNED, address, "owner")),
            pending=str(await read_view(chain, _OWNED, address, "pendingOwner")),
        )
        for name, address in places.items()
    ]


async def _roles(here: ChainDeployment, chain: EvmChain, senders: tuple[str, ...]) -> dict[str, Any]:
    async def holder(function: str, *arguments: str) -> str | None:
        return _holder(str(await read_view(chain, ROUTER, here.router, function, *arguments)))

    roles: dict[str, str | None] = {}
    for one in await _owned(here, chain):
        of = "" if one.address == here.router else f" of {one.name}"
        roles |= {f"owner{of}": _holder(one.owner), f"pending owner{of}": _holder(one.pending)}
    roles |= {str(role): await holder(str(role)) for role in Role if role is not Role.RETRIER}
    retriers = {sender: await holder("retrierOf", sender) for sender in senders}
    return {"chain": here.name, "router": here.router, "roles": roles, "retriers": retriers}


def _senders(names: str | None, settings: Settings) -> tuple[str, ...]:
    known = () if ANY in settings.retry_for else tuple(sorted(settings.retry_for))
    named = tuple(_account(one.strip()) for one in names.split(",")) if names else ()
    return tuple(dict.fromkeys(to_checksum_address(one) for one in (*known, *named)))


def _account(text: str) -> str:
    if text == "nobody":
        return _NOBODY
    account = checksummed(text)
    if int(account, 16) == 0:
        raise UsageError(f"{text!r} is not an account; `nobody` clears the role")
    return account


def _holder(address: str) -> str | None:
    return None if int(address, 16) == 0 else to_checksum_address(address)
