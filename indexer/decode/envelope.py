"""The fixed part of envelopes, a column at a time (docs/formats.md, Envelope)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from bridge.protocol.message import ENVELOPE_VERSION, HEADER_LENGTH, Kind
from indexer.decode.abi import Rows, fixed_column, gather, to_uint64
from indexer.decode.hashes import keccak256
from indexer.decode.hexadecimal import Bytes, Integers

_FIELDS: Final = {
    "version": (0, 1),
    "message_id": (1, 32),
    "source_chain": (33, 8),
    "source_router": (41, 32),
    "sender": (73, 32),
    "nonce": (105, 8),
    "destination_chain": (113, 8),
    "destination_router": (121, 32),
    "recipient": (153, 32),
    "gas_limit": (185, 8),
    "sent_at": (193, 8),
    "ttl": (201, 4),
    "kind": (205, 1),
    "quorum": (206, 1),
    "replaces": (207, 32),
}
"""Byte offset and width of each field."""

_INTEGERS: Final = ("source_chain", "nonce", "gas_limit", "sent_at", "ttl", "kind", "quorum")
_WORDS: Final = ("source_router", "sender", "destination_router", "recipient", "replaces")


def envelope_columns(
    rows: Rows, starts: Integers, lengths: Integers, expected: dict[str, Bytes]
) -> dict[str, pa.Array]:
    """What the envelopes say; one that can't be right puts an error on its row.

    Args:
        rows: the logs that the envelopes are in.
        starts: where in the flat data each envelope begins.
        lengths: bytes of each.
        expected: fields that the log itself states, which the envelope must repeat.

    Returns:
        A column per field that is not in `expected`, and `payload_hash`.
    """
    whole = lengths >= HEADER_LENGTH
    rows.refuse(~whole, f"the envelope has fewer than {HEADER_LENGTH} bytes")
    header = gather(rows.data, starts, HEADER_LENGTH, whole)
    fields = {name: header[:, offset : offset + width] for name, (offset, width) in _FIELDS.items()}
    rows.refuse(fields["version"][:, 0] != ENVELOPE_VERSION, f"the envelope's version is not {ENVELOPE_VERSION}")
    rows.refuse(fields["kind"][:, 0] > max(Kind), "the envelope's kind is unknown")
    for name, values in expected.items():
        width = _FIELDS[name][1]
        rows.refuse((fields[name] != values[:, -width:]).any(axis=1), f"the envelope states another {name}")
    columns = {name: pa.array(_integers(fields[name])) for name in _INTEGERS if name not in expected}
    columns |= {name: fixed_column(fields[name]) for name in _WORDS if name not in expected}
    columns["payload_hash"] = _payload_hashes(rows.data, starts, lengths)
    return columns


def _integers(field: Bytes) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    padded = np.zeros((len(field), 8), np.uint8)
    padded[:, 8 - field.shape[1] :] = field
    return to_uint64(padded)


def _payload_hashes(data: Bytes, starts: Integers, lengths: Integers) -> pa.Array:
    whole = lengths >= HEADER_LENGTH
    hashes = keccak256(data, starts[whole] + HEADER_LENGTH, lengths[whole] - HEADER_LENGTH)
    if whole.all():
        return fixed_column(hashes)
    places = np.where(whole, np.cumsum(whole) - 1, 0)
    return fixed_column(hashes).take(pa.array(places, mask=~whole))
