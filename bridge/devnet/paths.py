"""Where set-up puts what a devnet needs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
GMP_ARTIFACTS: Final = CHECKOUT / "build" / "gmp"
ANVIL: Final = CHECKOUT / "build" / "tools" / "bin" / "anvil"
