"""Where a message of CCIP 1.6 stands beneath the root that oracles committed: leaf, tree, and the proof from both chains' logs.

An off-ramp takes a proof from anyone once a first execution has failed, or has not come in time.
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
_NO_LEAF: Final = b"\xff" * 32  # beside the last node of an odd layer
_WINDOW: Final = 2_000  # blocks of one question
_MOST_WINDOWS: Final = 500
_SKEW: Final = 300  # seconds by which two chains' clocks may differ


def leaf(message: CcipMessage, on_ramp: str) -> bytes:
    """The hash by which a message stands in a tree; it is the root of the tree that holds no other."""
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


def root_and_path(leaves: Sequence[bytes], place: int) -> tuple[bytes, list[bytes]]:
    """The root of a tree, and the hashes beside the way from one of its leaves up to it."""
    layer, path = list(leaves), []
    while len(layer) > 1:
        if len(layer) % 2:
            layer.append(_NO_LEAF)
        path.append(layer[place ^ 1])
        layer = [_parent(*layer[at : at + 2]) for at in range(0, len(layer), 2)]
        place //= 2
    return layer[0], path


def _parent(one: bytes, other: bytes) -> bytes:
    return keccak((1).to_bytes(32, "big") + min(one, other) + max(one, other))


@dataclass(frozen=True, slots=True)
class CommittedRoot:
    """A root on the destination, and the sequence numbers of the messages beneath it."""

    root: bytes
    first: int
    last: int


class CommitReader(DeploymentReader):
    """Finds a message's root in the destination's logs, and what else is beneath it in the source's."""

    async def find(self, dispatch: Dispatch) -> CommittedRoot | None:
        """The root over a message, or None if its oracles have committed none yet.

        Blocks of the destination are read from the time on at which the source's block was made.
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
        """The hashes beside a message's way up to its root.

        Raises:
            TransientError: the source's logs lack messages beneath the root, or make another root.
        """
        message, source = CcipMessage.of_dispatch(dispatch), self._deployment.chain(dispatch.source_chain)
        on_ramp = CcipContracts.of(source).on_ramp_v1
        found = await self._beneath(dispatch, source, committed)
        missing = [number for number in range(committed.first, committed.last + 1) if number not in found]
        if missing:
            raise TransientError(
                f"{source.name} has no log of CCIP messages {', '.join(map(str, missing))} to chain"
                f" {message.destination_selector}, beneath one root with {dispatch.transport_id}"
            )
        leaves = [leaf(found[number], on_ramp) for number in range(committed.first, committed.last + 1)]
        root, path = root_and_path(leaves, message.sequence - committed.first)
        if root != committed.root:
            raise TransientError(
                f"the CCIP messages {committed.first} to {committed.last} of {source.name} hash to 0x{root.hex()}, and"
                f" 0x{committed.root.hex()} is committed: is the node on the same chain as the oracles?"
            )
        return path

    async def _beneath(
        self, dispatch: Dispatch, source: ChainDeployment, committed: CommittedRoot
    ) -> dict[int, CcipMessage]:
        """The lane's messages with the root's numbers, by number: blocks are read from the dispatch's to both sides."""
        chain, own = self._chains[source.chain_id], CcipMessage.of_dispatch(dispatch)
        on_ramp, head = CcipContracts.of(source).on_ramp_v1, (await chain.head()).number
        found = {own.sequence: own}
        low = high = dispatch.block_number  # blocks from `low` to `high` are read

        async def read(first: int, last: int) -> None:
            for log in await chain.logs(first, last, [on_ramp], [MESSAGE_SENT]):
                message = CcipMessage.of_log(log, on_ramp)
                if message and message.destination_selector == own.destination_selector:
                    found[message.sequence] = message

        await read(low, high)
        for _ in range(_MOST_WINDOWS):
            earlier = min(found) > committed.first and low > 0
            later = max(found) < committed.last and high < head
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
        return found


async def _block_at(chain: Chain, deployed: ChainDeployment, timestamp: int, head: int) -> int:
    """The first block that is not older, from the deployment's first block on."""
    low, high = min(deployed.start_block, head), head
    while low < high:
        middle = (low + high) // 2
        block = await chain.block(middle)
        if block is not None and block.timestamp < timestamp:
            low = middle + 1
        else:
            high = middle
    return low
