"""Compiles the contracts as they are deployed (foundry.toml's profile `release`), and runs the router's tests on that code.

The tests themselves are compiled as always: they take the router from the artifact that `WAYBILL_ROUTER` names
(tests/solidity/TestedRouter.sol).

python -m scripts.release                                   compile
python -m scripts.release --test                            and run the tests of the router
python -m scripts.release --test 'tests/solidity/**/*.sol'  and run those
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORGE = ROOT / "build" / "tools" / "bin" / "forge"
OUT = ROOT / "build" / "release" / "out"
ROUTER = OUT / "Router.sol" / "Router.json"
TESTS = "tests/solidity/router/*.sol"


def compile_release() -> None:
    """Bring the artifacts up to date.

    Raises:
        SystemExit: they do not compile; the compiler's output has been shown.
    """
    environment = {**os.environ, "FOUNDRY_PROFILE": "release"}
    done = subprocess.run(
        [str(FORGE), "build", "--quiet"], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise SystemExit("the contracts do not compile with the profile `release`; the reason is above")


def missing() -> str | None:
    """Compile; say why the artifacts can't be had, or None."""
    try:
        compile_release()
    except SystemExit as error:
        return str(error)
    return None


def main() -> int:
    """Compile, and run tests if asked to; return forge's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--test", nargs="?", const=TESTS, metavar="PATHS", help=f"run the tests in these files ({TESTS})"
    )
    paths = parser.parse_args().test
    compile_release()
    if paths is None:
        return 0
    environment = {**os.environ, "WAYBILL_ROUTER": str(ROUTER.relative_to(ROOT))}
    return subprocess.run(
        [str(FORGE), "test", "--match-path", paths], cwd=ROOT, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
