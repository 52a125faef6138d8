"""Paths of the devnet's tools and contracts, in a checkout's build folder or else in the user's cache folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bridge.deploy.artifacts import CHECKOUT, is_checkout
from bridge.protocol.environment import cache_folder

IS_CHECKOUT: Final = is_checkout()
_HOME: Final[Path] = CHECKOUT / "build" if IS_CHECKOUT else cache_folder()
GMP_ARTIFACTS: Final = _HOME / "gmp"
ANVIL: Final = _HOME / "tools" / "bin" / "anvil"
