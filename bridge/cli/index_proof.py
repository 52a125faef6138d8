"""`waybill index verify`: compares the index with the routers' own totals."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.freshness import freshness
from bridge.cli.index_settings import chains_to_ask, source_limits
from bridge.cli.output import escaped, progress, table
from bridge.cli.workspace import Workspace

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from indexer.jobs.repair import Violation
    from indexer.jobs.verify import LaneCheck
    from indexer.pipeline.bronze import Lake
    from indexer.sources.chain import ChainReader
    from indexer.store.store import Store


def verify(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Correct the index with the blocks that are read again.")
    ] = False,
    max_behind: options.MaxBehind = None,
) -> None:
    """Compare the whole index with the routers' totals, at one final block per chain.

    Each router counts the messages of a lane and sums their ids. Equal totals prove that the index has exactly
    those messages. If they differ, the range of blocks is narrowed down and read again. Reorgs of final blocks
    are reported as well; --repair rolls back to the last common block. Stop the index before a repair. Exits
    with status 1 unless all lanes are equal, and with status 5 if they are equal but the index is behind.

    Example: waybill index verify
    """
    from indexer.jobs import repair as repairs
    from indexer.jobs import verify as job
    from indexer.jobs.history import History

    workspace = Workspace.current()
    with open_for_writing(workspace) as (store, lake), readers(workspace, store.engine) as opened:
        history = History(store.engine, lake)
        violations = [one for one in (repairs.find_violation(reader, history) for reader in opened) if one is not None]
        by_chain = {reader.config.chain_id: reader for reader in opened}
        for violation in violations if repair else ():
            progress(f"chain {violation.chain_id}: going back to block {violation.fork}")
            repairs.repair(store, lake, by_chain[violation.chain_id], violation, time.time())
        checks = job.verify(opened, history, progress=progress)
        ranges = {(found.chain_id, found.first): found for check in checks for found in check.wrong}
        if repair and ranges:
            for found in ranges.values():
                progress(f"chain {found.chain_id}: correcting blocks {found.first}…{found.last}")
                job.correct(store, lake, found)
            checks = job.verify(opened, history, progress=progress)
        job.store_checks(store.engine, checks, time.time())
    with workspace.index() as index:
        fresh = freshness(workspace, index, max_behind)
    value = _value(workspace, checks) | {"violations": [_violation(one, repaired=repair) for one in violations]}
    unequal = [check for check in checks if check.verdict is not job.Verdict.EQUAL]
    failures = [f"{len(unequal)} of {len(checks)} totals are not proved equal"] if unequal else []
    failures += [f"chain {one.chain_id} took back final blocks above {one.fork}" for one in violations if not repair]
    can_repair = not repair and bool(violations or any(check.wrong for check in unequal))
    fresh.answer(
        value,
        render=lambda console: _draw(console, value),
        failures=failures,
        next_step="waybill index verify --repair" if can_repair else None,
    )


def _violation(found: Violation, *, repaired: bool) -> dict[str, Any]:
    return {
        "chain": found.chain_id,
        "fork": found.fork,
        "finalBlock": found.final[0],
        "events": len(found.events),
        "messages": [message_id for message_id, _, _ in found.marks()],
        "repaired": repaired,
    }


@contextmanager
def open_for_writing(workspace: Workspace) -> Iterator[tuple[Store, Lake]]:
    """Opens the index's store and lake.

    Raises:
        CliError: no index has run yet.
    """
    from indexer.pipeline.bronze import Lake
    from indexer.store.store import Store

    with workspace.index():
        pass  # fails if no index has run; opening for writing would create its store
    lake = Lake(workspace.lake)
    store = Store(workspace.index_url)
    try:
        yield store, lake
    finally:
        store.close()


@contextmanager
def readers(workspace: Workspace, engine: Engine) -> Iterator[list[ChainReader]]:
    """Opens a reader for each chain. Each reader includes the adapters whose registration the index has seen."""
    from indexer.sources.chain import ChainReader
    from indexer.store.store import adapters_of

    taken, limits = adapters_of(engine), source_limits(workspace)
    with ExitStack() as stack:
        yield [
            stack.enter_context(ChainReader(chain.with_adapters(taken.get(chain.chain_id, ())), limits))
            for chain in chains_to_ask(workspace)
        ]


def _value(workspace: Workspace, checks: list[LaneCheck]) -> dict[str, Any]:
    names = {chain.chain_id: chain.name for chain in workspace.deployment().chains}
    return {
        "verdicts": dict(Counter(check.verdict.value for check in checks)),
        "lanes": [
            {
                "router": names.get(check.chain_id, str(check.chain_id)),
                "direction": check.direction.value,
                "other": names.get(check.other_chain, str(check.other_chain)),
                "block": check.block,
                "blockHash": check.block_hash,
                "indexed": check.indexed and {"count": check.indexed.count, "sum": hex(check.indexed.sum)},
                "onChain": check.router and {"count": check.router.count, "sum": hex(check.router.sum)},
                "verdict": check.verdict.value,
                "reason": check.reason,
                "wrong": [
                    {"first": found.first, "last": found.last, "missing": found.missing, "surplus": found.surplus}
                    for found in check.wrong
                ],
            }
            for check in checks
        ],
    }


def _draw(console: Console, value: dict[str, Any]) -> None:
    rows = [
        [
            f"{lane['router']} {'→' if lane['direction'] == 'sent' else '←'} {lane['other']}",
            lane["direction"],
            "" if lane["block"] is None else f"{lane['block']} 0x{lane['blockHash'].hex()[:8]}…",
            _total(lane["indexed"]),
            _total(lane["onChain"]),
            lane["verdict"],
        ]
        for lane in value["lanes"]
    ]
    console.print(table(None, ["lane", "messages", "up to block", "index", "router", ""], rows))
    for lane in value["lanes"]:
        if lane["reason"]:
            console.print(escaped(f"{lane['router']} {lane['direction']} {lane['other']}: {lane['reason']}"))
    for item in value["violations"]:
        did = "taken back" if item["repaired"] else "would be taken back"
        console.print(
            f"chain {item['chain']}: {item['events']} events of {len(item['messages'])} messages above block "
            f"{item['fork']} {did}; block {item['finalBlock']} had been final"
        )
        for message_id in item["messages"]:
            console.print(f"  0x{message_id.hex()}")
    console.print("verdicts  " + ", ".join(f"{count} {verdict}" for verdict, count in value["verdicts"].items()))


def _total(total: dict[str, Any] | None) -> str:
    return "" if total is None else f"{total['count']} · …{total['sum'].removeprefix('0x')[-8:]:0>8}"
