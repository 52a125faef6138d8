"""How many HTTP requests an idle relayer makes to each chain: it should be one for each block, and no more."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tests.anvil.idle_relayer import Idle, idle_relayer

_BLOCK_TIME: Final = 2  # seconds
_SECONDS: Final = 60


def measure(folder: Path) -> Idle:
    """What an idle relayer asks of one chain in a minute, on a devnet of its own."""
    return idle_relayer(folder, block_time=_BLOCK_TIME, seconds=_SECONDS)


def sentence(idle: Idle) -> str:
    """For people."""
    return (
        f"{idle.an_hour(idle.requests):,.0f} HTTP requests an hour and chain, {idle.an_hour(idle.blocks):,.0f} blocks (goal: no"
        f" more than one each), {idle.cpu:.1%} of a core"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        print(sentence(measure(Path(name))))
