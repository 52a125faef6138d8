"""Regenerates the lock files, which contain packages, versions and hashes, but no registry URLs."""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = ROOT / ".venv" / "bin" / "uv"
OLDEST_PYTHON = "3.11"


def compile_requirements(source: str, lock: str, *options: str) -> None:
    """Resolves a requirements file for all platforms and Python versions into a lock file with hashes."""
    print(f"lock  {source} -> {lock}", flush=True)
    command = [str(UV), "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-annotate"]
    command += ["--python-version", OLDEST_PYTHON, "--custom-compile-command", "make lock"]
    subprocess.run([*command, *options, source, "--output-file", lock], cwd=ROOT, check=True)


def main() -> None:
    """Resolves Python and npm packages. Locked versions are kept unless `--upgrade` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions the requirements allow")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []
    # All extras but `java`, which set-up brings only where there is none.
    extras = [option for extra in ("relayer", "index", "kafka") for option in ("--extra", extra)]
    compile_requirements("pyproject.toml", "requirements.lock", *extras, "--group", "dev", *upgrade)
    compile_requirements("requirements-java.in", "requirements-java.lock", *upgrade)
    compile_requirements("requirements-proofs.in", "requirements-proofs.lock", *upgrade)
    for folder in (".", "dapp", "bench/index/ponder"):
        print(f"lock  {folder}/package.json -> {folder}/package-lock.json", flush=True)
        subprocess.run(["npm", "install", "--package-lock-only", "--loglevel=error"], cwd=ROOT / folder, check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"A lock file could not be made: {error}")
