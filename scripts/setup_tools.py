"""Links forge, anvil, cast and solc into build/tools/bin, so that all scripts use the same native binaries.

Foundry on PATH is preferred if it is new enough.
"""

import os
import subprocess
import sys
from pathlib import Path

from bridge.devnet import fetch

ROOT = Path(__file__).resolve().parents[1]
LINKS = ROOT / "build" / "tools" / "bin"
FOUNDRY_TOOLS = ("forge", "anvil", "cast")
SOLC_VERSION = "0.8.34"


class ToolMissingError(Exception):
    """A tool is neither installed nor among the npm packages."""


def find_foundry(tool: str, path: str | None = None) -> Path:
    """Returns a Foundry binary from PATH or, failing that, from node_modules.

    Args:
        tool: "forge", "anvil" or "cast".
        path: Search path; None uses `PATH`.

    Raises:
        ToolMissingError: no binary runs on this machine.
    """
    packaged = sorted((ROOT / "node_modules" / "@foundry-rs").glob(f"{tool}-*/bin/{tool}"))
    found = fetch.find_foundry(tool, packaged, path)
    if found is None:
        raise ToolMissingError(fetch.no_foundry(tool, "for this platform in node_modules"))
    return found


def find_solc() -> tuple[Path, str]:
    """Returns the compiler and its kind: the native compiler if py-solc-x installed it, otherwise the WebAssembly one.

    py-solc-x itself is not used, because it creates a folder in the home directory, which may not be writable.
    """
    folder = Path(os.environ.get("SOLCX_BINARY_PATH") or Path.home() / ".solcx")
    native = folder / f"solc-v{SOLC_VERSION}"
    if native.exists():
        return native, "native, from py-solc-x"
    return ROOT / "scripts" / "solc-wasm", "WebAssembly, from npm"


def version_line(name: str) -> str:
    """Returns the line of `<tool> --version` with the version."""
    answer = subprocess.run(
        [str(LINKS / name), "--version"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    return next(line for line in answer.splitlines() if "ersion" in line)


def main() -> None:
    """Creates the links and prints the tools' versions."""
    LINKS.mkdir(parents=True, exist_ok=True)
    for tool in FOUNDRY_TOOLS:
        binary = find_foundry(tool)
        fetch.link(binary, LINKS / tool)
        origin = "npm package" if binary.is_relative_to(ROOT) else str(binary)
        print(f"  {version_line(tool)} ({origin})", flush=True)
    compiler, how = find_solc()
    fetch.link(compiler, LINKS / "solc")
    answer = version_line("solc")
    if f"Version: {SOLC_VERSION}+" not in answer:
        raise ToolMissingError(f"solc: {compiler} printed {answer!r}, expected {SOLC_VERSION}. Run: make clean setup")
    print(f"  solc {answer} ({how})", flush=True)


if __name__ == "__main__":
    try:
        main()
    except ToolMissingError as error:
        sys.exit(str(error))
