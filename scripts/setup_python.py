"""Makes .venv hold exactly the packages of requirements.lock.

Runs under any Python >= 3.11, needs nothing installed.
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"


def uv_requirement(lock: str) -> str:
    """Return uv's own entry of the lock file, with its hashes.

    Args:
        lock: text of requirements.lock.

    Raises:
        SystemExit: the lock file does not name uv.
    """
    entry = re.search(r"^uv==\S+ \\\n(?:    --hash=\S+(?: \\)?\n)+", lock, re.MULTILINE)
    if entry is None:
        sys.exit(f"{LOCK.name} has no hashed entry for uv, which installs the rest. Restore the file from git.")
    return entry.group()


def create() -> None:
    """Make a fresh .venv that holds pip and uv.

    Raises:
        SystemExit: .venv is a link. Clearing it would empty the environment that it leads to, which others may use.
    """
    if VENV.is_symlink():
        sys.exit(
            f".venv is a link to {VENV.resolve()}, which set-up will not clear. Remove the link, or run make there."
        )
    venv.create(VENV, clear=True, with_pip=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirement:
        requirement.write(uv_requirement(LOCK.read_text()))
        requirement.flush()
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*pip, "--requirement", requirement.name], check=True)


def main(stamp: Path) -> None:
    """Sync .venv with the lock file.

    The stamp goes first: without it .venv may be half made, and is rebuilt instead of being mended.
    """
    whole = stamp.exists() and (VENV / "bin" / "uv").exists()
    stamp.unlink(missing_ok=True)
    if not whole:
        create()
    uv = [str(VENV / "bin" / "uv"), "pip", "sync", "--python", str(PYTHON), "--require-hashes", str(LOCK)]
    subprocess.run(uv, check=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"Python packages could not be installed: {error}. See the lines above; then run make again.")
    except KeyboardInterrupt:
        sys.exit(130)
