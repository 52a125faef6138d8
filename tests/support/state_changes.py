"""State changes that go to several chains, as a relayer's store has them."""

from __future__ import annotations

from bridge.domain.jobs import SyncJob
from bridge.store import Store


def of_change(store: Store, change_id: bytes) -> list[SyncJob]:
    """All applications of one state change that are followed, by destination."""
    seen = (store.jobs.newest(SyncJob, one.message_id) for one in store.observations.messages(limit=10**9))
    found = (one for one in seen if one is not None and one.record.change_id == change_id)
    return sorted(found, key=lambda one: one.record.destination_chain)
