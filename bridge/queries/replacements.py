"""Queries about adapters that the network file replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.gmps.registry import adapter_class
from bridge.protocol.addresses import created_adapter
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.store import Store


def replacement_values(
    deployment: Deployment, numbers: Mapping[tuple[str, Gmp], int], store: Store | None
) -> list[dict[str, Any]]:
    """Returns each unfinished replacement, for JSON. ``toFormer`` and ``toNew`` count the deliveries under way.

    Args:
        deployment: the network; its adapters are in use until they are replaced.
        numbers: the adapter numbers in the network file, by chain name and GMP.
        store: the relayer's store; None if none has run.
    """
    found = []
    for chain in deployment.chains:
        for gmp in sorted(chain.gmp_numbers):
            former = chain.adapter(gmp)
            new = created_adapter(chain.router, int(gmp), numbers.get((chain.name, gmp), 1))
            if (chain.name, gmp) not in numbers or new.lower() == former.lower():
                continue
            entries = store.outbox.under_way(chain.chain_id, gmp) if store else []
            addressees = [adapter_class(gmp).addressee(entry.dispatch) for entry in entries]
            counts = {one.lower(): addressees.count(one) for one in addressees if one}
            found.append(
                {
                    "chain": chain.name,
                    "gmp": gmp.label,
                    "former": former,
                    "new": new,
                    "toFormer": counts.get(former.lower(), 0),
                    "toNew": counts.get(new.lower(), 0),
                }
            )
    return found
