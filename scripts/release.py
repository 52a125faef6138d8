"""Compiles the contracts for deployment (profile `release` of foundry.toml) into build/release.

python -m scripts.release
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORGE = ROOT / "build" / "tools" / "bin" / "forge"
OUT = ROOT / "build" / "release" / "out"
ROUTER = OUT / "Router.sol" / "Router.json"


def compile_release() -> None:
    """Brings the artifacts up to date.

    Raises:
        SystemExit: the contracts do not compile; the compiler's output is shown.
    """
    environment = {**os.environ, "FOUNDRY_PROFILE": "release"}
    done = subprocess.run(
        [str(FORGE), "build", "--quiet"], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise SystemExit("the contracts do not compile with the profile `release`; the reason is above")


if __name__ == "__main__":
    compile_release()
