"""Where Spark's Java is: the machine's own when it is new enough, else the one that set-up brought in."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

OLDEST_JAVA = 17
BUNDLED_HOME = Path(__file__).resolve().parents[2] / "build" / "tools" / "java"


class JavaNotFoundError(RuntimeError):
    """There is no Java that Spark can run on."""


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)


def _properties(java: Path) -> dict[str, str]:
    """Ask a Java for its system properties; empty if it does not run (macOS has a `java` that only offers an install)."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(re.findall(r"^\s+(java\.\S+) = (.*)$", answer, re.MULTILINE))


def system_java_home() -> Path | None:
    """Return the home of the machine's Java, from JAVA_HOME or else PATH, if it is at least Java 17.

    The home is the folder above the program that was tried, wherever that program says that Java is: it may be a launcher
    without which Spark would not start, and a child process inherits its folder as JAVA_HOME.
    """
    for java in _candidates():
        properties = _properties(java)
        version = properties.get("java.specification.version", "")
        if version.isdigit() and int(version) >= OLDEST_JAVA:
            program = java.resolve()
            return program.parent.parent if program.parts[-2:] == ("bin", "java") else Path(properties["java.home"])
    return None


def java_home() -> Path:
    """Return the JAVA_HOME that Spark is to be started with.

    Raises:
        JavaNotFoundError: the machine has no Java >= 17 and set-up has not brought one in.
    """
    system = system_java_home()
    if system is not None:
        return system
    if os.access(BUNDLED_HOME / "bin" / "java", os.X_OK):
        return BUNDLED_HOME
    raise JavaNotFoundError(
        f"Spark needs Java >= {OLDEST_JAVA}: none in JAVA_HOME or on PATH, and none in {BUNDLED_HOME}. "
        "Install a JDK, or run `rm -f build/setup/java && make setup`, which brings one into this folder."
    )
