"""Composes a relayer's dead-letter queue, alerts and integrity checks from the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import structlog
from eth_account.signers.local import LocalAccount

from bridge.dead_letters.alerts import Alerts
from bridge.dead_letters.channels import Channel, Email, Mailbox, PagerDuty, Slack, Webhook
from bridge.dead_letters.governance import GovernanceChannel
from bridge.dead_letters.integrity import BEGINNING, NOTHING_DENIED, Verified, Violation, denied_decisions, verify
from bridge.dead_letters.parameters import OnChainParameters
from bridge.dead_letters.queue import DeadLetterQueue
from bridge.dead_letters.review import DeadLetterReview
from bridge.dead_letters.settings import AlertSettings, GovernanceSettings
from bridge.dead_letters.signing import KeySealer
from bridge.evm.supervision import run_forever
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import Chain, Clock
from bridge.records.dead_letters import LogHead
from bridge.relayer.own_messages import OwnMessages
from bridge.service.connections import connected
from bridge.service.keys import open_sealer
from bridge.service.settings import SELDOM, Settings
from bridge.store import Store, open_dead_letters
from bridge.store.dead_letters import DeadLetterLog

_log = structlog.get_logger(__name__)


class DeadLetterService:
    """The dead-letter handling of a relayer."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        store: Store,
        settings: Settings,
        clock: Clock,
        *,
        messages: OwnMessages,
        sealer: KeySealer,
    ) -> None:
        """Stores the dependencies. Opens nothing yet, since the letters' database may be unreachable."""
        self._chains = chains
        self._store = store
        self._settings = settings
        self.dead_letters = open_dead_letters(settings.dlq.url or settings.store)
        self.sealer = sealer
        self.dead_letter_queue = DeadLetterQueue(self.dead_letters, store, self.sealer, clock, settings.dlq)
        self._verified: LogHead | None = None  # the last record that was verified; None: the log was not verified yet
        self._seen: tuple[bytes, tuple[Violation, ...]] | None = None  # head and violations at the last check
        self._untold: list[Verified] = []  # alerts that a channel has not accepted yet
        self._parameters = on_chain_parameters(deployment, chains)
        told = channels(settings.dlq.alerts)
        governance = _governance(deployment, settings)
        if governance is not None:
            told.append(GovernanceChannel(deployment, governance, messages))
        self.alerts = Alerts(self.dead_letters, told, self._parameters.thresholds, clock)

    async def run(self) -> None:
        """Verifies the log, then monitors it until cancelled."""
        poll_interval = SELDOM * self._settings.poll_interval
        async with asyncio.TaskGroup() as group:
            group.create_task(run_forever("verify dead letters", self.verify, every=poll_interval))
            group.create_task(run_forever("close dead letters", self.dead_letter_queue.step, every=poll_interval))
            group.create_task(self.alerts.run(poll_interval))

    async def verify(self) -> bool:
        """Verifies the whole log, and in later calls the records added since. Raises one alert for each violation."""
        await self._announce()
        log, since = self.dead_letters, self._verified or BEGINNING
        # Before signers are read: a new signer's record is for the next check.
        until = await log.in_thread(log.last_sequence)
        trusted, denied = frozenset[str](), NOTHING_DENIED
        if until > since.sequence:  # otherwise no seal would be checked
            trusted = await trusted_accounts(log, self._parameters, self._settings)
            denied = await denied_decisions(log, self._chains, after=since.sequence)
        if self._verified is None:
            check = partial(verify_letters, log, self._store, trusted, denied=denied, until=until)
        else:
            check = partial(verify, log, trusted=trusted, denied=denied, since=since, until=until)
        verified = await asyncio.to_thread(check)
        seen, self._seen = self._seen, (verified.head, verified.violations)
        if verified.violations and seen != self._seen:
            self._untold.append(verified)
            await self._announce()
        if self._verified is None:
            _log.info("dead letters verified", records=verified.records, violations=len(verified.violations))
        if self._verified is None or not verified.violations:
            self._verified = LogHead(verified.records, verified.head)
        return False

    async def _announce(self) -> None:
        """Alerts all channels. Alerts that a channel does not accept are repeated at the next check."""
        self._untold = [one for one in self._untold if not await self.alerts.announce_tampering(one)]


def verify_letters(
    log: DeadLetterLog,
    store: Store,
    trusted: frozenset[str],
    head: bytes | None = None,
    *,
    denied: frozenset[int] = NOTHING_DENIED,
    until: int | None = None,
) -> Verified:
    """Verifies the log up to a record: its hashes and seals, the heads stored earlier, and that no letter is missing.

    For each dead delivery, the store records whether it has a letter.
    """
    noted = store.letter_head.noted()
    is_later = (
        until is not None and noted.sequence > until and log.has(noted)
    )  # recorded in the meantime; otherwise the log was truncated
    heads = [*([] if is_later else [noted.hash]), *([] if head is None else [head])]
    marked_dead = [event_id for event_id, has_letter in store.outbox.dead_letters().items() if has_letter]
    return verify(log, trusted=trusted, denied=denied, heads=heads, marked_dead=sorted(marked_dead), until=until)


async def trusted_accounts(log: DeadLetterLog, parameters: OnChainParameters, settings: Settings) -> frozenset[str]:
    """Returns the accounts whose seals are trusted.

    These are the relayer's account, those in the settings, and the current operators.
    """
    signers = await log.in_thread(log.decision_signers)
    operators = {signer for signer in signers if await parameters.is_operator(signer)}
    return frozenset({open_sealer(settings).address, *settings.dlq.trusted_signers, *operators})


async def verify_network(
    deployment: Deployment, settings: Settings, log: DeadLetterLog, store: Store, head: bytes | None
) -> Verified:
    """Verifies the log without a relayer, reading the operators from the chains."""
    async with connected(deployment, settings) as chains:
        until = log.last_sequence()
        trusted = await trusted_accounts(log, on_chain_parameters(deployment, chains), settings)
        denied = await denied_decisions(log, chains)
    return verify_letters(log, store, trusted, head, denied=denied, until=until)


def on_chain_parameters(deployment: Deployment, chains: Mapping[int, Chain]) -> OnChainParameters:
    """Returns the reader of the parameters on the network's first chain."""
    deployed = deployment.chains[0]
    return OnChainParameters(chains[deployed.chain_id], deployed.router, deployed.parameters)


def open_review(
    deployment: Deployment,
    chains: Mapping[int, Chain],
    store: Store,
    *,
    log: DeadLetterLog,
    settings: Settings,
    clock: Clock,
    operator: LocalAccount | None = None,
) -> DeadLetterReview:
    """Opens a review as configured. It is read-only without an operator's key."""
    return DeadLetterReview(
        deployment=deployment,
        chains=chains,
        store=store,
        log=log,
        parameters=on_chain_parameters(deployment, chains),
        clock=clock,
        operator=operator,
        governance=_governance(deployment, settings),
    )


def _governance(deployment: Deployment, settings: Settings) -> GovernanceSettings | None:
    """Returns the recipient of escalations, by default the last chain's example inbox if there is one."""
    last = deployment.chains[-1]
    if settings.dlq.governance is not None or "inbox" not in last.examples:
        return settings.dlq.governance
    return GovernanceSettings(chain=last.name, address=last.examples["inbox"])


def channels(alerts: AlertSettings) -> list[Channel]:
    """Returns the configured alert channels."""
    found: list[Channel] = []
    if not alerts.enabled:
        return found
    if alerts.webhook is not None:
        found.append(Webhook(alerts.webhook, timeout=alerts.TIMEOUT))
    if alerts.slack is not None:
        found.append(Slack(alerts.slack, timeout=alerts.TIMEOUT))
    if alerts.pagerduty_key is not None:
        found.append(PagerDuty(alerts.pagerduty, alerts.pagerduty_key.get_secret_value(), timeout=alerts.TIMEOUT))
    if alerts.email is not None:
        found.append(Email(Mailbox.parse(alerts.email.get_secret_value()), timeout=alerts.TIMEOUT))
    return found
