"""Counts an idle relayer's HTTP requests to each chain, which should be one per block."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tests.anvil.idle_relayer import Idle, idle_relayer

_BLOCK_TIME: Final = 2  # seconds
_SECONDS: Final = 60


def measure(folder: Path) -> Idle:
    """Returns an idle relayer's requests to one chain in a minute, on a new devnet."""
    return idle_relayer(folder, block_time=_BLOCK_TIME, seconds=_SECONDS)


def sentence(idle: Idle) -> str:
    """Returns the result as a sentence."""
    return (
        f"{idle.an_hour(idle.requests):,.0f} HTTP requests an hour and chain, {idle.an_hour(idle.blocks):,.0f} blocks (goal: no"
        f" more than one each), {idle.cpu:.1%} of a core"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        print(sentence(measure(Path(name))))
