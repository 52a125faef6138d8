"""What is set about the index is what it runs by: its section of the settings, its flags, and each chain's endpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bridge.cli.index_settings import chains_to_ask, index_settings, indexed_deployment
from bridge.cli.settings import WaybillSettings
from bridge.cli.workspace import Workspace
from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Kind
from bridge.settings import SettingsError
from indexer.model.settings import INDEX_POLICY, IndexFolder, IndexSettings, IndexTable, SourceLimits, StallPolicy
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network

EVERYTHING = """
max_message_retries = 4

[index]
stall_after = 300
max_lag = 60
poll_interval = 0.5
lake_interval = 11.0
refresh_interval = 600.0
keep_days = 3
keep_hours = 5

[index.stall_after_by_kind]
state_sync = 45

[[index.lanes]]
destination = "beta"
stall_after = 200

[[index.lanes]]
source = "beta"
stall_after = 100

[policies.state_sync]
max_retries = 2

[chains.alpha]
rpc_urls = ["https://one.example", "https://two.example"]
requests_per_second = 10
batch = 5
"""

RETRIES = {kind: policy.max_retries for kind, policy in DEFAULT_POLICIES.items()}


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Workspace:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    write_network(tmp_path)
    return Workspace.current("devnet")


def test_without_anything_set_the_index_runs_by_its_own_defaults(workspace: Workspace) -> None:
    settings = index_settings(workspace)
    assert settings.stall == StallPolicy(retries_by_kind=RETRIES)
    assert settings.limits == SourceLimits(poll_interval=0.05)  # a devnet's
    assert set(settings.endpoints.values()) == {INDEX_POLICY}
    usual = IndexSettings(folder=settings.folder)
    for name in IndexSettings.__dataclass_fields__.keys() - {"endpoints", "stall", "limits"}:
        assert getattr(settings, name) == getattr(usual, name), name


def test_everything_that_can_be_set_arrives_where_it_is_used(workspace: Workspace) -> None:
    (workspace.root / "waybill.toml").write_text(EVERYTHING)
    settings = index_settings(workspace)
    assert settings.stall == StallPolicy(
        stall_after=300,
        max_lag=60,
        max_message_retries=4,
        by_kind={Kind.STATE_SYNC: 45},
        by_lane={(31337, 31338): 200, (31338, 31337): 100},
        retries_by_kind=RETRIES | {Kind.STATE_SYNC: 2},
    )
    assert settings.limits == SourceLimits(poll_interval=0.5)
    assert settings.endpoints == {
        31337: replace(INDEX_POLICY, requests_per_second=10.0, batch=5),
        31338: INDEX_POLICY,
    }
    assert (settings.lake_interval, settings.refresh_interval, settings.keep_ended) == (11.0, 600.0, 3 * 86_400)
    unset = (
        IndexTable.model_fields.keys() - WaybillSettings.load(workspace.root / "waybill.toml").index.model_fields_set
    )
    assert not unset  # nothing in the section is left out of this test


def test_settings_endpoints_replace_the_deployments(workspace: Workspace) -> None:
    (workspace.root / "waybill.toml").write_text(EVERYTHING)
    urls = {chain.name: chain.rpc_urls for chain in indexed_deployment(workspace).chains}
    assert urls == {"alpha": ("https://one.example", "https://two.example"), "beta": ("http://127.0.0.1:1",)}
    asked = {chain.chain_id: (chain.urls, chain.endpoints.batch) for chain in chains_to_ask(workspace)}
    assert asked == {31337: (urls["alpha"], 5), 31338: (urls["beta"], 50)}


def test_a_flag_goes_over_the_file(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[Deployment, IndexSettings]] = []

    def run_index(deployment: Deployment, settings: IndexSettings, **_flags: Any) -> None:
        ran.append((deployment, settings))

    monkeypatch.setattr("indexer.jobs.index.run_index", run_index)
    (workspace.root / "waybill.toml").write_text(EVERYTHING)
    waybill = Command(monkeypatch, capsys)
    assert waybill("index", "run", "--once").code == 0
    assert waybill("index", "run", "--once", "--stall-after", "77").code == 0
    (deployment, told), (_, over) = ran
    assert deployment.chain("alpha").rpc_urls == ("https://one.example", "https://two.example")
    assert (told.stall.stall_after, told.backfill_blocks) == (300, 10_000)
    assert (over.stall.stall_after, over.backfill_blocks, over.stall.max_message_retries) == (77, 10_000, 4)
    assert over.folder == IndexFolder(path=workspace.state, store=workspace.index_url)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[index]\nstall_after = 0", "stall_after"),
        ("[index]\nstal_after = 5", "stal_after"),
        ("[index.stall_after_by_kind]\npigeon = 5", "'pigeon' is not a message kind; the kinds are plain"),
        ("[index.stall_after_by_kind]\nplain = 0", r"index\.stall_after_by_kind\.plain is 0"),
        ('[[index.lanes]]\nsource = "gamma"\nstall_after = 5', "has no chain 'gamma'; its chains are alpha, beta"),
        ("[chains.alpha]\nbatch = 0", "batch"),
    ],
)
def test_what_cannot_be_set_is_named(workspace: Workspace, text: str, wrong: str) -> None:
    (workspace.root / "waybill.toml").write_text(text)
    with pytest.raises(SettingsError, match=wrong):
        index_settings(workspace)
