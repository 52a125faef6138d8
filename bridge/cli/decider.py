"""Who signs a command's transactions: an account of the settings, a key, or the owners of a Safe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from eth_utils.address import to_checksum_address

from bridge.cli.interrupts import NOTHING_SENT, if_interrupted
from bridge.cli.output import CliError, ExitCode, UsageError, progress, result, table, with_network
from bridge.cli.root import DEVNET, current
from bridge.cli.workspace import Workspace
from bridge.deploy.preview import ChainPreview, gas_price, simulated
from bridge.deploy.safe import Batch, make_batches, require_safe, save
from bridge.deploy.transactions import DeployError, Transaction, why_refused
from bridge.devnet.accounts import DEPLOYER_KEY
from bridge.evm.chain import EvmChain
from bridge.evm.settings import SignerSource
from bridge.evm.signing import LocalSigner, Signer
from bridge.evm.simple_sender import RevertedError, send
from bridge.protocol.addresses import AddressError, checksummed
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.ports import Call, CallRevertedError, TransientError, read_view
from bridge.records.spending import ether
from bridge.service.connections import connected, newest_blocks
from bridge.service.keys import opened

_GAS: Final = 600_000
_ROLES: Final = "waybill role show"

Chains = Annotated[
    str | None, typer.Option("--chains", help="Only on these chains, separated by commas.", show_default=False)
]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Send nothing: print each transaction and its gas.")]

Steps = Callable[[ChainDeployment, EvmChain, str], Awaitable[Sequence[Transaction]]]
"""What an account has to call on a chain; asks the chain, and takes the account last."""


def signer(workspace: Workspace, devnet_key: str = DEPLOYER_KEY) -> Signer:
    """The account that the root's options name, for a command that sends transactions.

    Args:
        workspace: whose settings hold the accounts.
        devnet_key: signs on the devnet if no account is named.

    Raises:
        UsageError: none is named, or `--safe` is.
        InvalidKeyError: the key is invalid or can't be opened.
    """
    options = current()
    if options.safe is not None:
        raise UsageError(
            f"--safe {options.safe} can't be used here: this command sends its transaction itself",
            next_step="name an account that signs: --signer NAME",
        )
    if options.signer is not None:
        return opened(account_source(workspace, options.signer))
    if options.key is None and workspace.network != DEVNET:
        raise UsageError(
            f"no account to sign with on network {workspace.network!r}",
            next_step="name an account of the settings with --signer NAME, or set WAYBILL_KEY; where a Safe decides, --safe",
        )
    return LocalSigner.from_key(options.key or devnet_key)


def account_source(workspace: Workspace, name: str) -> SignerSource:
    """Where the key of a named account is.

    Raises:
        UsageError: the settings have no account of that name.
    """
    accounts = workspace.settings().accounts
    if name not in accounts:
        known = f"they have {', '.join(sorted(accounts))}" if accounts else "they have none"
        raise UsageError(
            f"the settings have no account {name!r}; {known}",
            next_step=f'add it to waybill.toml: [accounts.{name}] keystore = "FILE", password_file = "FILE"',
        )
    return accounts[name]


def safe_address() -> str | None:
    """The Safe that decides, if `--safe` names one.

    Raises:
        UsageError: it is not an address.
    """
    try:
        return None if current().safe is None else checksummed(str(current().safe))
    except AddressError as error:
        raise UsageError(f"--safe: {error}") from error


def _simulated_account(workspace: Workspace, *, by_owner: bool) -> str | None:
    """The account of a dry run; None: none is named, and the owner of each router will do."""
    if (safe := safe_address()) is not None:
        return safe
    is_named = current().signer is not None or current().key is not None
    return signer(workspace).address if is_named or workspace.network == DEVNET or not by_owner else None


def named_chains(deployment: Deployment, names: str | None) -> list[ChainDeployment]:
    """The chains of a comma-separated list, or all.

    Raises:
        UsageError: the network does not have one of them.
    """
    try:
        return [deployment.chain(one.strip()) for one in names.split(",")] if names else list(deployment.chains)
    except DeploymentError as error:
        raise UsageError(str(error)) from error


def carry_out(
    workspace: Workspace,
    chains: Sequence[ChainDeployment],
    name: str,
    steps: Steps,
    *,
    then: str,
    after: Callable[[ChainDeployment, EvmChain], Awaitable[dict[str, Any]]],
    dry_run: bool = False,
    by_owner: bool = True,
) -> None:
    """Has an account make its calls on each chain, and prints what was sent. One that refuses does not keep the others waiting.

    For JSON, each chain has a row with ``chain``, ``transactions`` by name, ``error`` and what `after` read.

    Args:
        workspace: the network's.
        chains: where.
        name: of what is done, such as ``pause axelar``; a Safe's batches are in a folder of that name.
        steps: the calls.
        then: what is so when a Safe's owners have executed all batches.
        after: reads what is so on a chain afterwards, for its row.
        dry_run: whether the calls are simulated instead.
        by_owner: whether the owner of a chain's router may make them: then a dry run needs no account, and is the owner's.

    Raises:
        CliError: a chain refused, or would refuse what is simulated.
    """
    deployment, settings = workspace.deployment(), workspace.settings()
    ids, safe = {one.chain_id for one in chains}, safe_address()
    folder = workspace.deployments_file.with_suffix(f".{name.replace(' ', '-')}.safe")

    async def preview(account: str | None) -> list[ChainPreview]:
        async with connected(deployment, settings, ids) as opened:
            return [await _preview(here, opened[here.chain_id], account, steps, safe) for here in chains]

    async def write(account: str) -> list[Batch]:
        batches = []
        async with connected(deployment, settings, ids, eager=False) as opened:
            for here in await _answering(opened, chains):
                chain = opened[here.chain_id]
                calls = await steps(here, chain, account)
                batches += await make_batches(here.name, calls, chain, account, folder)
        save(batches, folder)
        return batches

    async def make(account: Signer) -> list[dict[str, Any]]:
        async with connected(deployment, settings, ids, eager=False) as opened:
            answering = await newest_blocks(opened)
            runs = [_Run(here, opened[here.chain_id] if here.chain_id in answering else None) for here in chains]
            try:
                await asyncio.gather(*(run.carry_out(account, steps, after) for run in runs))
            except asyncio.CancelledError:
                again = "type the same command again: what is done already is not done again"
                progress("\n".join(["interrupted", *(run.made for run in runs), again]))
                raise
            return [run.row for run in runs]

    try:
        if dry_run:
            account = _simulated_account(workspace, by_owner=by_owner)
            with if_interrupted(NOTHING_SENT):
                previews = asyncio.run(preview(account))
            print_preview(previews)
            return
        if safe is not None:
            with if_interrupted(NOTHING_SENT):
                batches = asyncio.run(write(safe))
            print_batches(batches, then=then)
            return
    except DeployError as error:
        raise CliError(str(error), code=ExitCode.FAILED, next_step=_ROLES) from error
    _print_done(asyncio.run(make(signer(workspace))))


async def _preview(
    here: ChainDeployment, chain: EvmChain, account: str | None, steps: Steps, safe: str | None
) -> ChainPreview:
    """What the account's calls on a chain would cost; None: its router's owner's. A `safe` has to be one."""
    if safe is not None:
        await require_safe(here.name, chain, safe)
    sender = account or await _owner(here, chain)
    estimates = await simulated(here.name, chain, sender, await steps(here, chain, sender))
    return ChainPreview(here.name, estimates, await gas_price(chain))


async def _owner(here: ChainDeployment, chain: EvmChain) -> str:
    """The owner of a chain's router, in whose place a dry run is made; says so."""
    owner = to_checksum_address(await read_view(chain, ROUTER, here.router, "owner"))
    progress(f"{here.name}: as the owner {owner}, since no key is given")
    return owner


def _silent(here: ChainDeployment) -> str:
    return f"{here.name} does not answer"


async def _answering(opened: Mapping[int, EvmChain], chains: Sequence[ChainDeployment]) -> list[ChainDeployment]:
    """Those of the chains that answer. The others are named, and wait."""
    found = await newest_blocks(opened)
    if not found:
        raise DeployError(f"no chain answers ({', '.join(one.name for one in chains)}): there is no batch")
    for here in chains:
        if here.chain_id not in found:
            progress(f"{_silent(here)}, so there is no batch for it")
    return [here for here in chains if here.chain_id in found]


class _Run:
    """What is made on one chain, and how far it is."""

    def __init__(self, here: ChainDeployment, chain: EvmChain | None) -> None:
        self._here = here
        self._chain = chain  # None: it does not answer
        self.row: dict[str, Any] = {"chain": here.name, "transactions": {}, "error": None}

    @property
    def made(self) -> str:
        """The transactions that blocks include."""
        done = [f"{what} in {by}" for what, by in self.row["transactions"].items()]
        return f"{self._here.name}: {', '.join(done) or 'no block includes anything yet'}"

    async def carry_out(
        self,
        signer: Signer,
        steps: Steps,
        after: Callable[[ChainDeployment, EvmChain], Awaitable[dict[str, Any]]],
    ) -> None:
        """Makes the calls, one after the other."""
        here, chain = self._here, self._chain
        if chain is None:
            again = f"repeat this with --chains {here.name} later"
            self.row["error"] = f"{_silent(here)}: nothing was sent there, so {again}"
            return
        try:
            for one in await steps(here, chain, signer.address):
                self.row["transactions"][one.name] = await _sent(chain, here.name, signer, one)
            self.row |= await after(here, chain)
        except (CallRevertedError, DeployError, RevertedError, TransientError) as error:
            self.row["error"] = str(error)


async def _sent(chain: EvmChain, name: str, signer: Signer, transaction: Transaction) -> str:
    """The hash of the transaction that does it."""
    call = Call(to=transaction.to, data=transaction.data, gas=_GAS)
    try:
        await chain.call(call, sender=signer.address)
    except CallRevertedError as error:
        raise DeployError(await why_refused(chain, transaction, signer.address, error.data)) from error
    holds, needs = await chain.balance(signer.address), _GAS * (await chain.fees()).max_fee
    if holds < needs:
        raise DeployError(
            f"{signer.address} holds {ether(holds)} on chain {name!r}, and the transaction may cost {ether(needs)}: send it some"
        )
    _, found = await send(chain, signer, call, nonce=await chain.transaction_count(signer.address))
    return f"0x{found.hex()}"


def _print_done(done: Sequence[dict[str, Any]]) -> None:
    """Prints what was sent on each chain.

    Raises:
        CliError: a chain refused.
    """
    rows = [
        [row["chain"], what, transaction]
        for row in done
        for what, transaction in [*row["transactions"].items(), *([("refused", row["error"])] if row["error"] else [])]
        or [("nothing to do", "")]
    ]
    drawn = table(None, ["chain", "what", "transaction"], rows)
    result({"chains": done}, render=lambda console: console.print(drawn))
    if failed := [row["chain"] for row in done if row["error"]]:
        raise CliError(f"refused on {', '.join(failed)}", code=ExitCode.FAILED, next_step=_ROLES)


def print_preview(chains: Sequence[ChainPreview]) -> None:
    """Prints transactions that were simulated: their gas, and what they would cost."""
    value = {
        chain.name: {
            "gas": chain.gas,
            "weiPerGas": chain.price,
            "wei": str(chain.cost),
            "transactions": [
                {
                    "name": one.transaction.name,
                    "to": one.transaction.to,
                    "data": f"0x{one.transaction.data.hex()}",
                    "gas": one.gas,
                }
                for one in chain.estimates
            ],
        }
        for chain in chains
    }
    rows = [
        [chain.name, one.transaction.name, one.transaction.to, f"{one.gas:,}", ether(chain.cost_of(one))]
        for chain in chains
        for one in chain.estimates
    ]
    rows += [[chain.name, "all", "", f"{chain.gas:,}", ether(chain.cost)] for chain in chains]
    drawn = table("Nothing was sent", ["chain", "transaction", "to", "gas", "cost"], rows)
    result(value, render=lambda console: console.print(drawn))


def print_batches(batches: Sequence[Batch], *, then: str) -> None:
    """Prints the files for a Safe's app, with the hashes that its owners compare.

    Args:
        batches: in the order of their execution.
        then: what is to be done when all are executed.
    """
    value = [
        {
            "chain": batch.chain,
            "file": str(batch.file),
            "transactions": [one.transaction.name for one in batch.estimates],
            "gas": batch.gas,
            "nonce": batch.signed.nonce,
            "safeTxHash": f"0x{batch.signed.hash.hex()}",
            "domainHash": f"0x{batch.signed.domain_hash.hex()}",
            "messageHash": f"0x{batch.signed.message_hash.hex()}",
        }
        for batch in batches
    ]
    lines = [
        f"{batch.file}: {batch.gas:,} gas, nonce {batch.signed.nonce}:"
        f" {', '.join(one.transaction.name for one in batch.estimates)}\n"
        f"  Safe transaction hash 0x{batch.signed.hash.hex()}\n"
        f"  domain hash           0x{batch.signed.domain_hash.hex()}\n"
        f"  message hash          0x{batch.signed.message_hash.hex()}"
        for batch in batches
    ]
    lines.append(
        "next: import each file in the Safe's transaction builder, in this order; compare the hashes before you sign; once all"
        f" are executed, {with_network(then)}"
    )
    result(value, render=lambda console: console.print("\n".join(lines), markup=False, soft_wrap=True))
