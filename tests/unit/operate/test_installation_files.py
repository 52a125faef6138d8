"""What runs Waybill as services or in containers names commands, files and variables that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import bridge
from bridge.cli.app import app
from bridge.cli.root import separated
from bridge.deploy.plan import NetworkPlan
from bridge.settings import Settings
from scripts.debian import find_program
from tests.cases import for_each_case
from tests.unit.cli.command import Command
from tests.unit.docs.test_docs import blocks

ROOT = Path(__file__).resolve().parents[3]
OPS = ROOT / "ops"
UNITS = sorted((OPS / "systemd").glob("*.service"))
COMPOSE: dict[str, Any] = yaml.safe_load((OPS / "compose.yaml").read_text())
CLUSTER: list[dict[str, Any]] = yaml.safe_load((OPS / "kubernetes.yaml").read_text())["items"]
KUBERNETES = ROOT / "tests" / "golden" / "kubernetes.schema.json"
INSTRUCTIONS = {"FROM", "RUN", "ENV", "COPY", "ENTRYPOINT", "WORKDIR", "USER", "EXPOSE", "CMD"}


def instructions() -> list[tuple[str, str]]:
    lines = (OPS / "Containerfile").read_text().replace("\\\n", "").splitlines()
    written = [line for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in written)]


def stages() -> dict[str, dict[str, str]]:
    """The last instruction of each kind, by stage."""
    found: dict[str, dict[str, str]] = {}
    for word, rest in instructions():
        if word == "FROM":
            name = rest.rpartition(" AS ")[2]
            found[name] = {}
        found[name][word] = rest
    return found


def containers() -> list[dict[str, Any]]:
    """Those that a cluster runs."""
    pods = [one["spec"]["template"]["spec"] for one in CLUSTER if one["kind"] in ("Deployment", "StatefulSet")]
    return [one for pod in pods for one in (*pod.get("initContainers", []), *pod["containers"])]


def commands() -> Iterator[list[str]]:
    """What the files type after `waybill`."""
    for stage in stages().values():
        if "CMD" in stage:
            yield json.loads(stage["CMD"])
    for service in COMPOSE["services"].values():
        if "command" in service:
            yield service["command"]
    for container in containers():
        yield container["args"]
    for unit in UNITS:
        (words,) = re.findall(r"^ExecStart=/opt/waybill/bin/waybill (.*)$", unit.read_text(), re.MULTILINE)
        yield words.replace("%i", "testnet").split()


@for_each_case("words", list(commands()))
def test_each_command_is_one_that_waybill_takes(words: list[str]) -> None:
    command: Any = get_command(app)
    options, rest = separated(words)
    context = command.make_context("waybill", [*options, *rest], resilient_parsing=True)
    while hasattr(command, "get_command"):
        command = command.get_command(context, rest[0])
        assert command is not None, rest[0]
        rest.pop(0)
    command.make_context(words[0], rest)


def test_each_process_has_an_image_from_the_wheel_with_the_extras_that_it_needs() -> None:
    assert {word for word, _ in instructions()} <= INSTRUCTIONS
    found = stages()
    assert found.keys() - {"base"} == {"relayer", "index", "web"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, stage in found.items():
        if name == "base":
            assert "waybill-*.whl" in stage["COPY"]
            continue
        assert stage["FROM"].startswith("base ")
        assert stage["USER"] == "waybill", "no process runs as root"
        (named,) = re.findall(r"\[([a-z,]+)\]\"(?: +&&|$)", stage["RUN"])
        assert set(named.split(",")) <= extras.keys()
    assert "index" in found["index"]["RUN"]
    assert "delta_jars()" in found["index"]["RUN"], "the image brings Delta's jars"
    for service in COMPOSE["services"].values():
        if "build" in service:
            assert service["build"]["target"] in found
            assert (OPS / service["build"]["context"] / service["build"]["dockerfile"]).exists()


def test_the_composition_mounts_files_that_are_there_and_names_services_that_it_has() -> None:
    written_by_operators = {"../deployments", "../networks", "../waybill.toml"}
    services, text = COMPOSE["services"], (OPS / "compose.yaml").read_text()
    assert services.keys() == {"postgres", "relayer", "index", "web", "prometheus", "grafana"}
    for name, service in services.items():
        assert service.get("depends_on", {}).keys() <= services.keys(), name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            there = source in COMPOSE["volumes"] or source in written_by_operators or (OPS / source).is_file()
            assert there, f"{name}: {volume}"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: open to others than this machine"
    page = (ROOT / "docs" / "operate" / "install.md").read_text()
    assert {name for name in re.findall(r"\$\{(\w+)\}", text) if f"`{name}`" not in page} == set()
    (target,) = yaml.safe_load((OPS / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"][0][
        "targets"
    ]
    host, port = target.split(":")
    assert f":{port}" in " ".join(services[host]["command"])


def test_the_page_types_what_there_is() -> None:
    text = "\n".join(content for page, content in blocks("") if page == "docs/operate/install.md")
    assert f"waybill-{bridge.__version__}-py3-none-any.whl" in text
    (extras,) = re.findall(r"\.whl\[([a-z,]+)\]", text)
    assert set(extras.split(",")) >= {"relayer", "index"}
    started = set(re.findall(r"(waybill-\w+)@testnet", text))
    assert started == {unit.name.partition("@")[0] for unit in UNITS}
    for unit in UNITS:
        assert "/opt/waybill/bin/waybill" in unit.read_text()
        assert "python3 -m venv /opt/waybill\n" in text


def test_prometheus_takes_its_settings() -> None:
    promtool = find_program("promtool", "prometheus", with_dependencies=False)
    done = subprocess.run(
        [promtool, "check", "config", OPS / "prometheus.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    # It wants the program, which is where nothing is here.
    text = unit.read_text().replace("/opt/waybill/bin/waybill", "/bin/true")
    here = tmp_path / unit.name.replace("@", "@testnet")
    here.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    here.write_text(text.replace("Restart=always", "Restart=perhaps"))
    refused = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, check=False)
    assert "perhaps" in refused.stderr


AJV = """
const { default: Ajv } = require(process.argv[1]);
const [schema, document] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const check = new Ajv({ allErrors: true, strict: false, validateFormats: false }).compile(schema);
check(document);
console.log(JSON.stringify((check.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)));
"""


def problems(schema: str, document: object) -> list[str]:
    """What ajv, which editors use, finds wrong."""
    ajv = ROOT / "node_modules" / "ajv" / "dist" / "2020.js"
    done = subprocess.run(
        ["node", "--eval", AJV, ajv],
        input=json.dumps([json.loads(schema), document]),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    return found


def refused(document: Any) -> list[str]:
    """What Kubernetes' own schema of a document's kind finds wrong with it."""
    schema = json.loads(KUBERNETES.read_text())
    (own,) = (one for one in schema["oneOf"] if one["properties"]["kind"]["enum"] == [document["kind"]])
    return problems(json.dumps({**own, "$defs": schema["$defs"]}), document)


def test_kubernetes_takes_the_manifest_and_refuses_a_misspelt_name() -> None:
    assert [one["kind"] for one in CLUSTER] == ["Deployment", "StatefulSet", "Service", "Service"]
    for document in CLUSTER:
        assert refused(document) == [], document["metadata"]["name"]
    deployment, text = CLUSTER[0], json.dumps(CLUSTER[0])
    assert any("additional properties" in one for one in refused(json.loads(text.replace("httpGet", "httpGets"))))
    assert refused({**deployment, "spec": {**deployment["spec"], "replicas": "one"}})
    assert refused({**deployment, "apiVersion": "apps/v2"})


def test_the_manifests_parts_fit_each_other_and_run_as_nobody() -> None:
    images = {f"waybill-{name}:{bridge.__version__}" for name in stages().keys() - {"base"}}
    assert {container["image"] for container in containers()} == images
    uids = re.findall(r"--uid (\d+)", (OPS / "Containerfile").read_text())
    for document in CLUSTER:
        if document["kind"] == "Service":
            continue
        pod = document["spec"]["template"]
        assert pod["metadata"]["labels"] == document["spec"]["selector"]["matchLabels"]
        assert [str(pod["spec"]["securityContext"]["runAsUser"])] == uids
        claims = [one["metadata"]["name"] for one in document["spec"].get("volumeClaimTemplates", [])]
        volumes = {*claims, *(one["name"] for one in pod["spec"]["volumes"])}
        for container in (*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]):
            assert {one["name"] for one in container["volumeMounts"]} <= volumes
            assert container["securityContext"]["readOnlyRootFilesystem"]
            for port in container.get("ports", []):
                assert f"0.0.0.0:{port['containerPort']}" in container["args"]
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in CLUSTER if one["kind"] != "Service"]
    for service in (one for one in CLUSTER if one["kind"] == "Service"):
        assert service["spec"]["selector"] in pods
        ports = {port["containerPort"] for container in containers() for port in container.get("ports", [])}
        assert {one["port"] for one in service["spec"]["ports"]} <= ports


def test_settings_schema_takes_the_examples_of_the_pages() -> None:
    schema = json.dumps(Settings.model_json_schema())
    examples = [tomllib.loads(text) for page, text in blocks("toml") if page == "docs/operate/relayer.md"]
    assert examples
    for example in examples:
        assert problems(schema, example) == []
    assert problems(schema, {"max_feee": 1}) == [" must NOT have additional properties"]
    assert problems(schema, {"chains": {"alpha": {"batch": "many"}}})


def test_the_schema_of_networks_takes_what_network_create_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    waybill = Command(monkeypatch, capsys)
    waybill("network", "create", "testnet", "--chains", "sepolia,base-sepolia")
    document = json.loads((tmp_path / "networks" / "testnet.json").read_text())
    schema = json.dumps(NetworkPlan.model_json_schema(by_alias=True))
    assert problems(schema, document) == []
    del document["owner"]
    document["chains"][0]["chainID"] = document["chains"][0].pop("chainId")
    assert problems(schema, document)
