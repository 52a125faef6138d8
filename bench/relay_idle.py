"""How many HTTP requests an idle relayer makes to each chain: it should be one for each block, and no more."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tests.anvil.idle_relayer import idle_relayer

BLOCK_TIME: Final = 2  # seconds
SECONDS: Final = 60

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        found = idle_relayer(Path(name), block_time=BLOCK_TIME, seconds=SECONDS)
    hourly = 3600 / SECONDS
    print(
        f"{found.requests * hourly:,.0f} HTTP requests an hour and chain, {found.blocks * hourly:,.0f} blocks, "
        f"{found.cpu:.1%} of a core"
    )
