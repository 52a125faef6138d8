"""Base for GMPs whose nodes write their attestations to the destination."""

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
    """Writes attestations to each destination from one account, one batch at a time.

    These GMPs process messages in order, so missing attestations before the requested one are written with it, as are
    those of
    later messages that were requested meanwhile.
    """

    ATTESTATION: ClassVar[bytes] = b""
    """Attestation that `attest` returns for a delivery."""

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain], account: LocalAccount) -> None:
        """Serves the chains of a deployment; `account` pays for the transactions."""
        super().__init__(deployment, chains)
        self._account = account
        self._turns: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # by destination
        self._newest: dict[tuple[int, int], int] = defaultdict(int)  # highest requested block by lane

    async def attest(self, dispatch: Dispatch) -> bytes:
        """Ensures that the attestation is on the destination.

        Raises:
            CallRevertedError: the GMP's contracts rejected the attestation.
            TransientError: the dispatch's block is no longer on its chain, or the write failed.
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
        """Queues the attestations of a lane up to block `newest`, including the dispatch's."""

    async def _logs(self, source: ChainDeployment, emitter: str, topic: bytes, first: int, last: int) -> list[Log]:
        return await self._chains[source.chain_id].logs(first, last, [emitter], [topic])


async def _send(deployer: Deployer) -> None:
    try:
        await deployer.send()
    except (DevnetError, TerminalError) as error:
        # Another process used the account first, or a reorg happened: the next attempt reads the new state.
        raise TransientError(str(error)) from error
