"""Finds Chromium for the browser tests, on PATH or else as Debian packages unpacked into build/tools/chromium.

Prints the path of a program that starts it. Nothing is installed system-wide, and no root privileges are needed.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
from pathlib import Path

from scripts.debian import PackageMissingError, unpack, write_launcher

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "tools" / "chromium"
LAUNCHER = HOME / "chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW_TO_GET = "Debian: apt install chromium. Elsewhere put chromium or google-chrome on PATH."


class ChromiumMissingError(Exception):
    """Chromium is neither installed nor available from the mirror."""


def find_chromium(path: str | None = None) -> Path:
    """Returns Chromium's path, fetching it if necessary.

    Args:
        path: Search path; None uses `PATH`.

    Raises:
        ChromiumMissingError: neither this machine nor its Debian mirror has Chromium.
    """
    for name in NAMES:
        found = shutil.which(name, path=path)
        if found is not None:
            return Path(found)
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with HOME.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one fetches, and other callers wait for it
        if not LAUNCHER.exists():
            fetch()
    return LAUNCHER


def fetch() -> None:
    """Unpacks Chromium and its missing dependencies into build/tools/chromium."""
    print("fetching Chromium from the Debian mirror (about 100 MB, once)", file=sys.stderr, flush=True)
    try:
        root = unpack("chromium", HOME, with_dependencies=True)
        write_launcher(LAUNCHER, root / "usr" / "lib" / "chromium" / "chromium", root)
    except PackageMissingError as error:
        raise ChromiumMissingError(f"Chromium is missing: {error}\n{HOW_TO_GET}") from error


if __name__ == "__main__":
    try:
        print(find_chromium())
    except ChromiumMissingError as error:
        sys.exit(str(error))
