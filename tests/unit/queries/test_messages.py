"""What a delivery is shown as, by command and HTTP API."""

from __future__ import annotations

from typing import Any

from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.times import iso
from bridge.queries.explain import read_stored, stored_explanation
from bridge.queries.messages import explanation_value
from bridge.records.outbox import TryAgain
from tests.builders import BETA, message, observed_range
from tests.support.stores import memory_store
from tests.unit.web.explorer import deployment

NOW, LATER = 1_000.0, 1_300.0


def test_delivery_is_shown_with_tries_error_and_times() -> None:
    store = memory_store()
    store.observations.record(observed_range(message(1), now=100))

    def shown() -> dict[str, Any]:
        stored = read_stored(message(1).id, None, store, None)
        (progress,) = explanation_value(stored_explanation(deployment(), message(1).id, stored, NOW))["gmps"]
        return dict(progress)

    (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=NOW, lease=30.0)
    assert (shown()["stage"], shown()["claimedAt"]) == ("DELIVERING", iso(NOW))
    failure = Failure(at=NOW, kind=FailureKind.TRANSIENT, code="TransientError", message="no answer")
    store.outbox.finish([TryAgain(entry.current_claim, failure, LATER)], NOW)
    failed = shown()
    assert (failed["stage"], failed["failedTries"], failed["lastError"]) == ("FAILING", 1, "no answer")
    assert (failed["nextTryAt"], failed["claimedAt"]) == (iso(LATER), None)
