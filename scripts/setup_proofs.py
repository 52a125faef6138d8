"""Installs halmos and slither into build/tools/proofs, apart from .venv, because their dependencies conflict."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-proofs.lock"
PROVERS = ROOT / "build" / "tools" / "proofs" / "bin"
"""Where halmos, slither and yices-smt2, the solver, are found after set-up."""


def main() -> None:
    """Recreates the environment and installs exactly the locked packages."""
    uv = str(ROOT / ".venv" / "bin" / "uv")
    environment = PROVERS.parent
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(environment)], check=True)
    command = [uv, "pip", "sync", "--quiet", "--python", str(PROVERS / "python"), "--require-hashes", str(LOCK)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"halmos and slither could not be installed: {error}. See the lines above; then run make again.")
