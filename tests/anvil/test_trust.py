"""Whom a lane trusts, against the GMPs' own contracts: an honest network has no finding, and each weakened one has its own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bridge.dead_letters.channels import Notice
from bridge.devnet import Devnet
from bridge.devnet.gmps import devnet_attesters
from bridge.domain.ports import TransientError
from bridge.evm.chain import open_chains
from bridge.gmps.axelar.devnet import SIGNERS
from bridge.gmps.ccip.devnet import ORACLES
from bridge.gmps.hyperlane.devnet import VALIDATORS
from bridge.protocol.contracts import ROUTER
from bridge.protocol.gmps import Gmp
from bridge.queries.trust import DirectionTrust, lane_value, read_lane
from bridge.queries.trust_plan import TrustPlan, config_of, differences
from bridge.service.relayer_service import open_relayer
from tests.anvil.command import Waybill
from tests.anvil.devnets import undone
from tests.anvil.test_relayer import settings
from tests.anvil.weakened import (
    CCIP,
    GUARDIAN,
    KEY,
    RECIPIENT,
    WEAKENED,
    End,
    Network,
    Weakened,
    ccip_verification,
    name_verifiers,
)


@pytest.fixture(scope="module")
def honest(running_devnet: Devnet) -> Iterator[Network]:
    """The suite's devnet, hardened; as it was when the module's tests end."""
    with undone(running_devnet):
        yield Network.hardened(running_devnet.deployment)


@pytest.fixture
def network(honest: Network) -> Iterator[Network]:
    """The honest network; what a test changes on it is gone when the test ends."""
    with honest.restored():
        yield honest


def test_an_honest_network_has_no_finding(network: Network) -> None:
    found = network.judged()
    value = lane_value(network.deployment, found)
    assert [(one["grade"], one["findings"]) for one in value["directions"]] == [("A", []), ("A", [])]
    for one in found:
        assert {gmp.name: gmp.verifiers.least for gmp in one.gmps} == {
            "hyperlane": 2,
            "axelar": 2,
            "wormhole": 3,
            "layerzero": 2,
            "ccip": 2,
        }
        assert one.forgers.least == 4, "two GMPs with two verifiers each"
        assert len(one.forgers.sets) == 10, "each pair of GMPs, in any members"
        assert any("guardian" in line and GUARDIAN in line for line in one.stops)
    (config,) = (one["config"] for one in value["directions"] if one["direction"].endswith("beta"))
    assert config["gmps"]["axelar"]["signers"] == [
        {"address": one.address, "weight": 1} for one in sorted(SIGNERS, key=lambda one: one.address)
    ]
    assert config["gmps"]["wormhole"]["consistencyLevel"] == 1
    assert config["gmps"]["ccip"]["offRamps"][network.beta.gmp("ccip", "offRamp")]["signatures"] == 2
    # The way back runs CCIP 2.0.
    (config,) = (one["config"] for one in value["directions"] if one["direction"].endswith("alpha"))
    ramp, resolver, verifier = ccip_verification(network.alpha)
    lane = config["gmps"]["ccip"]["offRamps"][ramp]
    assert (lane["default"], lane["required"], lane["optionalThreshold"]) == (False, [resolver], 0)
    (found_verifier,) = lane["verifiers"][resolver].values()
    assert found_verifier == {
        "verifier": verifier,
        "type": "CommitteeVerifier 2.0.0",
        "signers": sorted(oracle.address for oracle in ORACLES),
        "signatures": 2,
    }


def one_signature_of_the_committee(end: End) -> None:
    _, _, verifier = ccip_verification(end)
    signers = [oracle.address for oracle in ORACLES]
    configs = [(int(end.there.gmps["ccip"]["selector"]), 1, signers)]
    end.by(end.timelock, verifier, CCIP.encode("applySignatureConfigs", [], configs))


def test_a_committee_of_ccip_2_0_of_which_one_suffices_is_found(network: Network) -> None:
    one_signature_of_the_committee(network.alpha)
    _, back = network.judged()
    assert ("SINGLE_VERIFIER", "ccip") in {(finding.code, finding.gmp) for finding in back.findings}


def test_an_adapter_that_leaves_its_verifiers_of_ccip_2_0_to_the_lane_is_found(network: Network) -> None:
    name_verifiers(network.alpha, network.alpha.timelock)
    _, back = network.judged()
    assert {(finding.code, finding.gmp) for finding in back.findings} == {("DEFAULTS", "ccip")}


def test_a_resolver_of_ccip_2_0_in_one_accounts_hands_is_found(network: Network) -> None:
    _, resolver, _ = ccip_verification(network.alpha)
    network.alpha.hand_over(resolver, KEY, from_owner=network.alpha.timelock, accepts=True)
    _, back = network.judged()
    assert ("CONTROLLED_BY_ONE", "ccip") in {(finding.code, finding.gmp) for finding in back.findings}


@pytest.mark.parametrize("case", WEAKENED, ids=[one.change.__name__ for one in WEAKENED])
def test_what_weakens_one_direction_is_found_there_and_nowhere_else(network: Network, case: Weakened) -> None:
    case.change(network.beta)
    there, back = network.judged()
    assert {(finding.code, finding.gmp) for finding in there.findings} == case.codes
    assert (there.grade, there.forgers.least) == (case.grade, case.least)
    assert {(finding.code, finding.gmp) for finding in back.findings} == case.back


def test_a_recipients_own_policy_counts_and_names_of_a_plan_join_keys(network: Network) -> None:
    hyperlane_alone = ROUTER.encode("setPolicy", network.alpha.here.chain_id, 1, Gmp.HYPERLANE.bit)
    network.beta.by(RECIPIENT, network.beta.here.router, hyperlane_alone)
    there, _ = network.judged(RECIPIENT)
    assert [one.code for one in there.findings] == ["QUORUM_LOW"]
    assert there.forgers.least == 2
    assert network.judged()[0].forgers.least == 4, "other recipients keep the floor"

    one_hand = {VALIDATORS[0].address: "Cluster", VALIDATORS[1].address: "Cluster", SIGNERS[0].address: "Cluster"}
    there, _ = network.judged(**one_hand)
    assert ("SHARED_OPERATOR", "") in {(one.code, one.gmp) for one in there.findings}
    assert there.forgers.least == 2, "Cluster is two validators and one signer, and needs one signer more"


def test_a_replaced_verifier_is_no_weakness_and_is_named_as_a_difference(network: Network) -> None:
    expected = config_of(network.read())
    assert differences(expected, config_of(network.read())) == []
    replaced = [*(str(one.address) for one in VALIDATORS[:2]), KEY]
    network.beta.plant(network.beta.multisig(replaced, 2))
    assert not network.judged()[0].findings
    found = {one.path: one for one in differences(expected, config_of(network.read()))}
    assert found.keys() == {f"alpha → beta / gmps / hyperlane / ism / {field}" for field in ("address", "validators")}
    validators = found["alpha → beta / gmps / hyperlane / ism / validators"]
    assert set(validators.expected) ^ set(validators.found) == {VALIDATORS[2].address, KEY}


def test_the_command_shows_a_lane_and_checks_it_against_its_plan(network: Network, tmp_path: Path) -> None:
    (tmp_path / "deployments").mkdir()
    (tmp_path / "deployments" / "devnet.json").write_text(network.deployment.to_json())
    waybill = Waybill(tmp_path)
    plan = tmp_path / "networks" / "devnet.json"
    plan.parent.mkdir()
    plan.write_text('{"version": 1}')
    shown = waybill.json("trust", "alpha:beta", "--write-plan", str(plan))
    assert (shown["lane"], shown["grade"]) == ("alpha:beta", "A")
    assert json.loads(plan.read_text())["version"] == 1, "what else is in the file stays"
    assert waybill.json("trust", "check", "--plan", str(plan))["lanes"] == {"alpha:beta": []}

    network.beta.decide("setFloor", network.alpha.here.chain_id, 3)  # stronger, and not as planned
    ended = waybill("trust", "check")
    assert ended.code == 1
    assert "alpha → beta / router / floor: expected 2, found 3" in ended.out


class Heard:
    """A channel that is away at first."""

    name = "heard"

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.is_away = False

    async def tell(self, notice: Notice) -> None:
        if self.is_away:
            raise TransientError("away")
        self.notices.append(notice)


def test_the_running_relayer_tells_what_changed_and_by_which_transaction(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, heard = tmp_path / "plan.json", Heard()
    monkeypatch.setattr("bridge.service.relayer_service.channels", lambda _alerts: [heard])
    TrustPlan().expecting("alpha:beta", network.read()).write(plan)

    async def watching() -> None:
        said = settings(tmp_path, trust={"plan": str(plan)})
        async with open_relayer(network.deployment, said, devnet_attesters) as bridge:
            watch = bridge.trust_watch
            assert watch is not None
            await watch.step()
            assert (watch.counts, heard.notices) == ({"alpha:beta": 0}, [])

            noted = plan.read_text()
            plan.write_text(json.dumps({**json.loads(noted), "trust": {}}))  # as before `--write-plan`
            os.utime(plan, ns=(1, 1))
            await watch.step()
            assert watch.counts == {}
            plan.write_text(noted)
            await watch.step()
            assert watch.counts == {"alpha:beta": 0}, "a lane that is noted later is watched without a restart"

            heard.is_away = True
            owner = network.beta
            receipt = owner.by(
                owner.timelock, owner.here.router, ROUTER.encode("setFloor", network.alpha.here.chain_id, 1)
            )
            with pytest.raises(TransientError, match="away"):
                await watch.step()
            heard.is_away = False
            await watch.step()
            (notice,) = heard.notices
            assert notice.severity == "critical"
            assert notice.details["differences"] == ["alpha → beta / router / floor: expected 2, found 1"]
            assert notice.details["transactions"] == [{"chain": "beta", "transaction": receipt["transactionHash"]}]
            assert watch.counts == {"alpha:beta": 1}

            owner.plant(owner.multisig([one.address for one in VALIDATORS], 1))  # Hyperlane's own contract logs it
            with capture_logs() as logs:
                await watch.step()
                count = watch.counts["alpha:beta"]
                await watch.step()
            assert count > 1
            assert len(heard.notices) == 2, "a drift is told once"
            lines = [line["difference"] for line in logs if line["log_level"] == "critical"]
            assert len(set(lines)) == len(lines) == count - 1, (
                "a line for each change, and none for what was told before"
            )
            assert not any("floor" in line for line in lines)

            TrustPlan().expecting("alpha:beta", await read_both()).write(plan)
            owner.decide("setFloor", network.alpha.here.chain_id, 1)  # an event: the plan is read again
            await watch.step()
            assert (watch.counts, heard.notices[-1].severity) == ({"alpha:beta": 0}, "info")

    async def read_both() -> tuple[DirectionTrust, DirectionTrust]:
        async with open_chains(network.deployment) as chains:
            return await read_lane(chains, (network.alpha.here, network.beta.here))

    asyncio.run(watching())
