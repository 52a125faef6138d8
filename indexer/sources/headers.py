"""Block headers of one chain, and the last block that it calls final.

The relayer's rule (`bridge.domain.finality`) is another one: it acts on blocks after the confirmations of the deployments file.
The lake can't take anything back, so here the chain's tag `finalized` decides, and a depth only where a node does not know that tag.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from indexer.decode.hexadecimal import HexError, fixed_width, quantity
from indexer.sources.answers import RefusedError, TransientRpcError, UnknownBlockError, parsed_result
from indexer.sources.position import Header
from indexer.sources.rpc import ChainRpc


class Headers:
    """Asks a chain for headers; every answer is checked to be the block that was asked for."""

    def __init__(self, rpc: ChainRpc, finality_depth: int) -> None:
        """Reads through `rpc`; `finality_depth` blocks stand for finality where a node does not know the tag."""
        self._rpc = rpc
        self._finality_depth = finality_depth
        self._knows_finalized = True

    def head(self) -> Header:
        """The newest block.

        Raises:
            RpcError: no endpoint says which it is.
        """
        return self._rpc.call_and_read(_read_header, "eth_getBlockByNumber", "latest", False)

    def newest(self) -> tuple[Header, Header | None]:
        """The newest block, and the last one that the chain calls final, by one HTTP request; None if there is none.

        Raises:
            RpcError: no endpoint says which they are.
        """
        if self._knows_finalized:
            try:
                head, final = self._rpc.batch("eth_getBlockByNumber", [["latest", False], ["finalized", False]])
            except RefusedError:  # in the words and with the code of a wrong method, tag or argument
                self._knows_finalized = False
            else:
                return header_of(head), None if final is None else header_of(final)
        newest = self.head()
        return newest, self.final(newest)

    def at(self, number: int, *, final: bool = False) -> Header:
        """The block at that height on the chain as it is now.

        Args:
            number: its height.
            final: whether it is known to be final, so that a node that does not have it lags behind.

        Raises:
            UnknownBlockError: there is none.
        """
        return _expected(
            number, self._rpc.call_and_read(_read_header, "eth_getBlockByNumber", hex(number), False, final=final)
        )

    def between(self, first: int, last: int, known: Header) -> list[Header]:
        """Blocks `first`…`last` on the chain as it is now; `known` is not asked for again.

        Raises:
            UnknownBlockError: one of them is not there, or they do not follow one another: the chain is changing.
        """
        headers = self.of([number for number in range(first, last + 1) if number != known.number])
        headers += [known] if known.number == last else []
        for parent, child in itertools.pairwise(headers):
            if child.parent_hash != parent.hash:
                raise UnknownBlockError(f"block {child.number} does not follow the block {parent.number} read with it")
        return headers

    def of(self, numbers: Sequence[int]) -> list[Header]:
        """The blocks at those heights.

        Raises:
            UnknownBlockError: one of them is not there.
        """
        blocks = self._rpc.batch("eth_getBlockByNumber", [[hex(number), False] for number in numbers])
        return [_expected(number, header_of(block)) for number, block in zip(numbers, blocks, strict=True)]

    def final(self, head: Header) -> Header | None:
        """The last block that the chain calls final, or None if there is none."""
        if self._knows_finalized:
            try:
                return self._rpc.call_and_read(_read_header, "eth_getBlockByNumber", "finalized", False)
            except UnknownBlockError:
                return None
            except RefusedError:  # in the words and with the code of a wrong method, tag or argument
                self._knows_finalized = False
        number = head.number - self._finality_depth
        return self.at(number) if number >= 0 else None


def _bloom(text: Any) -> bytes:
    """The filter of a block's logs, or nothing where the endpoint gives none: it only spares requests."""
    try:
        return fixed_width([text], 256).tobytes()
    except (HexError, TypeError):
        return b""


def _expected(number: int, header: Header) -> Header:
    if header.number != number:
        raise TransientRpcError(f"asked for block {number} and got block {header.number}")
    return header


def _read_header(body: bytes, request_id: int, where: str) -> Header:
    return header_of(parsed_result(body, request_id, where))


def header_of(block: Any) -> Header:
    """The header in an answer to `eth_getBlockByNumber`.

    Raises:
        UnknownBlockError: there is none.
        TransientRpcError: a field is missing, or wrong.
    """
    if block is None:
        raise UnknownBlockError("the endpoint does not have the block asked for")
    try:
        hash_, parent = fixed_width([block["hash"], block["parentHash"]], 32)
        return Header(
            number=quantity(block["number"]),
            hash=hash_.tobytes(),
            parent_hash=parent.tobytes(),
            time=quantity(block["timestamp"]),
            bloom=_bloom(block.get("logsBloom")),
        )
    except (HexError, KeyError, TypeError) as error:
        raise TransientRpcError(f"a block header has a missing or wrong field: {error}") from error
