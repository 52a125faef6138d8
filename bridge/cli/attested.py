"""When GMPs had attested, as the relayer's store has it, for the report of an index that does not."""

from __future__ import annotations

from collections.abc import Collection

from bridge.cli.reading import open_bridge_store
from bridge.cli.workspace import Workspace
from bridge.ports import TransientError
from bridge.records.errors import StoreError


def attested_of(workspace: Workspace, message_ids: Collection[bytes]) -> dict[tuple[bytes, int], float]:
    """When the proof of each delivery was there (Unix seconds), by message and GMP.

    Raises:
        AttestationsUnknownError: there is no relayer's store here, or it can't be read.
    """
    from indexer.errors import AttestationsUnknownError

    try:
        with open_bridge_store(workspace) as store:
            if store is None:
                raise AttestationsUnknownError(f"no relayer of network {workspace.network!r} has its store here")
            known = store.figures.attested(message_ids)
    except (StoreError, TransientError) as error:
        raise AttestationsUnknownError(str(error)) from error
    return {(message_id, int(gmp)): at for (message_id, gmp), at in known.items()}
