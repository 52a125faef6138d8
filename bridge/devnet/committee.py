"""GMPs whose nodes write their attestations to the destination, where the deliverer finds them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar

from eth_account.signers.local import LocalAccount

from bridge.devnet.attesting import confirm
from bridge.devnet.deployer import Deployer
from bridge.devnet.errors import DevnetError
from bridge.gmps.base_adapter import DeploymentReader
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.ports import Chain, Dispatch, Log, TerminalError, TransientError


class Committee(DeploymentReader, ABC):
    """Writes to each destination from one account of its own, one batch after the other.

    Such GMPs take messages in the order in which they were sent: what is missing before one that is asked for is written
    along with it, and so is what came after it, as far as it was asked for too.
    """

    ATTESTATION: ClassVar[bytes] = b""
    """What a delivery needs besides."""

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain], account: LocalAccount) -> None:
        """Serves the chains of a deployment; `account` pays there."""
        super().__init__(deployment, chains)
        self._account = account
        self._turns: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # by destination
        self._newest: dict[tuple[int, int], int] = defaultdict(int)  # by lane: the highest block that was asked for

    async def attest(self, dispatch: Dispatch) -> bytes:
        """Sees to it that the attestation stands on the destination.

        Raises:
            CallRevertedError: the GMP's contracts refuse what the nodes signed.
            TransientError: the dispatch's block is not on its chain any more, or nothing could be written.
        """
        await confirm(self._chains[dispatch.source_chain], dispatch)
        lane = (dispatch.source_chain, dispatch.destination_chain)
        self._newest[lane] = max(self._newest[lane], dispatch.block_number)
        async with self._turns[dispatch.destination_chain]:
            if not await self._is_written(dispatch):
                deployer = await Deployer.on(self._chains[dispatch.destination_chain], self._account)
                await self._write(deployer, dispatch, self._newest[lane])
                await _send(deployer)
        return self.ATTESTATION

    @abstractmethod
    async def _is_written(self, dispatch: Dispatch) -> bool: ...

    @abstractmethod
    async def _write(self, deployer: Deployer, dispatch: Dispatch, newest: int) -> None:
        """Queues what brings a dispatch's attestation to its destination, and those of its lane up to a block."""

    async def _logs(self, source: ChainDeployment, emitter: str, topic: bytes, first: int, last: int) -> list[Log]:
        return await self._chains[source.chain_id].logs(first, last, [emitter], [topic])


async def _send(deployer: Deployer) -> None:
    try:
        await deployer.send()
    except (DevnetError, TerminalError) as error:
        # Another process with the same account was faster, or a reorg came between: the next try sees what is there.
        raise TransientError(str(error)) from error
