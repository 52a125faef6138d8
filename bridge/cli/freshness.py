"""Prints results from the index and the lake together with their age."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from bridge.cli.output import CliError, ExitCode, result
from bridge.cli.workspace import Workspace
from bridge.protocol.ports import Block
from bridge.protocol.times import iso, utc
from bridge.queries.index_lag import IndexLag
from bridge.service.connections import ask_chains

if TYPE_CHECKING:
    from indexer.pipeline.reading import AsOf
    from indexer.store.reader import IndexReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The index's lag on all chains of a network.

    Attributes:
        chains: the lag on each chain.
        max_lag: maximum lag in seconds of block time. An answer with a longer lag is inconclusive.
    """

    chains: Sequence[IndexLag]
    max_lag: int

    @property
    def behind(self) -> list[IndexLag]:
        """Returns the chains on which the index lags too far."""
        return [chain for chain in self.chains if chain.is_behind(self.max_lag)]

    def value(self) -> dict[str, Any]:
        """Returns the lags for JSON."""
        return {
            "behind": bool(self.behind),
            "maxBehindSeconds": self.max_lag,
            "chains": [chain.value(self.max_lag) for chain in self.chains],
        }

    @property
    def line(self) -> Text:
        """Returns the first line of an answer, which states the age."""
        verdict = "BEHIND, so this answer may be outdated or incomplete" if self.behind else "up to date"
        text = f"index  {verdict}: {'; '.join(chain.text for chain in self.chains)}"
        return Text(text, style="bold" if self.behind else "")

    def answer(
        self,
        value: dict[str, Any],
        *shown: RenderableType,
        failures: Sequence[str] = (),
        next_step: str | None = None,
    ) -> None:
        """Prints an answer from the index, preceded by its age.

        Raises:
            CliError: `failures` is not empty, or the index is behind.
        """
        result({"index": self.value(), **value}, self.line, *shown)
        self.require(failures, next_step)

    def require(self, failures: Sequence[str] = (), next_step: str | None = None) -> None:
        """Fails the command if it has failures or the index is behind.

        Raises:
            CliError: there are failures, or the index is behind.
        """
        texts = list(failures)
        if self.behind:
            texts.append(f"the index is behind: {'; '.join(chain.text for chain in self.behind)}")
        if failures:
            raise CliError("; ".join(texts), next_step=next_step)
        if texts:
            raise CliError(texts[0], code=ExitCode.BEHIND, next_step="waybill index run")


def freshness(
    workspace: Workspace,
    index: IndexReader,
    max_behind: int | None = None,
    heads: Mapping[int, Block] | None = None,
) -> Freshness:
    """Compares each chain's newest block with the last block that the index has read.

    Args:
        workspace: the network's workspace.
        index: the network's index.
        max_behind: maximum lag in seconds of block time; None uses the setting `index.max_lag`.
        heads: the newest blocks of the chains that respond; None queries the chains.
    """
    deployment, settings = workspace.deployment(), workspace.settings()
    if heads is None:
        heads, _ = asyncio.run(ask_chains(deployment, settings, lambda _, chain: chain.head()))
    records = {record.chain_id: record for record in index.chains()}
    lags = [
        IndexLag(
            name=chain.name,
            chain_id=chain.chain_id,
            record=records.get(chain.chain_id),
            head=heads.get(chain.chain_id),
        )
        for chain in deployment.chains
    ]
    return Freshness(chains=lags, max_lag=settings.index.max_lag if max_behind is None else max_behind)


def as_of_text(tables: AsOf | None) -> str:
    """Describes the time of the lake tables' last refresh."""
    if tables is None:
        return "were never refreshed: run `waybill index refresh`"
    return f"as of {utc(tables.refreshed_at)} UTC"


def as_of_value(tables: AsOf | None) -> dict[str, Any] | None:
    """Returns the time of the lake tables' last refresh, for JSON."""
    if tables is None:
        return None
    return {
        "refreshedAt": iso(tables.refreshed_at),
        "blocks": {str(chain): block for chain, block in tables.blocks.items()},
    }
