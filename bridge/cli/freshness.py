"""As of when the index's answers are, and how far it is behind the chains: one computation for every command that asks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bridge.cli.index_settings import chains_to_ask, source_limits
from bridge.cli.output import CliError, ExitCode, result
from bridge.cli.workspace import Workspace
from bridge.protocol.indexed import ChainRecord
from bridge.protocol.times import iso, utc
from bridge.queries.explain import distance

if TYPE_CHECKING:
    from indexer.sources.chain import ChainConfig
    from indexer.store.reader import IndexReader

_SECONDS = 3.0  # that an endpoint may take


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFreshness:
    """How far the index has read one chain.

    Attributes:
        record: of the chain in the index; None if the index has not read it.
        head: the chain's newest block; None if the chain does not answer.
        blocks: that the chain has and the index has not; None if the chain does not answer.
        seconds: from the last block read to the chain's newest, or to now if the chain does not answer.
    """

    name: str
    chain_id: int
    record: ChainRecord | None
    head: int | None
    blocks: int | None
    seconds: int

    def is_behind(self, most_seconds: int) -> bool:
        """Whether so much is missing, or may be missing, that an answer from the index is no verdict."""
        if self.record is None or self.record.halted:
            return True
        return self.blocks != 0 and self.seconds > most_seconds

    @property
    def text(self) -> str:
        """In words."""
        if self.record is None:
            return f"{self.name}: not read yet"
        at = utc(self.record.block_time)
        if self.blocks is None:
            distance = f"its head is not known, the chain does not answer; {self.seconds} s old"
        elif self.blocks:
            distance = f"{self.blocks} blocks ({self.seconds} s) behind"
        else:
            distance = "at the head"
        halted = f", halted: {self.record.halted}" if self.record.halted else ""
        return f"{self.name}: block {self.record.block} of {at} UTC, {distance}{halted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How far the index has read all chains of a network."""

    chains: Sequence[ChainFreshness]
    most_seconds: int

    @property
    def behind(self) -> list[ChainFreshness]:
        """The chains that the index is too far behind on."""
        return [chain for chain in self.chains if chain.is_behind(self.most_seconds)]

    @property
    def line(self) -> str:
        """The first line of every answer."""
        verdict = "BEHIND, so what follows may be old or lack something" if self.behind else "up to date"
        return f"index  {verdict}: {'; '.join(chain.text for chain in self.chains)}"

    def value(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "behind": bool(self.behind),
            "maxBehindSeconds": self.most_seconds,
            "chains": [
                {
                    "chain": chain.name,
                    "block": chain.record and chain.record.block,
                    "blockTime": iso(chain.record.block_time) if chain.record else None,
                    "head": chain.head,
                    "blocksBehind": chain.blocks,
                    "secondsBehind": chain.seconds,
                    "halted": chain.record and chain.record.halted,
                    "behind": chain.is_behind(self.most_seconds),
                }
                for chain in self.chains
            ],
        }

    def draw(self, console: Console) -> None:
        """Prints the line."""
        console.print(self.line, markup=False, style="bold" if self.behind else None)

    def answer(
        self,
        value: dict[str, Any],
        *,
        render: Callable[[Console], None],
        failures: Sequence[str] = (),
        next_step: str | None = None,
    ) -> None:
        """Prints what a command found in the index, with how old it is.

        Raises:
            CliError: the command's own failures, with `next_step`, or the index is behind.
        """

        def draw(console: Console) -> None:
            self.draw(console)
            render(console)

        result({"index": self.value(), **value}, render=draw)
        if (error := self.error(*failures, next_step=next_step)) is not None:
            raise error

    def error(self, *failures: str, next_step: str | None = None) -> CliError | None:
        """What the command ends with: its own failures first, and being behind; None if there is neither."""
        if not failures and not self.behind:
            return None
        texts = [
            *failures,
            *[f"the index is behind: {'; '.join(chain.text for chain in self.behind)}"] * bool(self.behind),
        ]
        code = ExitCode.FAILED if failures else ExitCode.BEHIND
        return CliError("; ".join(texts), code=code, next_step=next_step if failures else "waybill index run")


def freshness(workspace: Workspace, index: IndexReader | None, max_behind: int | None = None) -> Freshness:
    """Asks each chain for its newest block, and compares that with what the index has read.

    Args:
        workspace: of the network.
        index: None if no index has run yet.
        max_behind: seconds of block time behind which a chain's answers are no verdict; the setting `index.max_lag` if None.
    """
    from indexer.model.settings import SourceLimits

    told: SourceLimits = replace(source_limits(workspace), rpc_timeout=_SECONDS)
    records = {} if index is None else {record.chain_id: record for record in index.chains()}
    names = {chain.chain_id: chain.name for chain in workspace.deployment().chains}
    chains = chains_to_ask(workspace)
    with ThreadPoolExecutor(max_workers=max(1, len(chains))) as pool:
        heads = list(pool.map(lambda chain: _head(chain, told), chains))
    found = [
        _compared(names[chain.chain_id], chain.chain_id, records.get(chain.chain_id), head)
        for chain, head in zip(chains, heads, strict=True)
    ]
    return Freshness(
        chains=found, most_seconds=workspace.settings().index.max_lag if max_behind is None else max_behind
    )


def _head(chain: ChainConfig, limits: Any) -> tuple[int, int] | None:
    """Number and time of the chain's newest block; None if it does not answer."""
    from bridge.evm.rpc_answers import RpcError
    from indexer.sources.chain import ChainReader

    try:
        with ChainReader(chain, limits) as reader:
            head = reader.head()
    except RpcError:
        return None
    return head.number, head.time


def _compared(name: str, chain_id: int, record: ChainRecord | None, head: tuple[int, int] | None) -> ChainFreshness:
    if record is None:
        return ChainFreshness(name=name, chain_id=chain_id, record=None, head=head and head[0], blocks=None, seconds=0)
    if head is None:
        seconds = max(0, record.lag_seconds)
        return ChainFreshness(name=name, chain_id=chain_id, record=record, head=None, blocks=None, seconds=seconds)
    blocks, seconds = distance(record, *head)
    return ChainFreshness(name=name, chain_id=chain_id, record=record, head=head[0], blocks=blocks, seconds=seconds)
