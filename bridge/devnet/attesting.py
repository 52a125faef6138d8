"""Shared parts of a devnet's attesters: confirming that a dispatch is on chain, and signing."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import ClassVar

from coincurve import PrivateKey
from eth_account.signers.local import LocalAccount

from bridge.gmps.base_adapter import DeploymentReader
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import Block, Chain, Dispatch, TransientError


class SigningAttester(DeploymentReader):
    """Attests with the keys of a GMP's own verifiers."""

    DEFAULT_SIGNERS: ClassVar[Sequence[LocalAccount]]
    """As many of the GMP's parties as must sign, in the order that the GMP requires."""

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], signers: Sequence[LocalAccount] | None = None
    ) -> None:
        """Creates an attester that signs with the given accounts, or with `DEFAULT_SIGNERS`."""
        super().__init__(deployment, chains)
        self._signers = self.DEFAULT_SIGNERS if signers is None else signers


async def confirm(chain: Chain, dispatch: Dispatch) -> Block:
    """Returns the block that contains a dispatch.

    Raises:
        TransientError: the chain does not have that block, because of a reorg or a lagging node.
    """
    block = await chain.block(dispatch.block_number)
    if block is None or block.hash != dispatch.block_hash:
        now = "missing" if block is None else f"0x{block.hash.hex()}"
        raise TransientError(
            f"block {dispatch.block_number} of chain {dispatch.source_chain} had hash 0x{dispatch.block_hash.hex()} "
            f"when message 0x{dispatch.message_id.hex()} was sent, but now has {now}; nothing was signed"
        )
    return block


def sign_digest(account: LocalAccount, digest: bytes) -> bytes:
    """Signs a 32-byte digest without a prefix. Returns r, s and v, where v is 27 or 28."""
    signature = _private_key(bytes(account.key)).sign_recoverable(digest, hasher=None)
    return signature[:64] + bytes([27 + signature[64]])


@functools.cache  # loading a key costs more than signing
def _private_key(key: bytes) -> PrivateKey:
    return PrivateKey(key)
