"""Fetches Apache Kafka's jars for the stream tests from Maven Central into build/tools/kafka, and checks their hashes.

Apache Ivy, which comes with Spark, resolves and fetches the jars, using Spark's Java. Nothing is installed system-wide.

python -m scripts.setup_kafka                 fetch the jars in requirements-kafka.lock, and print the folder
python -m scripts.setup_kafka --lock 4.4.0    rewrite the lock for a version of Kafka
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import shutil
import ssl
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from indexer.spark.java import java_home

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-kafka.lock"
HOME = ROOT / "build" / "tools" / "kafka"
JARS = HOME / "jars"
PATIENCE = 300
"""Seconds for all jars, 43 MB."""
_PASSWORD = "waybill"  # noqa: S105  # of a file with public certificates

Jar = tuple[str, str, str]
"""Organisation, name and version."""

LOGGER: Jar = ("org.slf4j", "slf4j-simple", "1.7.36")
"""Writes a broker's log to its standard error. Kafka depends on the interface of SLF4J alone, and without this a broker dies mute."""


class KafkaMissingError(Exception):
    """The jars are missing and cannot be fetched."""


def find_kafka() -> Path:
    """Returns the folder with a broker's jars, fetching them if necessary.

    Raises:
        KafkaMissingError: Maven Central cannot be reached.
        SystemExit: a jar differs from the lock.
    """
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with HOME.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one fetches, and other callers wait for it
        stamp = HOME / LOCK.name
        if not stamp.exists() or stamp.read_text() != LOCK.read_text():
            locked = read_lock()
            print(
                f"fetching Apache Kafka for the tests from Maven Central ({len(locked)} jars, 43 MB, once)",
                file=sys.stderr,
                flush=True,
            )
            fetch(locked)
            stamp.write_text(LOCK.read_text())
    return JARS


def read_lock() -> dict[Jar, str]:
    """Returns the SHA-256 of each jar in the lock."""
    rows = [line.split() for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    return {(parts[0], parts[1], parts[2]): digest for name, digest in rows for parts in [name.split(":")]}


def fetch(locked: dict[Jar, str]) -> None:
    """Downloads the jars into build/tools/kafka/jars, either all or none."""
    with tempfile.TemporaryDirectory(dir=HOME.parent) as folder:
        found = resolve(list(locked), Path(folder), transitive=False)
        wrong = sorted(":".join(jar) for jar in locked if digest_of(found[jar]) != locked[jar])
        if wrong:
            sys.exit(f"{', '.join(wrong)}: the hash is not the one in {LOCK.name}. The jar or the lock was changed.")
        shutil.rmtree(HOME, ignore_errors=True)
        JARS.mkdir(parents=True)
        for path in found.values():
            shutil.move(path, JARS)


def resolve(wanted: Sequence[Jar], folder: Path, *, transitive: bool) -> dict[Jar, Path]:
    """Fetches jars with Ivy into a folder, with their run-time dependencies if `transitive`; returns the files.

    Raises:
        KafkaMissingError: a jar cannot be fetched.
    """
    java, spark = java_home() / "bin" / "java", importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    (ivy,) = (Path(spark.origin).parent / "jars").glob("ivy-*.jar")
    rows = "".join(
        f"<dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(version)}"
        f' conf="default->master{",runtime" if transitive else ""}" transitive="{str(transitive).lower()}"/>'
        for org, name, version in wanted
    )
    module = '<info organisation="waybill" module="broker"/><configurations><conf name="default"/></configurations>'
    (folder / "ivy.xml").write_text(
        f'<ivy-module version="2.0">{module}<dependencies>{rows}</dependencies></ivy-module>'
    )
    command = [str(java), f"-Duser.home={folder}", *trust(folder), "-jar", str(ivy), "-warn"]
    command += ["-cache", str(folder / "cache"), "-ivy", str(folder / "ivy.xml"), "-confs", "default"]
    command += [
        "-types",
        "jar",
        "bundle",
        "-retrieve",
        str(folder / "[organisation]" / "[revision]" / "[module].[ext]"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise KafkaMissingError(
            f"downloading Apache Kafka's jars from Maven Central timed out after {PATIENCE} s"
        ) from error
    found = {
        (path.parts[-3], path.stem, path.parts[-2]): path
        for path in folder.glob("*/*/*.jar")
        if path.parts[-3] != "cache"
    }
    if done.returncode or not found or (not transitive and found.keys() != set(wanted)):
        raise KafkaMissingError(
            f"downloading Apache Kafka's jars from Maven Central failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return {jar: path.rename(path.with_name(f"{jar[1]}-{jar[2]}.jar")) for jar, path in found.items()}


def trust(folder: Path) -> list[str]:
    """Returns Java options to use the machine's trusted certificate authorities instead of Java's own."""
    certificates = []
    for authority in ssl.create_default_context().get_ca_certs(binary_form=True):
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(ValueError):  # old ones break today's rules
            certificates.append(x509.load_der_x509_certificate(authority))
    if not certificates:
        return []
    entries = [pkcs12.PKCS12Certificate(one, f"authority {place}".encode()) for place, one in enumerate(certificates)]
    store = folder / "trusted.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode())))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
    ]


def digest_of(path: Path) -> str:
    """Returns a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_lock(version: str) -> None:
    """Writes the lock for the jars of a broker of that version."""
    with tempfile.TemporaryDirectory() as folder:
        broker = ("org.apache.kafka", "kafka_2.13", version)
        found = resolve([broker, LOGGER], Path(folder), transitive=True)
        rows = sorted(f"{':'.join(jar)} {digest_of(path)}\n" for jar, path in found.items())
    LOCK.write_text(
        f"# What the tests' broker runs on. Made by: python -m scripts.setup_kafka --lock {version}\n{''.join(rows)}"
    )


def main() -> None:
    """Fetches the jars, or writes the lock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", metavar="VERSION", help="write the lock again")
    version = parser.parse_args().lock
    if version:
        write_lock(version)
    else:
        print(find_kafka())


if __name__ == "__main__":
    try:
        main()
    except KafkaMissingError as error:
        sys.exit(str(error))
