"""`waybill message prove | verify-proof`: what happened to a message, checked against block hashes."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.lookup import look_up
from bridge.cli.open_stores import index_if_any
from bridge.cli.output import CliError, UsageError, facts, progress, result
from bridge.cli.workspace import DEVNET, Workspace
from bridge.protocol.addresses import AddressError, from_bytes32, to_bytes32
from bridge.protocol.message import Message
from bridge.protocol.proof import MessageProof, ProofError, ProvenLog, UntrustedBlockError, check
from bridge.queries.lanes import gmp_name
from bridge.queries.proofs import prove_message
from bridge.service.connections import connected

_BLOCK = re.compile(r"(\d{1,20})=0x([0-9a-fA-F]{64})")

ProofFile = Annotated[
    str, typer.Argument(help="The file of `waybill message prove`; - reads standard input.", metavar="FILE")
]
Trusted = Annotated[
    list[str] | None,
    typer.Option(
        "--block",
        help="A block hash that you know to be of a chain, as CHAIN=0x…, by the chain's id. Once for each block.",
        metavar="CHAIN=HASH",
        show_default=False,
    ),
]


def prove(message: options.MessageId, *, network: options.Network = DEVNET) -> None:
    """Print a proof of a message's creation, receipts and execution, which anybody can check against block hashes.

    Example: waybill message prove 0x… > proof.json
    """
    workspace = Workspace.of(network)
    proof = asyncio.run(_prove(workspace, options.message_id(message)))
    result(proof.to_json(), as_json=True, render=lambda _console: None)
    for chain, hashes in _rests_on(proof).items():
        for block in hashes:
            progress(f"rests on block 0x{block.hex()} of {workspace.deployment().chain(chain).name}, chain {chain}")
    progress("next: waybill message verify-proof proof.json --block CHAIN=HASH, with hashes from where you trust them")


def verify_proof(
    file: ProofFile,
    *,
    block: Trusted = None,
    network: Annotated[
        str | None,
        typer.Option(help="Check, too, that the routers are this network's.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check a proof of a message. Asks no chain and no index. Exits with status 1 if it proves nothing.

    Example: waybill message verify-proof proof.json --block 31337=0x… --block 31338=0x…
    """
    trusted = defaultdict[int, set[bytes]](set)
    for text in block or ():
        chain, hashed = _trusted(text)
        trusted[chain].add(hashed)
    try:
        proof = MessageProof.from_json(_read(file))
        proven = check(proof, trusted)
    except UntrustedBlockError as error:
        raise CliError(
            f"the proof {file} does not hold: {error}",
            next_step="look the block's hash up at an endpoint or explorer that you trust, and name it with --block CHAIN=HASH",
        ) from error
    except ProofError as error:
        raise CliError(
            f"the proof {file} does not hold: {error}", next_step="ask for one that waybill message prove ID has made"
        ) from error
    message = proven.message
    if network is not None:
        _require_routers(Workspace.of(network), message)
    value = {
        "messageId": "0x" + proof.message_id.hex(),
        "sender": _account(message.sender),
        "recipient": _account(message.recipient),
        "sourceRouter": _account(message.source_router),
        "destinationRouter": _account(message.destination_router),
        "created": _log_value(message.source_chain, proven.created),
        "received": {gmp_name(gmp): _log_value(message.destination_chain, log) for gmp, log in proven.received.items()},
        "executed": _log_value(message.destination_chain, proven.executed) if proven.executed else None,
    }
    result(value, as_json=as_json, render=lambda console: _draw(console, value))


async def _prove(workspace: Workspace, message_id: bytes) -> MessageProof:
    deployment = workspace.deployment()
    async with connected(deployment, workspace.settings(), eager=False) as chains:
        message = (await look_up(workspace, message_id, chains)).message
        with index_if_any(workspace) as index:
            known = await asyncio.to_thread(index.events, message_id) if index else []
            read_to = {one.chain_id: one.block for one in index.chains()} if index else {}
        return await prove_message(deployment, chains, message, known, read_to)


def _rests_on(proof: MessageProof) -> dict[int, list[bytes]]:
    found = defaultdict[int, dict[bytes, None]](dict)  # in their order, each once
    for one in proof.logs:
        found[one.chain_id][one.block_hash] = None
    return {chain: list(hashes) for chain, hashes in found.items()}


def _trusted(text: str) -> tuple[int, bytes]:
    found = _BLOCK.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text!r} names no block: a chain's id, = and 0x with 64 hex digits", next_step="--block 1=0x…"
        )
    return int(found[1]), bytes.fromhex(found[2])


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CliError(
            f"{file} can't be read: {error.strerror}", next_step="waybill message prove ID > proof.json"
        ) from error


def _require_routers(workspace: Workspace, message: Message) -> None:
    deployed = {(one.chain_id, to_bytes32(one.router)) for one in workspace.deployment().chains}
    for chain, router in (
        (message.source_chain, message.source_router),
        (message.destination_chain, message.destination_router),
    ):
        if (chain, router) not in deployed:
            raise CliError(
                f"the proof is of router {_account(router)} on chain {chain}, which is not in network {workspace.network!r}",
                next_step="name the network that you mean with --network, or leave it out and compare the routers yourself",
            )


def _account(word: bytes) -> str:
    """The address in a word, or the word itself where it holds none."""
    try:
        return from_bytes32(word)
    except AddressError:
        return "0x" + word.hex()


def _log_value(chain: int, log: ProvenLog) -> dict[str, Any]:
    time = datetime.fromtimestamp(log.block_time, UTC).isoformat()
    return {"chainId": chain, "block": log.block_number, "time": time}


def _draw(console: Console, value: dict[str, Any]) -> None:
    def place(log: dict[str, Any]) -> str:
        return f"{log['time']}, block {log['block']} of chain {log['chainId']}"

    shown = {"message": value["messageId"], "sender": value["sender"], "recipient": value["recipient"]}
    shown |= {"source router": value["sourceRouter"], "destination router": value["destinationRouter"]}
    shown["created"] = place(value["created"])
    shown |= {f"received over {gmp}": place(log) for gmp, log in value["received"].items()}
    shown["executed"] = place(value["executed"]) if value["executed"] else "not in this proof"
    console.print(facts(shown))
    console.print("[green]proven[/green], if these routers are those that you mean")
