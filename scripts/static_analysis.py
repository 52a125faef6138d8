"""Runs slither over contracts/ and compares its findings with docs/static-analysis.toml.

An unexplained finding fails the run, as does an explanation without a finding, which is outdated.
"""

import json
import os
import subprocess
import sys
import tomllib
from typing import Any

from scripts.setup_proofs import PROVERS, ROOT

EXPLANATIONS = ROOT / "docs" / "static-analysis.toml"
REPORT = ROOT / "build" / "slither" / "report.json"

Finding = tuple[str, str]
"""A detector and the place that it complains about, such as `Contract.function`."""


def place_of(element: dict[str, Any]) -> str:
    """Returns the dotted name of a finding's place, from the contract inwards."""
    parent = element.get("type_specific_fields", {}).get("parent")
    name = element["name"].split("(")[0]
    if element["type"] == "node":
        # A statement has no name worth keeping: it changes with every line.
        return place_of(parent)
    return f"{place_of(parent)}.{name}" if parent and parent["type"] != "file" else name


def findings(report: dict[str, Any]) -> set[Finding]:
    """Reads slither's report. Several findings of one detector in the same place count once."""
    found = report["results"].get("detectors", [])
    return {(finding["check"], place_of(finding["elements"][0])) for finding in found}


def explained(text: str) -> set[Finding]:
    """Reads the explanations.

    Raises:
        ValueError: a finding has an empty reason.
    """
    explanations = tomllib.loads(text)["finding"]
    for explanation in explanations:
        if not explanation["reason"].strip():
            raise ValueError(f"{EXPLANATIONS.name}: {explanation['check']} has no reason")
    return {(explanation["check"], place) for explanation in explanations for place in explanation["places"]}


def analyse() -> dict[str, Any]:
    """Compiles contracts/ separately from the tests, runs slither and returns its report.

    Raises:
        SystemExit: slither could not run.
    """
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.unlink(missing_ok=True)
    path = f"{ROOT / 'build' / 'tools' / 'bin'}:{PROVERS}:{os.environ['PATH']}"
    environment = {**os.environ, "FOUNDRY_PROFILE": "slither", "PATH": path}
    command = [str(PROVERS / "slither"), ".", "--compile-force-framework", "foundry", "--json", str(REPORT)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if not REPORT.exists():
        sys.exit(f"slither could not run:\n{done.stderr.strip()[-2000:]}")
    report: dict[str, Any] = json.loads(REPORT.read_text())
    if not report["success"]:
        sys.exit(f"slither could not analyse the contracts: {report['error']}")
    return report


def main() -> int:
    """Runs the analysis, and returns 0 if findings and explanations match."""
    found, known = findings(analyse()), explained(EXPLANATIONS.read_text())
    for check, place in sorted(found - known):
        print(f"unexplained: {check} in {place}. Fix it, or explain it in {EXPLANATIONS.relative_to(ROOT)}")
    for check, place in sorted(known - found):
        print(f"explained, but not found: {check} in {place}. Delete it from {EXPLANATIONS.relative_to(ROOT)}")
    print(f"slither: {len(found)} findings, {len(found & known)} explained", flush=True)
    return 0 if found == known else 1


if __name__ == "__main__":
    sys.exit(main())
