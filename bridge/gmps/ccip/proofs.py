"""Merkle proofs of CCIP 1.6 messages, built from both chains' logs.

After a failed or overdue first execution, an off-ramp accepts a proof from anyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eth_abi.abi import encode
from eth_utils import keccak

from bridge.gmps.base_adapter import DeploymentReader, read_event
from bridge.gmps.ccip.adapter import MESSAGE_SENT, CcipContracts, CcipMessage
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import topic
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.ports import Chain, Dispatch, TransientError

_ROOT: Final = "(uint64,bytes,uint64,uint64,bytes32)"
_COMMITTED: Final = (f"{_ROOT}[]", f"{_ROOT}[]", "((address,uint224)[],(uint64,uint224)[])")
_ACCEPTED: Final = topic(f"CommitReportAccepted({','.join(_COMMITTED)})")

_TOKENS: Final = "(bytes,address,uint32,bytes,uint256)[]"
_NO_LEAF: Final = b"\xff" * 32  # pads an odd layer
_WINDOW: Final = 2_000  # blocks per request
_MAX_WINDOWS: Final = 500
_SKEW: Final = 300  # seconds, tolerated between two chains' clocks


def leaf(message: CcipMessage, on_ramp: str) -> bytes:
    """Returns a message's leaf hash, which is also the root of a tree with this message alone."""
    (message_id, source, destination, sequence, nonce), sender, data, receiver, gas_limit, tokens = message.to_tuple()
    metadata = encode(
        ["bytes32", "uint64", "uint64", "bytes32"],
        [keccak(text="Any2EVMMessageHashV1"), source, destination, keccak(to_bytes32(on_ramp))],
    )
    fixed = encode(
        ["bytes32", "address", "uint64", "uint256", "uint64"], [message_id, receiver, sequence, gas_limit, nonce]
    )
    parts = [metadata, fixed, sender, data, encode([_TOKENS], [tokens])]
    return keccak(bytes(32) + b"".join(keccak(part) for part in parts))


def root_and_path(leaves: Sequence[bytes], index: int) -> tuple[bytes, list[bytes]]:
    """Returns the root of a tree, and the sibling hashes from the leaf at index `place` up to the root."""
    layer, path = list(leaves), []
    while len(layer) > 1:
        if len(layer) % 2:
            layer.append(_NO_LEAF)
        path.append(layer[index ^ 1])
        layer = [_parent(*layer[at : at + 2]) for at in range(0, len(layer), 2)]
        index //= 2
    return layer[0], path


def _parent(left: bytes, right: bytes) -> bytes:
    return keccak((1).to_bytes(32, "big") + min(left, right) + max(left, right))


@dataclass(frozen=True, slots=True)
class CommittedRoot:
    """A root on the destination, with the range of sequence numbers that it covers."""

    root: bytes
    first: int
    last: int


class CommitReader(DeploymentReader):
    """Finds a message's root in the destination's logs, and the messages that it covers in the source's."""

    async def find(self, dispatch: Dispatch) -> CommittedRoot | None:
        """Returns the root that covers a message, or None if the oracles have not committed it yet.

        Reads the destination's blocks from the time of the source's block on.
        """
        message, destination = CcipMessage.of_dispatch(dispatch), self._deployment.chain(dispatch.destination_chain)
        off_ramp, chain = CcipContracts.of(destination).off_ramp_v1, self._chains[dispatch.destination_chain]
        sent = await self._chains[dispatch.source_chain].block(dispatch.block_number)
        head = (await chain.head()).number
        since = 0 if sent is None else sent.timestamp - _SKEW
        for first in range(await _block_at(chain, destination, since, head), head + 1, _WINDOW):
            for log in await chain.logs(first, min(first + _WINDOW - 1, head), [off_ramp], [_ACCEPTED]):
                blessed, others, _ = read_event(log, off_ramp, _ACCEPTED, _COMMITTED, indexed=0) or ((), (), ())
                for source, _, lowest, highest, root in (*blessed, *others):
                    if source == message.source_selector and lowest <= message.sequence <= highest:
                        return CommittedRoot(root, lowest, highest)
        return None

    async def prove(self, dispatch: Dispatch, committed: CommittedRoot) -> list[bytes]:
        """Returns the sibling hashes from a message up to its root.

        Raises:
            TransientError: the source's logs lack messages that the root covers, or hash to another root.
        """
        message, source = CcipMessage.of_dispatch(dispatch), self._deployment.chain(dispatch.source_chain)
        on_ramp = CcipContracts.of(source).on_ramp_v1
        messages = await self._covered(dispatch, source, committed)
        missing = [number for number in range(committed.first, committed.last + 1) if number not in messages]
        if missing:
            raise TransientError(
                f"{source.name} has no log of CCIP messages {', '.join(map(str, missing))} to chain"
                f" {message.destination_selector}, which share a root with {dispatch.transport_id}"
            )
        leaves = [leaf(messages[number], on_ramp) for number in range(committed.first, committed.last + 1)]
        root, path = root_and_path(leaves, message.sequence - committed.first)
        if root != committed.root:
            raise TransientError(
                f"the CCIP messages {committed.first} to {committed.last} of {source.name} hash to 0x{root.hex()}, but the"
                f" committed root is 0x{committed.root.hex()}; check that the endpoints follow the same chain as the oracles"
            )
        return path

    async def _covered(
        self, dispatch: Dispatch, source: ChainDeployment, committed: CommittedRoot
    ) -> dict[int, CcipMessage]:
        """Returns the messages that the root covers by sequence number, reading blocks outward from the dispatch."""
        chain, own = self._chains[source.chain_id], CcipMessage.of_dispatch(dispatch)
        on_ramp, head = CcipContracts.of(source).on_ramp_v1, (await chain.head()).number
        messages = {own.sequence: own}
        low = high = dispatch.block_number  # range of blocks already read

        async def read(first: int, last: int) -> None:
            for log in await chain.logs(first, last, [on_ramp], [MESSAGE_SENT]):
                message = CcipMessage.of_log(log, on_ramp)
                if message and message.destination_selector == own.destination_selector:
                    messages[message.sequence] = message

        await read(low, high)
        for _ in range(_MAX_WINDOWS):
            earlier = min(messages) > committed.first and low > 0
            later = max(messages) < committed.last and high < head
            if not earlier and not later:
                break
            if earlier:
                first = max(low - _WINDOW, 0)
                await read(first, low - 1)
                low = first
            if later:
                last = min(high + _WINDOW, head)
                await read(high + 1, last)
                high = last
        return messages


async def _block_at(chain: Chain, deployed: ChainDeployment, timestamp: int, head: int) -> int:
    """Returns the first block with at least `timestamp`, searching from the deployment's first block."""
    low, high = min(deployed.start_block, head), head
    while low < high:
        middle = (low + high) // 2
        block = await chain.block(middle)
        if block is not None and block.timestamp < timestamp:
            low = middle + 1
        else:
            high = middle
    return low
