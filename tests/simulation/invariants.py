"""What must hold in the end of every history."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bridge.protocol.delivery_policy import DEFAULT_POLICIES, DeliveryPolicy, GiveUpReason
from bridge.protocol.message import Kind
from bridge.records.dead_letters import LetterStatus, RecordKind
from bridge.records.finality_records import FOLLOWED, change_id_of
from bridge.records.jobs import SyncJob, SyncState
from bridge.records.outbox import OutboxEntry, OutboxState, event_id_of
from bridge.records.transactions import SlotState
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog
from tests.support.simulation import DAPP, RELAYER, World
from tests.support.simulation.world import Sent
from tests.support.stores import memory_dead_letters

POLICIES: Mapping[Kind, DeliveryPolicy] = {
    **DEFAULT_POLICIES,
    Kind.PLAIN: replace(DEFAULT_POLICIES[Kind.PLAIN], max_retries=200),  # each crash is a try, too
    Kind.STATE_SYNC: replace(DEFAULT_POLICIES[Kind.STATE_SYNC], max_retries=200),
    Kind.GOVERNANCE_EXECUTE: replace(DEFAULT_POLICIES[Kind.GOVERNANCE_EXECUTE], max_retries=200),
    Kind.LOCK_MANAGEMENT: DeliveryPolicy(max_retries=1, base=0.5, cap=2, dead_letter=True),
    Kind.GOVERNANCE_VOTE: DeliveryPolicy(max_retries=1, base=0.5, cap=2, dead_letter=True),
    Kind.QUERY: DeliveryPolicy(max_retries=1, base=0.5, cap=2, dead_letter=False),
}
MORTAL = (Kind.GOVERNANCE_VOTE, Kind.QUERY, Kind.LOCK_MANAGEMENT)


@dataclass(slots=True)
class History:
    """What happened, for whoever has to understand a failure."""

    seed: int
    world: World
    store: Store
    dead_letters: DeadLetterLog = field(default_factory=memory_dead_letters)
    follows: bool = False  # whether state changes are followed
    events: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.events.append(f"{asyncio.get_running_loop().time():8.2f} {text}")


def standing(world: World) -> list[Sent]:
    """What dApps sent, and what the source chain as it is now includes."""
    return [sent for sent in world.sent if _is_included(world, sent)]


def _is_included(world: World, sent: Sent) -> bool:
    chain = world.chains[sent.source]
    return sent.created != [] and chain.includes(sent.transaction_hash)


def complaints(history: History) -> list[str]:
    """Everything that is not as it must be in the end."""
    found = []
    for sent in standing(history.world):
        found += _message_complaints(history, sent)
    for chain in history.world.chains.values():
        found += (c for one in (RELAYER, DAPP) for c in _nonce_complaints(history, chain.chain_id, one.address))
    return found + _letter_complaints(history) + _heartbeat_complaints(history)


def _message_complaints(history: History, sent: Sent) -> list[str]:
    world, store, message = history.world, history.store, sent.message
    name = f"message {message.nonce} of {message.source_chain}"
    found = []
    entries = [entry for entry in store.outbox.entries(message.id) if entry.orphaned_at is None]
    observed = store.observations.attempts(message.id)
    dispatched = {gmp for attempt in observed for gmp in attempt.gmps}
    expected = {event_id_of(message.id, gmp, attempt.attempt) for attempt in observed for gmp in attempt.gmps}
    if {entry.event_id for entry in entries} != expected or not dispatched:
        found.append(f"{name} is in the outbox for {[entry.event_id for entry in entries]}, not for {expected}")
    mortal = [one for one in entries if one.state is OutboxState.DEAD and message.kind in MORTAL]
    dead = mortal + [one for one in entries if world.executions(message) and _ended_with_its_message(one)]
    found += (
        f"{entry.event_id} is {entry.state}, confirmed at {entry.confirmed_at}: {entry.last_error}"
        for entry in entries
        if entry not in dead and (entry.state is not OutboxState.DELIVERED or entry.confirmed_at is None)
    )
    found += (
        f"{one.event_id} died after {one.failed_tries} tries: {one.last_error}"
        for one in mortal
        if one.failed_tries < 2
    )
    alive = {one.dispatch.gmp for one in entries if one not in dead}
    ever = {one.dispatch.gmp for one in store.outbox.entries(message.id)}  # a retry may fall after its delivery
    receipts = world.receipts(message)
    if not alive <= receipts <= ever:
        found.append(f"{name} was delivered by {receipts}: less than {alive} or more than {ever}")
    if history.follows and message.kind in FOLLOWED:
        return found + _change_complaints(history, name, sent)
    due = len(receipts) >= message.quorum
    if world.executions(message) != due:
        found.append(
            f"{name} with {len(receipts)} receipts of {message.quorum} was executed {world.executions(message)} times"
        )
    return found


def _change_complaints(history: History, name: str, sent: Sent) -> list[str]:
    """A state change is applied once on each of its chains, whatever became of its deliveries, and its record says so."""
    message, chain = sent.message, history.world.chains[sent.source]
    found = []
    if (times := history.world.executions(message)) != 1:
        found.append(f"{name} is followed, and was applied {times} times on {message.destination_chain}")
    one = history.store.jobs.newest(SyncJob, message.id)
    if one is None:
        return [*found, f"{name} is not followed"]
    if one.state is not SyncState.APPLIED:
        found.append(f"{name} is {one.state} after {one.tries} re-propagations: {one.outcome}")
    record = one.record
    header = chain.header(record.block.number)
    if header is None or header.hash != record.block.hash or record.transaction_hash != sent.transaction_hash:
        found.append(f"{name} has a record of block {record.block}, which is not there")
    together = {
        other.message.destination_chain
        for other in standing(history.world)
        if other.transaction_hash == sent.transaction_hash
    }
    named = {other.record.destination_chain for other in history.store.jobs.of_change(record)}
    if record.change_id != change_id_of(message, sent.transaction_hash) or together != named:
        found.append(f"{name} went to {together}, and its change is recorded for {named}")
    return found


def _heartbeat_complaints(history: History) -> list[str]:
    """In the end every lane says that nothing is behind; what was reorged away on its source is no part of it."""
    return [
        f"lane {one.lane} says it has applied {one.progress.applied} of {one.progress.primary_final}, and lags {one.progress.lag_seconds} s"
        for one in history.store.finality_records.heartbeats()
        if one.progress.lag_seconds or one.progress.applied != one.progress.primary_final
    ]


def _ended_with_its_message(entry: OutboxEntry) -> bool:
    """Whether it is a delivery that is tried without end, and was given up because its message had ended."""
    ended = (entry.last_error or "").startswith(GiveUpReason.MESSAGE_ENDED)
    return entry.state is OutboxState.DEAD and POLICIES[entry.kind].max_retries is None and ended


def _letter_complaints(history: History) -> list[str]:
    """A delivery that is dead has one letter, if its kind has letters and it did not expire; a letter is about a delivery that is, or was, dead."""
    store = history.store
    dead = {
        entry.event_id
        for entry in store.outbox.listed(state=OutboxState.DEAD, limit=10_000)
        if POLICIES[entry.kind].dead_letter and GiveUpReason.MESSAGE_TTL_EXPIRED not in (entry.last_error or "")
    }
    dead_letters = history.dead_letters.dead_letters(limit=None)
    records = [record.event_id for record in history.dead_letters.records() if record.kind is RecordKind.ENTERED]
    found = [f"{event_id} is dead without a letter" for event_id in dead - {letter.event_id for letter in dead_letters}]
    found += (f"{event_id} has {times} letters" for event_id, times in Counter(records).items() if times > 1)
    pending = {one.event_id for one in dead_letters if one.status is LetterStatus.PENDING_REVIEW}
    standing_ids = {sent.message.id for sent in standing(history.world)}
    found += (
        f"{one.event_id} has a letter to decide about, and is not dead"
        for one in dead_letters
        if one.event_id in pending - dead and one.message_id in standing_ids
    )
    return found


def _nonce_complaints(history: History, chain_id: int, account: str) -> list[str]:
    ledger = history.store.transactions
    open_slots = ledger.open_slots(chain_id, account)
    found = [
        f"nonce {slot.nonce} of {account} on {chain_id} is {slot.state} for {slot.named_keys}" for slot in open_slots
    ]
    included = [ledger.slot(slot_id) for ids in ledger.included_slots(chain_id, account).values() for slot_id in ids]
    found += (f"nonce {slot.nonce} of {account} on {chain_id} is not final" for slot in included)
    used = history.world.chains[chain_id].state.nonces.get(account, 0)
    final = [slot.nonce for slot in ledger.slots(chain_id, account) if slot.state is SlotState.FINAL]
    if final != list(range(used)):
        found.append(f"{account} has used nonces up to {used} on {chain_id}, the ledger ends with {final}")
    return found


def wasted_transactions(history: History) -> int:
    """Transactions of the relayer that did nothing: reverted, or no-ops."""
    return sum(
        slot.ended_as_noop or (slot.included is not None and not slot.included.succeeded)
        for chain_id in history.world.chains
        for slot in history.store.transactions.slots(chain_id, RELAYER.address)
    )


def deliveries(history: History) -> int:
    """How many (message, GMP) pairs have a receipt."""
    return sum(len(history.world.receipts(sent.message)) for sent in standing(history.world))
