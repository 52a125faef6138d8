"""Encodes the options of the source `evm` as text, to pass them to Spark's processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from bridge.evm.endpoint_policy import EndpointPolicy
from indexer.decode.events import Emitters
from indexer.model.settings import SourceLimits
from indexer.sources.chain import ChainConfig
from indexer.sources.position import ChainPosition


def encode_chains(chains: Sequence[ChainConfig]) -> str:
    """Encodes chains."""
    documents = [
        {
            "chainId": chain.chain_id,
            "urls": chain.urls,
            "startBlock": chain.start_block,
            "router": chain.emitters.router.hex(),
            "adapters": sorted(address.hex() for address in chain.emitters.adapters),
            "endpoints": asdict(chain.endpoints),
        }
        for chain in chains
    ]
    return orjson.dumps(documents).decode()


def decode_chains(text: str) -> list[ChainConfig]:
    """Decodes chains."""
    return [
        ChainConfig(
            chain_id=document["chainId"],
            urls=tuple(document["urls"]),
            start_block=document["startBlock"],
            emitters=Emitters(
                chain_id=document["chainId"],
                router=bytes.fromhex(document["router"]),
                adapters=frozenset(map(bytes.fromhex, document["adapters"])),
            ),
            endpoints=EndpointPolicy(**document["endpoints"]),
        )
        for document in orjson.loads(text)
    ]


def encode_limits(limits: SourceLimits) -> str:
    """Encodes limits."""
    return orjson.dumps(asdict(limits)).decode()


def decode_limits(text: str) -> SourceLimits:
    """Decodes limits."""
    return SourceLimits(**orjson.loads(text))


def encode_positions(positions: Mapping[int, ChainPosition]) -> dict[str, Any]:
    """Encodes positions as Spark's offset."""
    return {str(chain): position.to_json() for chain, position in positions.items()}


def decode_positions(document: Mapping[str, Any]) -> dict[int, ChainPosition]:
    """Decodes Spark's offset."""
    return {int(chain): ChainPosition.from_json(position) for chain, position in document.items()}
