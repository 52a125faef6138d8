"""What the attesters of a devnet do alike: look that a dispatch stands, and sign."""

from __future__ import annotations

import functools

from coincurve import PrivateKey
from eth_account.signers.local import LocalAccount

from bridge.protocol.ports import Block, Chain, Dispatch, TransientError


async def confirm(chain: Chain, dispatch: Dispatch) -> Block:
    """The block that holds a dispatch.

    Raises:
        TransientError: that block is not part of the chain: it fell to a reorg, or the node is behind.
    """
    block = await chain.block(dispatch.block_number)
    if block is None or block.hash != dispatch.block_hash:
        now = "not there yet" if block is None else f"0x{block.hash.hex()} now"
        raise TransientError(
            f"block {dispatch.block_number} of chain {dispatch.source_chain} was 0x{dispatch.block_hash.hex()} when "
            f"0x{dispatch.message_id.hex()} was sent, and is {now}: nothing is signed"
        )
    return block


def sign_digest(account: LocalAccount, digest: bytes) -> bytes:
    """A signature of 32 bytes as they are: r, s, v with v 27 or 28."""
    signature = _opened(bytes(account.key)).sign_recoverable(digest, hasher=None)
    return signature[:64] + bytes([27 + signature[64]])


@functools.cache  # opening a key costs more than signing with it
def _opened(key: bytes) -> PrivateKey:
    return PrivateKey(key)
