"""What attesters check before they sign."""

from __future__ import annotations

from bridge.domain.ports import Block, Chain, Dispatch, TransientError


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
