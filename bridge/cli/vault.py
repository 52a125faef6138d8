"""`waybill vault`: what was paid for deliveries, and what the relayer has earned of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Annotated, Any

import typer

from bridge.cli import options
from bridge.cli.decider import signer
from bridge.cli.open_stores import open_relayer_store
from bridge.cli.output import CliError, escaped, result, table
from bridge.cli.workspace import Workspace
from bridge.client.client import RefusedError
from bridge.client.vault import VaultClient
from bridge.devnet.accounts import DAPP_KEY
from bridge.domain.jobs import ExecutionJob
from bridge.domain.outbox import OutboxState
from bridge.domain.payments import Account, Charge, charges_of
from bridge.domain.ports import Chain
from bridge.domain.spending import GWEI, NOTHING, balance_keys, ether
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.times import utc
from bridge.service.connections import connected
from bridge.store import Store

app = typer.Typer(help="See what was paid for deliveries, earn it, and keep prices.", no_args_is_help=True)

_AT_ONCE = 100
"""Charges in one transaction."""

ChainName = Annotated[str, typer.Argument(help="The chain whose vault it is: a name or an id.", metavar="CHAIN")]


@app.command()
def show() -> None:
    """Show each vault: what it has earned, and its prices.

    Example: waybill vault show
    """
    workspace = Workspace.current()
    deployment = workspace.deployment()

    async def look() -> list[dict[str, Any]]:
        found = []
        async with connected(deployment, workspace.settings()) as chains:
            for deployed in (one for one in deployment.chains if one.vault):
                vault = VaultClient(deployed, chains[deployed.chain_id])
                prices = {}
                for other in deployment.chains:
                    if other is not deployed:
                        try:
                            price = await vault.price(other.chain_id)
                        except RefusedError:
                            continue
                        prices[other.name] = {
                            "gasPrice": price.gas_price,
                            "dataFee": price.data_fee,
                            "rate": price.rate,
                            "updatedAt": price.updated_at,
                            "maxAge": price.max_age,
                        }
                earned = await vault.earned()
                found.append({"chain": deployed.name, "vault": vault.address, "earned": earned, "prices": prices})
        return found

    value = asyncio.run(look())
    rows = [
        [one["chain"], one["vault"], ether(one["earned"]), name, str(price["gasPrice"]), str(price["rate"])]
        for one in value
        for name, price in one["prices"].items()
    ]
    columns = ["chain", "vault", "earned", "to", "wei per gas", "rate"]
    drawn = table(None, columns, rows) if rows else "no chain of the network has a vault with a price"
    result({"vaults": value}, render=lambda console: console.print(drawn))


@app.command()
def collect(
    chain: ChainName,
) -> None:
    """Charge what deliveries that are final have cost to their payments, as the vault's operator. Run it daily.

    Payments can be fetched by their payers after 14 days: what is not charged by then is lost.

    Example: waybill --signer operator vault collect alpha
    """
    workspace = Workspace.current()
    deployed = workspace.deployment().chain(chain)
    with open_relayer_store(workspace) as store:
        if store is None:
            raise CliError(
                f"no relayer of network {workspace.network!r} has its store here", next_step="waybill relayer run"
            )
        charges = due_charges(store, deployed.chain_id)

    async def act(vault: VaultClient, _: dict[int, Chain]) -> dict[str, Any]:
        hashes = []
        for start in range(0, len(charges), _AT_ONCE):
            receipt = await vault.collect(charges[start : start + _AT_ONCE])
            hashes.append(f"0x{bytes(receipt['transactionHash']).hex()}")
        wei = sum(one.gwei for one in charges) * GWEI
        return {"charges": len(charges), "wei": wei, "transactions": hashes}

    _act(
        workspace,
        deployed,
        act,
        lambda value: f"charged {ether(value['wei'])} to {value['charges']} payments",
    )


@app.command()
def withdraw(
    chain: ChainName,
    *,
    to: Annotated[str, typer.Option(help="The account that gets it.")],
    wei: Annotated[int | None, typer.Option(help="How much; all that was charged, if not given.", min=1)] = None,
) -> None:
    """Send what was charged to an account, as the vault's operator.

    Example: waybill vault withdraw alpha --to 0x…
    """
    workspace = Workspace.current()

    async def act(vault: VaultClient, _: dict[int, Chain]) -> dict[str, Any]:
        amount = await vault.earned() if wei is None else wei
        receipt = await vault.withdraw(to, amount)
        return {"wei": amount, "transaction": f"0x{bytes(receipt['transactionHash']).hex()}"}

    deployed = workspace.deployment().chain(chain)
    _act(workspace, deployed, act, lambda value: f"sent {ether(value['wei'])} to {to}")


@app.command()
def price(
    chain: ChainName,
    destination: Annotated[str, typer.Argument(help="The chain that is delivered to.", metavar="DESTINATION")],
    *,
    gas_price: Annotated[
        int | None,
        typer.Option(help="Wei for a unit of gas; if not given, what a transaction may offer there now.", min=1),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(help="Wei that 10^12 wei of the destination are worth; if not given, as it was.", min=1),
    ] = None,
) -> None:
    """Update what deliveries to a chain cost, as the vault's oracle: by a factor of two at most, every five minutes at most.

    A byte of a message costs 32 gas at that price, for calldata and copies, and a rollup's fee for data. The fee is that of
    DESTINATION in the setting `payments.data_fees`.

    Example: waybill vault price alpha beta --gas-price 2000000000
    """
    workspace = Workspace.current()
    deployment, settings = workspace.deployment(), workspace.settings()
    there = deployment.chain(destination)

    async def act(vault: VaultClient, chains: dict[int, Chain]) -> dict[str, Any]:
        known = await vault.price(there.chain_id)
        gas = gas_price or (await chains[there.chain_id].fees(None)).max_fee
        data = settings.payment_policy(deployment).data_fee(there.chain_id, 1) + _BYTE_GAS * gas
        chosen = await vault.within_step(there.chain_id, (gas, data, rate or known.rate))
        receipt = await vault.set_price(there.chain_id, *chosen)
        names = ("gasPrice", "dataFee", "rate")
        return {**dict(zip(names, chosen, strict=True)), "transaction": f"0x{bytes(receipt['transactionHash']).hex()}"}

    deployed = deployment.chain(chain)
    _act(
        workspace,
        deployed,
        act,
        lambda value: (
            f"{value['gasPrice']} wei per gas; {value['dataFee']} wei per byte of a message, for {_BYTE_GAS} gas and a rollup's"
            f" fee for data; rate {value['rate']}: wei here for 10^12 wei there"
        ),
    )


@app.command()
def refund(message: options.MessageId) -> None:
    """Fetch what is left of all payments for a message that can be fetched, each to its payer. Anyone may.

    Example: waybill vault refund 0x…
    """
    workspace, message_id = Workspace.current(), options.message_id(message)
    with open_relayer_store(workspace) as store:
        accounts = [] if store is None else store.payments.accounts(message_id)
    left = [one for one in accounts if one.earned + one.refunded < one.paid]
    if not left:
        raise CliError("no payment for that message is known here, or nothing of it is left")

    async def act(vault: VaultClient, _: dict[int, Chain]) -> dict[str, Any]:
        try:
            receipts = [await vault.refund(message_id, one.gmp, one.payer) for one in left]
        except RefusedError as error:
            if error.revert is None or error.revert.name != "NotRefundableYet":
                raise
            until = utc(error.revert.values["refundableAt"])
            raise CliError(
                f"what is left of the payment can be fetched from {until} UTC on, or once the operator has charged the message"
            ) from error
        return {"refunds": len(left), "transactions": [f"0x{bytes(one['transactionHash']).hex()}" for one in receipts]}

    deployed = workspace.deployment().chain(left[0].source_chain)
    _act(workspace, deployed, act, lambda value: f"{value['refunds']} payments fetched")


_BYTE_GAS = 32
"""Gas that a byte of an envelope costs a relayer beyond what the adapter asks for: calldata and copies."""


def due_charges(store: Store, source_chain: int) -> list[Charge]:
    """What is to be charged now: of messages whose deliveries are all final, or given up."""
    found = []
    accounts = sorted(store.payments.accounts(source_chain=source_chain), key=lambda one: one.message_id)
    for message_id, group in groupby(accounts, key=lambda one: one.message_id):
        entries, execution = store.outbox.entries(message_id), store.jobs.newest(ExecutionJob, message_id)
        is_over = [one.state is OutboxState.DEAD or one.confirmed_at is not None for one in entries]
        if not entries or not all(is_over) or (execution is not None and execution.finished_at is None):
            continue
        ended = all(one.confirmed_at is not None for one in entries)
        of_message: list[Account] = list(group)
        (whole,) = balance_keys(of_message[0].destination_chain, message_id, 0)
        balance = store.spending.totals([whole]).get(whole, NOTHING).gwei
        spent = balance + sum(one.covers for one in of_message)
        found += charges_of(of_message, spent, ended=ended)
    return found


def _act(
    workspace: Workspace,
    deployed: ChainDeployment,
    act: Callable[[VaultClient, dict[int, Chain]], Awaitable[dict[str, Any]]],
    done: Callable[[dict[str, Any]], str],
) -> None:
    """Has something done with a chain's vault, and prints what that came to."""
    account = signer(workspace, DAPP_KEY)

    async def run() -> dict[str, Any]:
        async with connected(workspace.deployment(), workspace.settings()) as chains:
            return await act(VaultClient(deployed, chains[deployed.chain_id], account), dict(chains))

    value = asyncio.run(run())
    result(value, render=lambda console: console.print(escaped(done(value))))
