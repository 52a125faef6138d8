"""Finds promtool, which checks alert rules: on PATH, or else from a Debian package unpacked into build/tools/prometheus."""

from __future__ import annotations

import fcntl
import shutil
import sys
from pathlib import Path

from scripts.debian import PackageMissingError, unpack

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "tools" / "prometheus"
PROMTOOL = HOME / "root" / "usr" / "bin" / "promtool"
HOW_TO_GET = "Debian: apt install prometheus. Elsewhere put promtool on PATH."


class PromtoolMissingError(Exception):
    """There is no promtool here, and none can be fetched."""


def find_promtool() -> Path:
    """Return promtool, fetching it if there is none.

    Raises:
        PromtoolMissingError: neither this machine nor its Debian mirror has it.
    """
    found = shutil.which("promtool")
    if found is not None:
        return Path(found)
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with HOME.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one fetches, whoever else asks meanwhile waits for it
        if not PROMTOOL.exists():
            print("fetching promtool from the Debian mirror (about 20 MB, once)", file=sys.stderr, flush=True)
            try:
                unpack("prometheus", HOME, with_dependencies=False)
            except PackageMissingError as error:
                raise PromtoolMissingError(f"promtool is missing: {error}\n{HOW_TO_GET}") from error
    return PROMTOOL


if __name__ == "__main__":
    try:
        print(find_promtool())
    except PromtoolMissingError as error:
        sys.exit(str(error))
