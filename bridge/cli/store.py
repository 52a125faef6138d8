"""`waybill store`: backs up and restores the relayer's store."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.output import result, with_network
from bridge.cli.workspace import Workspace
from bridge.evm.account import reconcile_nonces
from bridge.service.connections import connected
from bridge.service.relayer_service import SystemClock
from bridge.store import Copied, back_up, open_store
from bridge.store import restore as restore_store

app = typer.Typer(help="Back up and restore the relayer's store.", no_args_is_help=True)


@app.command()
def backup(
    path: Annotated[Path, typer.Argument(help="The file to write. It must not exist.", metavar="PATH")],
    store: options.StoreUrl = None,
) -> None:
    """Write a consistent backup of the relayer's store while relayers are running.

    The backup is one SQLite file, even for a store in PostgreSQL, and can be restored into either.

    Example: waybill store backup before-upgrade.db
    """
    copied = back_up(Workspace.current(store=store).store, path)
    value = {"path": str(path), "rows": copied.rows}
    result(value, f"{path}: {_summary(copied)}")


@app.command()
def restore(
    path: Annotated[Path, typer.Argument(help="A backup.", metavar="PATH")],
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite the store.")] = False,
    store: options.StoreUrl = None,
) -> None:
    """Restore a backup, and mark the nonces used since then. No relayer may be running.

    Messages sent after the backup are found again on their chains. Deliveries made since the backup are
    recognised before anything is sent.

    Example: waybill store restore before-upgrade.db --replace
    """
    workspace = Workspace.current(store=store)
    deployment = workspace.deployment()
    settings = workspace.settings()

    async def put_back() -> tuple[Copied, int]:
        """Connects before restoring, since a restored store with unreconciled nonces could reuse them."""
        async with connected(deployment, settings) as chains:
            copied = restore_store(path, settings.store, replace=replace)
            with closing(open_store(settings.store)) as opened:
                found = [
                    await reconcile_nonces(chains[chain_id], account, opened.transactions, SystemClock())
                    for chain_id, account in copied.accounts
                    if chain_id in chains
                ]
        return copied, sum(found)

    copied, taken = asyncio.run(put_back())
    value = {"path": str(path), "rows": copied.rows, "noncesTaken": taken}
    text = f"{path}: {_summary(copied)} restored; {taken} nonces were used since"
    result(value, with_network(f"{text}\nnext: waybill relayer run"))


def _summary(copied: Copied) -> str:
    shown = (("messages", "messages"), ("outbox", "outbox entries"), ("slots", "nonces"))
    return ", ".join(f"{copied.rows[table]} {name}" for table, name in shown)
