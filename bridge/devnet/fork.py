"""A fork of a chain on this machine: any account can be spoken for, and anything be written. The chain itself hears nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.deploy.sending import MOST_GAS
from bridge.devnet import anvil
from bridge.devnet.anvil import AnvilProcess
from bridge.devnet.errors import DevnetError
from bridge.domain.ports import Call, Receipt
from bridge.evm.chain import EvmChain
from bridge.protocol.deployment import ChainDeployment, Deployment

_PLENTY: Final = 10**24  # wei
_INCLUSION_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Fork:
    """One fork, and a connection to it."""

    process: AnvilProcess
    chain: EvmChain

    async def send(self, sender: str, call: Call) -> Receipt:
        """Sends a transaction of an account without its key; the account gets the money for it.

        Raises:
            CallRevertedError: it would be refused.
            DevnetError: it failed, or no block includes it.
        """
        self.fund(sender)
        anvil.request(self.process, "anvil_impersonateAccount", sender)
        gas = call.gas
        if gas is None:
            needed = await self.chain.estimate_gas(call, sender)
            gas = max(needed, min(needed * 6 // 5, MOST_GAS))
        fields: dict[str, Any] = {"from": sender, "to": call.to, "data": f"0x{call.data.hex()}"}
        fields |= {"value": hex(call.value), "gas": hex(gas)}
        sent = anvil.request(self.process, "eth_sendTransaction", fields)
        return await self._included(bytes.fromhex(sent[2:]))

    def fund(self, account: str) -> None:
        """Gives an account more money than anything here costs."""
        anvil.request(self.process, "anvil_setBalance", account, hex(_PLENTY))

    def set_code(self, address: str, code: bytes) -> None:
        """Puts other code in the place of a contract's."""
        anvil.request(self.process, "anvil_setCode", address, f"0x{code.hex()}")

    def set_word(self, address: str, slot: int, word: bytes) -> None:
        """Writes 32 bytes of a contract's storage."""
        anvil.request(self.process, "anvil_setStorageAt", address, f"0x{slot:064x}", f"0x{word.hex()}")

    async def _included(self, transaction_hash: bytes) -> Receipt:
        now = asyncio.get_running_loop().time
        deadline = now() + _INCLUSION_SECONDS
        while (receipt := await self.chain.receipt(transaction_hash)) is None:
            if now() > deadline:
                raise DevnetError(f"no block of the fork of {self.process.name} includes what was sent")
            await asyncio.sleep(0.01)
        if not receipt.succeeded:
            raise DevnetError(f"a transaction failed on the fork of {self.process.name}")
        return receipt


@dataclass(frozen=True, slots=True)
class ForkedNetwork:
    """A deployment on forks of its chains."""

    deployment: Deployment
    forks: Mapping[int, Fork]  # by chain id

    @property
    def chains(self) -> dict[int, EvmChain]:
        """The forks' connections, by chain id."""
        return {chain_id: fork.chain for chain_id, fork in self.forks.items()}

    def on(self, chain: ChainDeployment) -> Fork:
        """The fork of a chain."""
        return self.forks[chain.chain_id]
