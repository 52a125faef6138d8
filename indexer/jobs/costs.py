"""Asks the chains what transactions cost: the one thing in a report that the index does not know itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from indexer.costs import Costs, TransactionCost
from indexer.settings import SourceLimits
from indexer.sources.chain import ChainConfig, ChainReader

_USUAL: Final = SourceLimits()


def costs_of(
    chains: Sequence[ChainConfig], transactions: Mapping[int, Sequence[bytes]], *, limits: SourceLimits = _USUAL
) -> Costs:
    """What transactions cost.

    Args:
        chains: where they are.
        transactions: by chain; of chains that are not in `chains` nothing is known.
        limits: how to read the chains.

    Raises:
        RpcError: a chain gives no usable answer.
    """
    found: dict[tuple[int, bytes], TransactionCost] = {}
    for chain in chains:
        with ChainReader(chain, limits) as reader:
            costs = reader.costs(transactions.get(chain.chain_id, ()))
            found |= {(chain.chain_id, transaction): cost for transaction, cost in costs.items()}
    return found
