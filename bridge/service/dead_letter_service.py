"""Composes a relayer's dead-letter queue, alerts and integrity checks from the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import structlog
from eth_account.signers.local import LocalAccount

from bridge.dead_letters.alerts import Alerts
from bridge.dead_letters.channels import Channel, Email, Mailbox, PagerDuty, Slack, Webhook
from bridge.dead_letters.governance import Governance, GovernanceChannel
from bridge.dead_letters.integrity import BEGINNING, NOTHING_DENIED, Verified, Violation, denied_decisions, verify
from bridge.dead_letters.parameters import OnChainParameters
from bridge.dead_letters.queue import DeadLetterQueue
from bridge.dead_letters.review import DeadLetterReview
from bridge.dead_letters.settings import AlertSettings
from bridge.dead_letters.signing import KeySealer
from bridge.evm.supervision import retry_until_success, run_forever
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import Chain, Clock, TransientError
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
        self._deployment = deployment
        self._chains = chains
        self._store = store
        self._settings = settings
        self.dead_letters = open_dead_letters(settings.dlq.url or settings.store)
        self.sealer = sealer
        self.dead_letter_queue = DeadLetterQueue(self.dead_letters, store, self.sealer, clock, settings.dlq)
        self._verified = BEGINNING  # the last record that was verified
        self._seen: tuple[bytes, tuple[Violation, ...]] | None = None  # problems already alerted on
        self._untold: Verified | None = None  # alerts that a channel has not accepted yet
        self._parameters = on_chain_parameters(deployment, chains)
        told = channels(settings.dlq.alerts)
        governance = _governance(deployment, settings)
        if governance is not None:
            told.append(GovernanceChannel(deployment, governance, messages))
        self.alerts = Alerts(self.dead_letters, told, self._parameters, clock)

    async def run(self) -> None:
        """Verifies the log, then monitors it until cancelled."""
        poll_interval = SELDOM * self._settings.poll_interval
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_verified(poll_interval))
            group.create_task(run_forever("close dead letters", self.dead_letter_queue.step, every=poll_interval))
            group.create_task(self.alerts.run(poll_interval))

    async def _keep_verified(self, every: float) -> None:
        await retry_until_success("verify dead letters", self._verify, every=every)
        await run_forever("verify new dead letters", self.verify_growth, every=every)

    async def verify_growth(self) -> bool:
        """Verifies the records added since the last check, and raises one alert for each violation."""
        if self._untold is not None:
            await self._announce(self._untold)
        trusted, denied, seen_to = frozenset[str](), NOTHING_DENIED, self._verified.sequence
        # Before signers are read: a new signer's record is for the next check.
        until = await self.dead_letters.in_thread(self.dead_letters.last_sequence)
        if until > seen_to:  # otherwise no seal would be checked
            trusted = await trusted_accounts(self.dead_letters, self._parameters, self._settings)
            denied = await denied_decisions(self.dead_letters, self._chains, after=seen_to)
        check = partial(verify, trusted=trusted, denied=denied, since=self._verified, until=until)
        verified = await asyncio.to_thread(check, self.dead_letters)
        if (seen := (verified.head, verified.violations)) != self._seen:
            self._seen = seen
            await self._announce(verified)
        if not verified.violations:
            self._verified = LogHead(verified.records, verified.head)
        return False

    async def _announce(self, verified: Verified) -> None:
        """Alerts all channels. Channels that fail are retried at the next check."""
        self._untold = None if await self.alerts.announce_tampering(verified) else verified

    async def _verify(self) -> None:
        try:
            until = await self.dead_letters.in_thread(self.dead_letters.last_sequence)
            trusted = await trusted_accounts(self.dead_letters, self._parameters, self._settings)
            denied = await denied_decisions(self.dead_letters, self._chains)
            verified = await asyncio.to_thread(
                verify_letters, self.dead_letters, self._store, trusted, denied=denied, until=until
            )
        except TransientError:
            raise
        except Exception as error:
            raise TransientError(f"dead letters can't be read: {error}") from error
        await self._announce(verified)
        self._verified = LogHead(verified.records, verified.head)
        _log.info("dead letters verified", records=verified.records, violations=len(verified.violations))


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


def _governance(deployment: Deployment, settings: Settings) -> Governance | None:
    """Returns the recipient of escalations, by default the last chain's example inbox if there is one."""
    named = settings.dlq.governance
    if named is not None:
        return Governance(named.chain, named.address, named.wei_per_day)
    last = deployment.chains[-1]
    return Governance(last.chain_id, last.examples["inbox"]) if "inbox" in last.examples else None


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
