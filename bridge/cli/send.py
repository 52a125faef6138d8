"""`waybill send`: sends a message, as a dApp would."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import typer

from bridge.cli import options
from bridge.cli.decider import signer
from bridge.cli.message import sent_value
from bridge.cli.output import CliError, ExitCode, UsageError, facts, progress, result
from bridge.cli.workspace import Workspace
from bridge.client import Client, RouteRequest, Sent
from bridge.devnet.accounts import DAPP_KEY
from bridge.evm.chain import EvmChain
from bridge.evm.routers import Progress, RouterReader
from bridge.evm.signing import Signer
from bridge.protocol.addresses import from_bytes32, to_bytes32
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.message import MAX_GAS_LIMIT, Kind, Message
from bridge.protocol.ports import TransientError
from bridge.service.connections import connected, newest_blocks


def send(
    *,
    source: Annotated[str, typer.Option("--from", help="Source chain: its name or id.")] = "alpha",
    destination: Annotated[str, typer.Option("--to", help="Destination chain: its name or id.")] = "beta",
    payload: Annotated[str, typer.Option(help="The recipient's data: text, or 0x and hex digits.")],
    gmps: Annotated[str, typer.Option(help="GMPs to send over, separated by commas.")] = "hyperlane",
    quorum: Annotated[int | None, typer.Option(help="The number of GMPs that must deliver. By default all.")] = None,
    recipient: Annotated[
        str | None, typer.Option(help="The contract that receives the message. By default the example inbox.")
    ] = None,
    gas_limit: Annotated[
        int, typer.Option(help="Minimum gas for the recipient's call.", min=1, max=MAX_GAS_LIMIT)
    ] = 200_000,
    ttl: Annotated[
        int | None, typer.Option(help="Time to live in seconds; 0 never expires. By default that of its kind.", min=0)
    ] = None,
    kind: Annotated[str, typer.Option(help="Kind of the message, such as plain, state_sync or query.")] = "plain",
    retriable: Annotated[bool, typer.Option(help="Allow retries over other GMPs.")] = True,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Send although the message could not be executed now.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is executed.")] = False,
    timeout: Annotated[float, typer.Option(help="Maximum number of seconds to wait.", min=0)] = 60.0,
) -> None:
    """Send a message over one or more GMPs.

    Example: waybill send --from alpha --to beta --payload hello --gmps hyperlane,axelar --quorum 2 --wait
    """
    workspace = Workspace.current()
    deployment = workspace.deployment()
    origin, target = options.lane(deployment, source, destination)
    usable = deployment.gmps_between(origin.chain_id, target.chain_id)
    named = options.gmps(gmps, usable, f"{origin.name} → {target.name}")
    if quorum is not None and not 1 <= quorum <= len(named):
        raise UsageError(f"--quorum {quorum} can't be reached with {len(named)} GMPs; choose 1 to {len(named)}")
    receiver = recipient or target.examples.get("inbox")
    if receiver is None:
        raise UsageError(
            f"chain {target.name} has no example inbox", next_step="pass the recipient's address with --recipient"
        )
    to_bytes32(receiver)  # raises AddressError
    request = RouteRequest(
        destination=target.chain_id,
        recipient=receiver,
        payload=_payload(payload),
        gmps=named,
        quorum=quorum,
        gas_limit=gas_limit,
        ttl=ttl,
        kind=options.member((one for one in Kind if one < Kind.CANCELLATION), kind, "kind"),
        retriable=retriable,
        check_recipient=False,  # checked below, where the error mentions --anyway
    )
    work = _route(
        workspace,
        (origin, target),
        signer(workspace, DAPP_KEY),
        request,
        timeout if wait else None,
        anyway=anyway,
    )
    sent, reached = asyncio.run(work)
    _print(sent, reached, origin, target)
    if wait and (reached is None or not reached.executed):
        delivered = None if reached is None else f"{len(reached.receipts)} of {sent.message.quorum} GMPs have delivered"
        raise CliError(
            f"not executed after {timeout:g} s: {delivered}"
            if delivered
            else f"{target.name} does not answer: whether it was executed within {timeout:g} s is unknown",
            code=ExitCode.PENDING,
            next_step=f"waybill message show 0x{sent.message.id.hex()}",
        )


async def _route(
    workspace: Workspace,
    lane: tuple[ChainDeployment, ChainDeployment],
    account: Signer,
    request: RouteRequest,
    patience: float | None,
    *,
    anyway: bool,
) -> tuple[Sent, Progress | None]:
    """Sends a message, and waits up to `patience` seconds for its execution. With None, does not wait.

    The destination need not respond. The returned progress is None without a wait, or if the destination did
    not respond.
    """
    (origin, target), deployment = lane, workspace.deployment()
    ends = [origin.chain_id, target.chain_id]
    async with connected(deployment, workspace.settings(), ends, eager=False) as connections:
        answering = await newest_blocks(connections)
        if target.chain_id not in answering:
            progress(f"{target.name} does not answer: its recipient's code and demand are not checked")
        elif not anyway:
            await _refuse_unexecutable(connections[target.chain_id], lane, request)
        chains = {chain: one for chain, one in connections.items() if chain in answering or chain == origin.chain_id}
        client = Client(deployment, chains, account, workspace.settings().classes(deployment))
        sent = await client.route(origin.chain_id, request)
        if patience is None:
            return sent, None
        progress(f"sent 0x{sent.message.id.hex()}; waiting for its execution on {target.name}")
        return sent, await _executed(Client(deployment, connections), sent.message, patience)


async def _refuse_unexecutable(
    there: EvmChain, lane: tuple[ChainDeployment, ChainDeployment], request: RouteRequest
) -> None:
    """Rejects a message that could be paid for but not executed.

    Raises:
        CliError: the recipient has no code, or requires more GMPs than are given.
    """
    origin, target = lane
    if not await there.code(request.recipient):
        raise CliError(
            f"{request.recipient} on {target.name} is not a contract: the message would be paid for and "
            "delivered, but not executed (recipients implement IERC7786Recipient)",
            next_step="pass a contract's address with --recipient, or add --anyway",
        )
    demand = await RouterReader(there, target.router).demand(request.recipient, origin.chain_id)
    counted = [gmp for gmp in request.named if demand.gmps is None or gmp in demand.gmps]
    if len(counted) < demand.quorum:
        raise CliError(
            f"{request.recipient} requires {demand.quorum} GMPs for messages from {origin.name}, but only {len(counted)} of the"
            " given GMPs count: the message would not be executed before a retry over others",
            next_step="add GMPs with --gmps, or add --anyway",
        )


async def _executed(client: Client, message: Message, patience: float) -> Progress | None:
    """Waits for a message's execution, for at most `patience` seconds.

    Returns the message's progress, or None if the destination does not respond.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return await client.wait(message, max(0.0, deadline - time.monotonic()))
        except TransientError:
            if time.monotonic() >= deadline:
                return None


def _payload(text: str) -> bytes:
    return options.hex_bytes(text, "a payload of hex digits") if text.startswith("0x") else text.encode()


def _print(sent: Sent, reached: Progress | None, origin: ChainDeployment, target: ChainDeployment) -> None:
    message = sent.message
    value: dict[str, Any] = {
        "messageId": message.id,
        "source": origin.name,
        "destination": target.name,
        "sender": from_bytes32(message.sender),
        "recipient": from_bytes32(message.recipient),
        "nonce": message.nonce,
        "ttl": message.ttl,
        "quorum": message.quorum,
        **sent_value(sent),
        "executed": None if reached is None else reached.executed,
    }
    lines = {
        "message": f"0x{message.id.hex()}",
        "lane": f"{origin.name} → {target.name}, nonce {message.nonce}",
        "over": f"{', '.join(value['gmps'])}; {message.quorum} must deliver",
        "fee": f"{sent.fee} wei",
        "transaction": f"0x{sent.transaction.hex()}",
    }
    if message.ttl:
        lines["expires after"] = f"{message.ttl} s"
    if sent.failed:
        lines["refused by"] = f"{', '.join(value['failed'])}; their fee came back"
    if reached is not None and reached.executed:
        lines["executed"] = f"after {', '.join(sorted(gmp.label for gmp in reached.receipts))} delivered"
    result(value, facts(lines))
