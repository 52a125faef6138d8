"""Makes .venv contain exactly the packages in requirements.lock.

Runs under any Python >= 3.11 without installed packages.
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
    """Returns uv's entry of the lock file, with its hashes.

    Args:
        lock: Text of requirements.lock.

    Raises:
        SystemExit: the lock file lacks uv.
    """
    entry = re.search(r"^uv==\S+ \\\n(?:    --hash=\S+(?: \\)?\n)+", lock, re.MULTILINE)
    if entry is None:
        sys.exit(f"{LOCK.name} has no hashed entry for uv, which installs the rest. Restore the file from git.")
    return entry.group()


def create() -> None:
    """Creates a fresh .venv with pip and uv.

    Raises:
        SystemExit: .venv is a link, and clearing it would empty a shared environment.
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
    """Syncs .venv with the lock file.

    The stamp is removed first, so that an incomplete .venv is rebuilt rather than repaired.
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
