"""A deployments file may name environment variables in place of URLs that hold a key."""

from __future__ import annotations

import pytest

from bridge.protocol.deployment import Deployment, DeploymentError
from bridge.service.settings import Settings
from tests.unit.gmps.test_adapter_dispatches import DEPLOYMENT


def test_urls_come_from_the_environment_or_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = DEPLOYMENT.to_json().replace("http://127.0.0.1:1", "https://node.example/${NODE_KEY}", 1)
    with pytest.raises(DeploymentError, match=r"(?s)the\.json refers to.*chains\.alpha\.rpcUrls\.0: \$\{NODE_KEY\}"):
        Deployment.from_json(text, "the.json")
    monkeypatch.setenv("NODE_KEY", "")
    with pytest.raises(DeploymentError, match="NODE_KEY"):
        Deployment.from_json(text, "the.json")
    monkeypatch.setenv("NODE_KEY", "secret")
    first, second = Deployment.from_json(text, "the.json").chains
    assert first.rpc_urls == ("https://node.example/secret",)
    assert second.rpc_urls == ("http://127.0.0.1:1",)


def test_endpoints_agree_as_the_file_says_unless_a_setting_does(monkeypatch: pytest.MonkeyPatch) -> None:
    alpha, beta = (chain.model_copy(update={"agreement": 2}) for chain in DEPLOYMENT.chains)
    deployment = DEPLOYMENT.model_copy(update={"chains": (alpha, beta)})
    monkeypatch.setenv("WAYBILL_CHAINS", '{"beta": {"agreement": 3}}')
    policies = Settings.load(None).endpoint_policies(deployment)
    assert [policies[chain.chain_id].agreement for chain in deployment.chains] == [2, 3]
    assert Settings.load(None).endpoint_policies(DEPLOYMENT)[alpha.chain_id].agreement == 1
