"""Who makes a call that only a role of the router may make: a key, a keystore, a remote signer, or the owners of a Safe."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from eth_utils.address import to_checksum_address

from bridge.cli.interrupts import NOTHING_SENT, if_interrupted
from bridge.cli.next_commands import with_network
from bridge.cli.output import CliError, ExitCode, UsageError, progress, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.deploy.preview import ChainPreview, gas_price, simulated
from bridge.deploy.safe import Batch, make_batches, require_safe, save
from bridge.deploy.transactions import DeployError, Transaction, why_refused
from bridge.devnet.accounts import DEPLOYER_KEY
from bridge.domain.ports import Call, CallRevertedError, TransientError, read_view
from bridge.domain.spending import ether
from bridge.evm.chain import EvmChain
from bridge.evm.signing import LocalSigner, RemoteSigner, Signer, keystore_signer
from bridge.evm.simple_sender import RevertedError, send
from bridge.protocol.addresses import AddressError, checksummed
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.service.connections import connected, newest_blocks

_GAS: Final = 600_000
_ROLES: Final = "waybill role show"

Chains = Annotated[
    str | None, typer.Option("--chains", help="Only on these chains, separated by commas.", show_default=False)
]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Send nothing: print each transaction and its gas.")]

Steps = Callable[[ChainDeployment, EvmChain, str], Awaitable[Sequence[Transaction]]]
"""What an account has to call on a chain; asks the chain, and takes the account last."""


@dataclass(frozen=True, slots=True)
class Decider:
    """What the options say about the account that decides."""

    key: str | None
    keystore: Path | None
    password_file: Path | None
    signer_url: str | None
    signer_address: str | None
    signer_certificate: Path | None
    signer_authority: Path | None
    safe: str | None

    def signer(self, network: str, devnet_key: str = DEPLOYER_KEY) -> Signer:
        """The account that signs; on the devnet by default that of a public key, the routers' owner's if none is given.

        Raises:
            UsageError: none is named, or only half of one.
            InvalidKeyError: the key is none, or can't be opened.
        """
        if self.keystore is not None:
            if self.password_file is None:
                raise UsageError("--keystore needs --password-file, the file that holds its password")
            return keystore_signer(self.keystore, self.password_file)
        if self.signer_url is not None:
            if self.signer_address is None:
                raise UsageError("--signer-url needs --signer-address, the account that it signs for")
            return RemoteSigner(
                self.signer_url,
                self.signer_address,
                certificate=self.signer_certificate,
                authority=self.signer_authority,
            )
        if self.key is None and network != DEVNET:
            next_step = "set WAYBILL_KEY, or give --key, --keystore or --signer-url; where a Safe may decide, --safe"
            raise UsageError("no key to sign with", next_step=next_step)
        return LocalSigner.from_key(self.key or devnet_key)

    def simulated_account(self, network: str, *, by_owner: bool) -> str | None:
        """The account of a dry run; None: none is named, and the owner of each router will do.

        Raises:
            UsageError, InvalidKeyError: see `signer`; none is needed where a call may be made `by_owner`.
        """
        if self.safe is not None:
            return self.safe
        is_named = self.key is not None or self.keystore is not None or self.signer_url is not None
        return self.signer(network).address if is_named or network == DEVNET or not by_owner else None


def _options(
    *,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="WAYBILL_KEY",
            help="Private key to sign with. On the devnet a public one by default.",
            show_default=False,
        ),
    ] = None,
    keystore: Annotated[
        Path | None, typer.Option(help="A version 3 keystore file, in place of --key.", show_default=False)
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option(help="With the keystore's password.", show_default=False)
    ] = None,
    signer_url: Annotated[
        str | None, typer.Option(help="A remote signer's JSON-RPC, in place of --key.", show_default=False)
    ] = None,
    signer_address: Annotated[str | None, typer.Option(help="The remote signer's account.", show_default=False)] = None,
    signer_certificate: Annotated[
        Path | None,
        typer.Option(help="PEM file with the certificate and key that the remote signer asks for.", show_default=False),
    ] = None,
    signer_authority: Annotated[
        Path | None,
        typer.Option(help="PEM file with the authority of the remote signer's certificate.", show_default=False),
    ] = None,
    safe: Annotated[
        str | None,
        typer.Option(
            help="A Safe at this address decides: write batches for its app instead of sending.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None,
) -> Decider:
    addresses = {"--signer-address": signer_address, "--safe": safe}
    for option, text in addresses.items():
        try:
            addresses[option] = checksummed(text) if text is not None else None
        except AddressError as error:
            raise UsageError(f"{option}: {error}") from error
    return Decider(
        key,
        keystore,
        password_file,
        signer_url,
        addresses["--signer-address"],
        signer_certificate,
        signer_authority,
        addresses["--safe"],
    )


def with_decider(command: Callable[..., None], *, by_safe: bool = True) -> Callable[..., None]:
    """Gives a command these options; it takes them as `decider`.

    Args:
        command: which one.
        by_safe: whether a Safe may decide.
    """
    of_all = inspect.signature(_options, eval_str=True).parameters
    added = {name: one for name, one in of_all.items() if by_safe or name != "safe"}

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        command(decider=_options(**{name: given.pop(name) for name in added}), **given)

    own = inspect.signature(command, eval_str=True)
    kept = [one for one in own.parameters.values() if one.name != "decider"]
    parameters = [*kept, *added.values()]
    with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options


def with_signer(command: Callable[..., None]) -> Callable[..., None]:
    """As `with_decider`, for a command that sends: no Safe's batch would do."""
    return with_decider(command, by_safe=False)


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
    decider: Decider,
    chains: Sequence[ChainDeployment],
    name: str,
    steps: Steps,
    *,
    then: str,
    after: Callable[[ChainDeployment, EvmChain], Awaitable[dict[str, Any]]],
    as_json: bool,
    dry_run: bool = False,
    by_owner: bool = True,
) -> list[dict[str, Any]] | None:
    """Has an account make its calls on each chain. One that refuses does not keep the others waiting.

    Args:
        workspace: the network's.
        decider: the account.
        chains: where.
        name: of what is done, such as ``pause axelar``; a Safe's batches are in a folder of that name.
        steps: the calls.
        then: what is so when a Safe's owners have executed all batches.
        after: reads what is so on a chain afterwards, for its row.
        as_json: as the option says.
        dry_run: whether the calls are simulated instead.
        by_owner: whether the owner of a chain's router may make them: then a dry run needs no account, and is the owner's.

    Returns:
        A row for each chain: ``chain``, ``transactions`` by name, ``error`` and what `after` read. None: nothing was sent, since
        batches or a dry run were printed.

    Raises:
        CliError: what is simulated would be refused.
    """
    deployment, settings = workspace.deployment(), workspace.settings()
    ids, safe = {one.chain_id for one in chains}, decider.safe
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

    async def make(signer: Signer) -> list[dict[str, Any]]:
        async with connected(deployment, settings, ids, eager=False) as opened:
            answering = await newest_blocks(opened)
            runs = [_Run(here, opened[here.chain_id] if here.chain_id in answering else None) for here in chains]
            try:
                await asyncio.gather(*(run.carry_out(signer, steps, after) for run in runs))
            except asyncio.CancelledError:
                again = "type the same command again: what is done already is not done again"
                progress("\n".join(["interrupted", *(run.made for run in runs), again]))
                raise
            return [run.row for run in runs]

    try:
        if dry_run:
            account = decider.simulated_account(workspace.network, by_owner=by_owner)
            with if_interrupted(NOTHING_SENT):
                previews = asyncio.run(preview(account))
            print_preview(previews, as_json=as_json)
            return None
        if safe is not None:
            with if_interrupted(NOTHING_SENT):
                batches = asyncio.run(write(safe))
            print_batches(batches, then=then, as_json=as_json)
            return None
    except DeployError as error:
        raise CliError(str(error), code=ExitCode.FAILED, next_step=_ROLES) from error
    return asyncio.run(make(decider.signer(workspace.network)))


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


def print_done(done: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Prints what was sent on each chain, of rows that `carry_out` gave."""
    rows = [
        [row["chain"], what, transaction]
        for row in done
        for what, transaction in [*row["transactions"].items(), *([("refused", row["error"])] if row["error"] else [])]
        or [("nothing to do", "")]
    ]
    drawn = table(None, ["chain", "what", "transaction"], rows)
    result({"chains": done}, as_json=as_json, render=lambda console: console.print(drawn))


def refuse_failed(rows: Sequence[dict[str, Any]]) -> None:
    """Does nothing if no chain refused.

    Raises:
        CliError: some did.
    """
    if failed := [row["chain"] for row in rows if row["error"]]:
        raise CliError(f"refused on {', '.join(failed)}", code=ExitCode.FAILED, next_step=_ROLES)


def print_preview(chains: Sequence[ChainPreview], *, as_json: bool) -> None:
    """Prints transactions that were simulated: their gas, and what they would cost."""
    value = {
        chain.name: {
            "gas": chain.gas,
            "weiPerGas": chain.price,
            "weiPerByte": chain.byte_price,
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
    result(value, as_json=as_json, render=lambda console: console.print(drawn))


def print_batches(batches: Sequence[Batch], *, then: str, as_json: bool) -> None:
    """Prints the files for a Safe's app, with the hashes that its owners compare.

    Args:
        batches: in the order of their execution.
        then: what is to be done when all are executed.
        as_json: as the option says.
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
    result(value, as_json=as_json, render=lambda console: console.print("\n".join(lines), markup=False, soft_wrap=True))
