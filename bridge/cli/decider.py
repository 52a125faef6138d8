"""Signs a command's transactions with a configured account or a key, or writes batches for the owners of a Safe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bridge.cli.output import CliError, UsageError, details, progress, result, table, with_network
from bridge.cli.root import DEVNET, current
from bridge.cli.workspace import Workspace
from bridge.client import NotIncludedError, RefusedError, transact
from bridge.deploy.safe import Batch, make_batches, save
from bridge.deploy.transactions import DeployError, Transaction, why_refused
from bridge.devnet.accounts import DEPLOYER_KEY
from bridge.evm.chain import EvmChain
from bridge.evm.settings import SignerSource
from bridge.evm.signing import LocalSigner, Signer
from bridge.protocol.addresses import AddressError, checksummed
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.ports import Call, CallRevertedError, TransientError
from bridge.service.connections import connected, newest_blocks
from bridge.service.keys import opened

_ROLES: Final = "waybill role show"

Chains = Annotated[
    str | None, typer.Option("--chains", help="Restrict to these chains, separated by commas.", show_default=False)
]

Steps = Callable[[ChainDeployment, EvmChain, str], Awaitable[Sequence[Transaction]]]
"""Reads a chain, and returns the calls that an account has to make there. Takes the account last."""

After = Callable[[ChainDeployment, EvmChain], Awaitable[dict[str, Any]]]
"""Reads a chain after the calls, for its row in the answer."""


def signer(workspace: Workspace, devnet_key: str = DEPLOYER_KEY) -> Signer:
    """Returns the signer selected by the global options, for a command that sends transactions.

    Args:
        workspace: provides the configured accounts.
        devnet_key: the default on the devnet.

    Raises:
        UsageError: no account is given, or `--safe` is.
        InvalidKeyError: the key is invalid or can't be opened.
    """
    options = current()
    if options.safe is not None:
        raise UsageError(
            f"--safe {options.safe} can't be used here: this command sends its transaction itself",
            next_step="choose a configured account: --signer NAME",
        )
    if options.signer is not None:
        return opened(account_source(workspace, options.signer))
    if options.key is None and workspace.network != DEVNET:
        raise UsageError(
            f"no account to sign with on network {workspace.network!r}",
            next_step="choose a configured account with --signer NAME, set WAYBILL_KEY, or write batches for a Safe with --safe",
        )
    return LocalSigner.from_key(options.key or devnet_key)


def account_source(workspace: Workspace, name: str) -> SignerSource:
    """Returns the key source of a configured account.

    Raises:
        UsageError: no account with that name is configured.
    """
    accounts = workspace.settings().accounts
    if name not in accounts:
        known = f"they have {', '.join(sorted(accounts))}" if accounts else "they have no accounts"
        raise UsageError(
            f"no account {name!r} in the settings; {known}",
            next_step=f'add it to waybill.toml: [accounts.{name}] keystore = "FILE", password_file = "FILE"',
        )
    return accounts[name]


def safe_address() -> str | None:
    """Returns the address given by `--safe`, or None.

    Raises:
        UsageError: the text is not an address.
    """
    try:
        return None if current().safe is None else checksummed(str(current().safe))
    except AddressError as error:
        raise UsageError(f"--safe: {error}") from error


def named_chains(deployment: Deployment, names: str | None) -> list[ChainDeployment]:
    """Returns the chains of a comma-separated list, or all chains.

    Raises:
        NoSuchChainError: a chain is not part of the network.
    """
    return [deployment.chain(one.strip()) for one in names.split(",")] if names else list(deployment.chains)


def carry_out(
    workspace: Workspace,
    chains: Sequence[ChainDeployment],
    name: str,
    steps: Steps,
    *,
    then: str,
    after: After,
) -> None:
    """Sends an account's calls on each chain, or writes them as batches for a Safe. Prints the outcome.

    A chain that rejects a call does not affect the others. In JSON, each chain has a row with ``chain``,
    ``transactions`` by name, ``error`` and the fields that `after` reads.

    Args:
        workspace: the network's workspace.
        chains: the chains to call.
        name: the operation's name, such as ``pause axelar``. The folder of a Safe's batches has the same name.
        steps: the calls.
        then: the effect once the Safe's owners have executed all batches.
        after: see `After`.

    Raises:
        CliError: a chain rejected a call.
    """
    safe = safe_address()
    if safe is None:
        _print_done(asyncio.run(_send(workspace, chains, steps, after)))
        return
    folder = workspace.deployments_file.with_suffix(f".{name.replace(' ', '-')}.safe")
    try:
        print_batches(asyncio.run(_write_batches(workspace, chains, steps, safe, folder)), then=then)
    except DeployError as error:
        raise CliError(str(error), next_step=_ROLES) from error


def _connected(
    workspace: Workspace, chains: Sequence[ChainDeployment]
) -> AbstractAsyncContextManager[dict[int, EvmChain]]:
    ids = [here.chain_id for here in chains]
    return connected(workspace.deployment(), workspace.settings(), ids, eager=False)


async def _write_batches(
    workspace: Workspace, chains: Sequence[ChainDeployment], steps: Steps, safe: str, folder: Path
) -> list[Batch]:
    """Writes batches for the chains that respond.

    Raises:
        DeployError: no chain responds, or a call would revert.
    """
    batches = []
    async with _connected(workspace, chains) as opened:
        answering = await newest_blocks(opened)
        if not answering:
            names = ", ".join(here.name for here in chains)
            raise DeployError(
                f"none of the chains responded ({names}), so no batch was written: check their RPC endpoints"
            )
        for here in chains:
            if here.chain_id not in answering:
                progress(f"{here.name} does not answer: no batch was written for it")
                continue
            chain = opened[here.chain_id]
            batches += await make_batches(here.name, await steps(here, chain, safe), chain, safe, folder)
    save(batches, folder)
    return batches


async def _send(
    workspace: Workspace, chains: Sequence[ChainDeployment], steps: Steps, after: After
) -> list[dict[str, Any]]:
    """Sends the calls on all chains concurrently, and returns a row per chain."""
    account = signer(workspace)
    rows: list[dict[str, Any]] = [{"chain": here.name, "transactions": {}, "error": None} for here in chains]
    async with _connected(workspace, chains) as opened:
        answering = await newest_blocks(opened)

        async def work(row: dict[str, Any], here: ChainDeployment) -> None:
            if here.chain_id not in answering:
                again = f"run it again later with --chains {here.name}"
                row["error"] = f"{here.name} does not answer: nothing was sent there; {again}"
                return
            chain = opened[here.chain_id]
            try:
                for one in await steps(here, chain, account.address):
                    row["transactions"][one.name] = await _sent(chain, account, one)
                row |= await after(here, chain)
            except (CallRevertedError, DeployError, NotIncludedError, RefusedError, TransientError) as error:
                row["error"] = str(error)

        try:
            await asyncio.gather(*map(work, rows, chains))
        except asyncio.CancelledError:
            again = "run the same command again: it continues"
            progress("\n".join(["interrupted", *map(_included, rows), again]))
            raise
    return rows


def _included(row: Mapping[str, Any]) -> str:
    """Lists the transactions that were included on one chain."""
    done = [f"{name} in {transaction}" for name, transaction in row["transactions"].items()]
    return f"{row['chain']}: {', '.join(done) or 'nothing included yet'}"


async def _sent(chain: EvmChain, account: Signer, transaction: Transaction) -> str:
    """Sends a transaction, waits until a block includes it, and returns its hash."""
    call = Call(to=transaction.to, data=transaction.data)
    try:
        await chain.call(call, sender=account.address)
    except CallRevertedError as error:
        raise DeployError(await why_refused(chain, transaction, account.address, error.data)) from error
    return f"0x{(await transact(chain, account, call)).transaction_hash.hex()}"


def _print_done(done: Sequence[dict[str, Any]]) -> None:
    """Prints the transactions sent on each chain.

    Raises:
        CliError: a chain failed.
    """
    rows = []
    for row in done:
        rows += [[row["chain"], name, transaction] for name, transaction in row["transactions"].items()]
        if row["error"]:
            rows.append([row["chain"], "failed", row["error"]])
        elif not row["transactions"]:
            rows.append([row["chain"], "nothing to do", ""])
    result({"chains": done}, table(None, ["chain", "step", "transaction"], rows))
    if failed := [row["chain"] for row in done if row["error"]]:
        raise CliError(f"failed on {', '.join(failed)}", next_step=_ROLES)


def print_batches(batches: Sequence[Batch], *, then: str) -> None:
    """Prints the files to import in the Safe app, with the hashes that its owners compare.

    Args:
        batches: the batches, in order of execution.
        then: the next step once all batches are executed.
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
    next_step = (
        "next: import each file in the Safe's transaction builder, in this order; compare the hashes before you sign; once all"
        f" are executed, {with_network(then)}"
    )
    result(value, *map(details, value), next_step)
