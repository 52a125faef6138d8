"""What the judgement of a lane says of those who could forge, and of its grade."""

from __future__ import annotations

import pytest

from bridge.domain.trust import LEAST_DELAY, NOBODY, Account, AccountKind, Control, Finality, GmpTrust, at_least
from bridge.protocol.gmps import Gmp
from bridge.queries.trust import (
    AdapterTrust,
    DirectionTrust,
    Finding,
    Operators,
    Severity,
    assess,
    assessment_value,
    grade_reason,
)
from tests.unit.web.explorer import deployment

OWNER = Account(address="0x0a", kind=AccountKind.KEY)
SAFE = Account(address="0x0b", kind=AccountKind.SAFE, threshold=2, signers=("s1", "s2", "s3"))
SLOW = Account(address="0x0c", kind=AccountKind.TIMELOCK, delay=LEAST_DELAY)
NONE = Account(address=NOBODY, kind=AccountKind.NOBODY)


def control(account: Account, contract: str, *, forges: bool = True) -> Control:
    return Control(
        chain="beta", contract=contract, address="0x01", role="owner", account=account, power="sets it", forges=forges
    )


def gmp(number: Gmp, verifiers: tuple[str, ...], *controls: Control) -> GmpTrust:
    needed = at_least(len(verifiers), verifiers)
    return GmpTrust(gmp=number, config={}, verifiers=needed, controls=controls, finality=Finality("final blocks"))


def direction(*gmps: GmpTrust, controls: tuple[Control, ...] = ()) -> DirectionTrust:
    source, destination = deployment().chains
    return DirectionTrust(
        source=source,
        destination=destination,
        recipient=None,
        peer=source.router,
        floor=2,
        quorum=2,
        allowed=frozenset(int(one.gmp) for one in gmps),
        implementation=None,
        owner=SLOW,
        guardian=OWNER,
        revoker=OWNER,
        tripwire=NONE,
        controls=controls,
        adapters=tuple[AdapterTrust, ...](),
        gmps=gmps,
    )


def test_each_operator_is_named_by_what_it_is_on_the_lane() -> None:
    judged = assess(
        direction(
            gmp(Gmp.HYPERLANE, ("v1", "v2"), control(OWNER, "Mailbox"), control(SAFE, "ISM")),
            gmp(Gmp.AXELAR, ("v2", "v3"), control(OWNER, "gateway"), control(SLOW, "gateway")),
            gmp(Gmp.LAYERZERO, ("dvn",), control(Account(address="0x0d", kind=AccountKind.KEY), "x", forges=False)),
            controls=(control(OWNER, "router"),),
        ),
        Operators({"v3": "Cluster"}),
    )
    assert assessment_value(judged)["roles"] == {
        "v1": "verifier of hyperlane",
        "v2": "verifier of hyperlane, axelar",
        "Cluster": "verifier of axelar",
        "dvn": "only verifier of layerzero",
        "0x0a": "owner behind hyperlane, axelar; owner of Waybill's router; guardian on beta; revoker on beta",
        **dict.fromkeys(("s1", "s2", "s3"), "signer for the owner behind hyperlane"),
    }


@pytest.mark.parametrize(
    ("severities", "reason"),
    [
        ([], "there is no finding"),
        (["notice"], "of a notice: X0"),
        (["notice", "notice"], "of 2 notices: X0, X1"),
        (["serious", "notice"], "of a serious finding: X0"),
        (["critical", "serious", "critical"], "of 2 critical findings: X0, X2"),
    ],
)
def test_a_grade_has_its_reason(severities: list[str], reason: str) -> None:
    found = [Finding(f"X{number}", Severity(one), "text") for number, one in enumerate(severities)]
    assert grade_reason(found) == reason
