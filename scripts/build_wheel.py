"""hatchling's build hook: compiles the contracts, and checks that the explorer's script is built."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Compile(BuildHookInterface):  # type: ignore[type-arg]  # generic in a builder that hatchling does not name
    """Adds the compiled contracts to the wheel. An editable installation compiles them on deployment."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  # hatchling's signature
        """See `BuildHookInterface`."""
        if version == "editable":
            return
        # Beside this file is the source that is built; another one may be installed here.
        sys.path.insert(0, self.root)
        from bridge.deploy.artifacts import ForgeError, compile_contracts  # noqa: PLC0415

        if not (Path(self.root) / "bridge" / "web" / "static" / "explorer.js").exists():
            sys.exit("the explorer's script is not built: run `make setup`, then `make dist`")
        try:
            asyncio.run(compile_contracts())
        except ForgeError as error:
            sys.exit(str(error))
