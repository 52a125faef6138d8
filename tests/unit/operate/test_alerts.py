"""Alert rules fire when they should, and name, like dashboard and documents, nothing that does not exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from bridge.metrics import METRICS, MetricType
from bridge.service.settings import Settings
from scripts.debian import find_program
from tests.cases import for_each_case

ROOT = Path(__file__).resolve().parents[3]
OPS = ROOT / "ops"
NAMES = {metric.name for metric in METRICS} | {
    f"{metric.name}_{suffix}"
    for metric in METRICS
    if metric.type is MetricType.HISTOGRAM
    for suffix in ("bucket", "sum", "count")
}
LABELS = {label for metric in METRICS for label in metric.labels} | {"le"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((OPS / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def named(text: str) -> set[str]:
    return set(re.findall(r"\bwaybill_[a-z_]*[a-z]\b", text))


def test_alert_fires_on_its_series_only() -> None:
    done = subprocess.run(
        [find_program("promtool", "prometheus", with_dependencies=False), "test", "rules", OPS / "alerts.test.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tests = {test["name"] for test in yaml.safe_load((OPS / "alerts.test.yml").read_text())["tests"]}
    expected = {f"{rule['alert']} {kind}" for rule in rules() for kind in ("fires", "is silent")}
    assert tests == expected


def test_promtool_refuses_a_rule_that_does_not_fire(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text((OPS / "alerts.yml").read_text().replace("> 10000", "> 20000"))
    (tmp_path / "alerts.test.yml").write_text((OPS / "alerts.test.yml").read_text())
    done = subprocess.run(
        [
            find_program("promtool", "prometheus", with_dependencies=False),
            "test",
            "rules",
            tmp_path / "alerts.test.yml",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "WaybillLag fires" in done.stdout + done.stderr


@for_each_case(
    "path",
    [
        *(OPS / name for name in ("alerts.yml", "alerts.test.yml", "dashboard.json")),
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ],
)
def test_rules_and_panels_name_existing_metrics(path: Path) -> None:
    assert named(path.read_text()) - NAMES == set()


def test_rules_and_panels_group_by_labels_that_exist() -> None:
    panels = json.loads((OPS / "dashboard.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    expressions += [rule["expr"] for rule in rules()]
    grouped = {
        label.strip()
        for expression in expressions
        for labels in re.findall(r"by \(([^)]*)\)", expression)
        for label in labels.split(",")
    }
    assert grouped - LABELS == set()
    shown = {label for rule in rules() for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))}
    assert shown - LABELS == set()


def test_the_settings_file_of_the_documentation_is_valid(tmp_path: Path) -> None:
    text = (OPS.parent / "docs" / "operate" / "relayer.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "waybill.toml"
    file.write_text(example)
    settings = Settings.load(file)
    assert len(settings.signers) == 2
    assert settings.chains["alpha"].agreement == 2
