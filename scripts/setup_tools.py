"""Links forge, anvil, cast and solc into build/tools/bin, so that everyone calls the same native binaries.

Foundry on PATH is preferred when it is new enough. The launchers of Foundry's npm packages are never used: they swallow
exit codes (a failing `forge test` returns 0) and leave the real process running when they are killed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINKS = ROOT / "build" / "tools" / "bin"
FOUNDRY_TOOLS = ("forge", "anvil", "cast")
OLDEST_FOUNDRY = (1, 7)
NEXT_FOUNDRY = (2, 0)
SOLC_VERSION = "0.8.34"
NATIVE_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")  # Linux; macOS; macOS, two architectures


class ToolMissingError(Exception):
    """A tool can neither be found on this machine nor among the npm packages."""


def is_native(binary: Path) -> bool:
    """Tell whether a file is an executable of the operating system, and not a launcher script."""
    with binary.open("rb") as file:
        return file.read(4) in NATIVE_MAGIC


def foundry_version(binary: Path) -> tuple[int, int] | None:
    """Return (major, minor) of a Foundry binary, or None if it does not run or does not say."""
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"Version:? (\d+)\.(\d+)\.", answer)
    return (int(found[1]), int(found[2])) if found else None


def is_supported(binary: Path) -> bool:
    """Tell whether a Foundry binary is native, runs, and is of a version this project works with."""
    if not is_native(binary):
        return False
    version = foundry_version(binary)
    return version is not None and OLDEST_FOUNDRY <= version < NEXT_FOUNDRY


def find_foundry(tool: str, path: str | None = None) -> Path:
    """Find one Foundry binary, on PATH or else in node_modules.

    Args:
        tool: "forge", "anvil" or "cast".
        path: the search path, `PATH` if None.

    Raises:
        ToolMissingError: neither place has one that runs on this machine.
    """
    on_path = shutil.which(tool, path=path)
    if on_path is not None and is_supported(Path(on_path).resolve()):
        return Path(on_path).resolve()
    for packaged in (ROOT / "node_modules" / "@foundry-rs").glob(f"{tool}-*/bin/{tool}"):
        if is_supported(packaged):
            return packaged
    oldest = ".".join(map(str, OLDEST_FOUNDRY))
    raise ToolMissingError(
        f"{tool}: no native {tool} >= {oldest} on PATH, and none for this platform in node_modules. "
        "Install Foundry (foundryup, https://getfoundry.sh) and run make again."
    )


def find_solc() -> tuple[Path, str]:
    """Return the compiler and how it is run: the native one if py-solc-x installed it, else the WebAssembly one.

    py-solc-x itself is not asked: it makes its folder in the home, which may not be writable.
    """
    folder = Path(os.environ.get("SOLCX_BINARY_PATH") or Path.home() / ".solcx")
    native = folder / f"solc-v{SOLC_VERSION}"
    if native.exists():
        return native, "native, from py-solc-x"
    return ROOT / "scripts" / "solc-wasm", "WebAssembly, from npm"


def link(name: str, target: Path) -> None:
    """Point build/tools/bin/<name> at a binary, in one step."""
    fresh = LINKS / f".{name}.new"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(LINKS / name)


def version_line(name: str) -> str:
    """Return the line of `<tool> --version` that carries the version."""
    answer = subprocess.run(
        [str(LINKS / name), "--version"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    return next(line for line in answer.splitlines() if "ersion" in line)


def main() -> None:
    """Make the links and say which tool each is."""
    LINKS.mkdir(parents=True, exist_ok=True)
    for tool in FOUNDRY_TOOLS:
        binary = find_foundry(tool)
        link(tool, binary)
        origin = "npm package" if binary.is_relative_to(ROOT) else str(binary)
        print(f"  {version_line(tool)} ({origin})", flush=True)
    compiler, how = find_solc()
    link("solc", compiler)
    answer = version_line("solc")
    if f"Version: {SOLC_VERSION}+" not in answer:
        raise ToolMissingError(f"solc: {compiler} answers {answer!r}, not {SOLC_VERSION}. Run: make clean setup")
    print(f"  solc {answer} ({how})", flush=True)


if __name__ == "__main__":
    try:
        main()
    except ToolMissingError as error:
        sys.exit(str(error))
