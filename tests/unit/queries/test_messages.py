"""What a delivery is shown as, by command and HTTP API."""

from __future__ import annotations

from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.times import iso
from bridge.queries.messages import delivery_value
from bridge.records.outbox import TryAgain
from tests.builders import BETA, message, observed_range
from tests.support.stores import memory_store
from tests.unit.web.explorer import deployment

NOW, LATER = 1_000.0, 1_300.0


def test_delivery_is_shown_with_tries_error_and_times() -> None:
    outbox, network = (store := memory_store()).outbox, deployment()
    store.observations.record(observed_range(message(1), now=100))
    (entry,) = outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=NOW, lease=30.0)
    shown = delivery_value(entry, network)
    assert (shown["state"], shown["claimedAt"], shown["claimedBy"]) == ("CLAIMED", iso(NOW), "w")
    failure = Failure(at=NOW, kind=FailureKind.TRANSIENT, code="TransientError", message="no answer")
    outbox.finish([TryAgain(entry.current_claim, failure, LATER)], NOW)
    (failed,) = outbox.entries(message(1).id)
    shown = delivery_value(failed, network)
    assert (shown["state"], shown["failedTries"], shown["lastError"]) == ("PENDING", 1, "no answer")
    assert (shown["availableAt"], shown["claimedAt"], shown["claimedBy"]) == (iso(LATER), None, None)
