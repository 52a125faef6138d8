"""What the tripwire found and did: one answer for the command and for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.protocol.deployment import Deployment, DeploymentError
from bridge.protocol.gmps import gmp_label
from bridge.tripwire.journal import Deed, Record
from bridge.tripwire.store import Incident, TripwireStore


def incident_value(incident: Incident, deployment: Deployment) -> dict[str, Any]:
    """An incident in short, for JSON."""
    return {
        "id": incident.id,
        "gmp": gmp_label(incident.gmp),
        "chain": _chain(deployment, incident.chain_id),
        "openedAt": incident.opened_at,
        "state": incident.state,
        "pausedUntil": incident.paused_until,
    }


def finding_value(record: Record) -> dict[str, Any]:
    """Something that pauses nothing, for JSON."""
    return {"at": record.at, **record.document}


def incident_details(
    incident: Incident,
    store: TripwireStore,
    deployment: Deployment,
    paused: Mapping[int, int],
    times: Mapping[int, int],
) -> dict[str, Any]:
    """All there is to know about an incident, for JSON.

    Args:
        incident: which.
        store: the tripwire's.
        deployment: the network.
        paused: by chain id, until when its router says that the GMP is paused; chains that do not answer are left out.
        times: by chain id, the time of its newest block.
    """
    records = store.records(incident.id)
    gmp, here = gmp_label(incident.gmp), _chain(deployment, incident.chain_id)
    pauses = [
        {
            "chain": _chain(deployment, chain_id),
            "until": until,
            "secondsLeft": max(0, until - times[chain_id]),
        }
        for chain_id, until in sorted(paused.items())
        if until > times[chain_id] or chain_id == incident.chain_id
    ]
    evidence = [record.document for record in records if record.deed is Deed.EVIDENCE]
    return {
        **incident_value(incident, deployment),
        "evidence": evidence,
        "history": [
            {"at": record.at, "what": record.deed.value, "signedBy": record.signer, **_short(record.document)}
            for record in records
        ],
        "pauses": pauses,
        "lacking": _lacking(incident, store, deployment),
        "limits": [
            "a pause stops no execution in the transaction of the forged receipt itself: only a quorum of two or more can",
            "the GMP speaks again when the pause ends",
        ],
        "next": [
            f"waybill gmp revoke-adapter {gmp} --chains {here} as the revoker: its receipts are void",
            *(
                f"waybill gmp floor {source} {here} 2 as the revoker, if one liar could suffice"
                for source in sorted({one["source"] for one in evidence})
            ),
            f"waybill gmp pause {gmp} --for 168 as the guardian, if six hours do not suffice",
            "waybill message retry ID --gmps OTHER for each message that lacks a receipt",
            f"waybill gmp resume {gmp} --chains {here} once it is sound, or if this was a mistake",
        ],
    }


def _lacking(incident: Incident, store: TripwireStore, deployment: Deployment) -> list[dict[str, Any]]:
    """The messages that wait for the GMP, and over what they can be retried."""
    found = []
    for message_id, source, _handed, received in store.lacking(incident.chain_id, incident.gmp):
        others = deployment.gmps_between(source, incident.chain_id) - {incident.gmp} - set(received)
        found.append(
            {
                "messageId": f"0x{message_id.hex()}",
                "source": _chain(deployment, source),
                "received": [gmp_label(number) for number in received],
                "retryOver": [gmp.label for gmp in sorted(others)],
            }
        )
    return found


def incident_seed(incident: Incident, store: TripwireStore, deployment: Deployment) -> dict[str, Any]:
    """An incident as a seed for the simulator: who lied where, in which way, and when after the first lie, in seconds.

    `tests/simulation/test_tripwire.py` plays it.
    """
    evidence = [record.document for record in store.records(incident.id) if record.deed is Deed.EVIDENCE]
    first = min((one["block"]["time"] for one in evidence), default=0)
    names = sorted({name for one in evidence for name in (one["source"], one["destination"])})
    chains = []
    for name in names:
        try:
            deployed = deployment.chain(name)
        except DeploymentError:
            continue
        chains.append({"name": name, "confirmations": deployed.confirmations, "finality": deployed.finality})
    return {
        "version": 1,
        "incident": incident.id,
        "seed": int.from_bytes(incident.id.encode()[-6:], "big"),
        "chains": chains,
        "forgeries": [
            {
                "kind": one["kind"],
                "gmp": one["gmp"],
                "source": one["source"],
                "destination": one["destination"],
                "after": one["block"]["time"] - first,
            }
            for one in evidence
        ],
    }


def _short(document: Mapping[str, Any]) -> dict[str, Any]:
    names: Sequence[str] = ("reason", "until", "transaction", "because", "kind", "messageId")
    return {name: document[name] for name in names if name in document}


def _chain(deployment: Deployment, chain_id: int) -> str:
    try:
        return deployment.chain(chain_id).name
    except DeploymentError:
        return str(chain_id)
