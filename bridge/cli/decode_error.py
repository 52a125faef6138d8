"""`waybill decode-error`: decodes the revert data of a contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.output import CliError, ExitCode, UsageError, facts, result
from bridge.protocol.contracts import Revert, decode_revert


def decode_error(
    data: Annotated[str, typer.Argument(help="Revert data of a call or transaction: 0x and hex digits.")],
) -> None:
    """Explain a revert from one of Waybill's or a GMP's contracts, with nested reasons, and say what to do.

    Example: waybill decode-error 0x73730dd2
    """
    revert_data = options.hex_bytes(data, "revert data")
    if len(revert_data) < 4:
        raise UsageError(
            f"{data!r} is only {len(revert_data)} bytes, too short for a custom error (at least 4); a call that reverts "
            "without a reason returns no data, so there is nothing to decode"
        )
    revert = decode_revert(revert_data)
    if revert is None:
        raise CliError(
            f"{data[:10]} is not an error of Waybill or of a GMP: it is an error of the recipient, or not revert data",
            code=ExitCode.UNKNOWN_ID,
            next_step="look up the first four bytes in the recipient's ABI",
        )
    result(asdict(revert), *(facts(_described(found, depth)) for depth, found in _nested(revert)))


def _nested(revert: Revert, depth: int = 0) -> Iterator[tuple[int, Revert]]:
    yield depth, revert
    for inner in revert.inner:
        yield from _nested(inner, depth + 1)


def _described(revert: Revert, depth: int) -> dict[str, str]:
    described = {"in it" if depth else "error": revert.text, "of": ", ".join(revert.by)}
    return described | {name: text for name, text in (("means", revert.meaning), ("do", revert.advice)) if text}
