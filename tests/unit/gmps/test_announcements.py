"""Where Hyperlane's validators announce themselves stands in the deployments file, unless a setting says otherwise."""

from __future__ import annotations

import pytest

from bridge.gmps.attestation import AttestationError, JsonDocuments
from bridge.gmps.registry import create_attesters
from bridge.gmps.settings import AttestationServices
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from tests.unit.gmps.test_adapter_dispatches import DEPLOYMENT, address

UNSET = AttestationServices().by_gmp()
NO_WEB = JsonDocuments(timeout=1)  # nothing is asked


def test_validators_of_the_deployments_file_need_no_setting() -> None:
    document = DEPLOYMENT.model_dump(mode="json", by_alias=True, exclude_none=True)
    with pytest.raises(AttestationError, match="is known for alpha, beta"):
        create_attesters(DEPLOYMENT, {}, UNSET, {Gmp.HYPERLANE}, NO_WEB)
    document["chains"][0]["gmps"]["hyperlane"]["validatorAnnounce"] = address("announcements")
    one = Deployment.model_validate(document)
    with pytest.raises(AttestationError, match="is known for beta"):
        create_attesters(one, {}, UNSET, {Gmp.HYPERLANE}, NO_WEB)
    settings = {Gmp.HYPERLANE: {"beta": address("others")}}
    assert Gmp.HYPERLANE in create_attesters(one, {}, settings, {Gmp.HYPERLANE}, NO_WEB)
