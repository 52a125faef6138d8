"""What the readers of GMPs' trust share; each stands in its GMP's folder, as `trust.READER`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from eth_utils.address import to_checksum_address

from bridge.domain.ports import Watch
from bridge.domain.trust import GmpEnds, GmpTrust
from bridge.evm.inspection import CHANGES, Inspector
from bridge.protocol.contracts import ADAPTER
from bridge.protocol.deployment import ChainDeployment


class BaseTrustReader(ABC):
    """Reads whom one GMP trusts; see `bridge.domain.trust.TrustReader`."""

    def __init__(self, inspectors: Mapping[int, Inspector]) -> None:
        """Reads the chains given, by id."""
        self._inspectors = inspectors

    @abstractmethod
    async def read(self, ends: GmpEnds) -> GmpTrust:
        """See `TrustReader.read`."""

    def _on(self, chain: ChainDeployment) -> Inspector:
        return self._inspectors[chain.chain_id]

    async def _transport(self, ends: GmpEnds) -> str:
        """The GMP's contract that the adapter on the destination believes: the chain says it, not a file."""
        return to_checksum_address(await self._on(ends.destination).read(ADAPTER, ends.adapter, "transport"))


def watch(addresses: Iterable[str], topics: Sequence[bytes] = ()) -> Watch:
    """Logs of changes: of owners and code, and those given."""
    return Watch(tuple(sorted(set(addresses))), (*CHANGES, *topics))
