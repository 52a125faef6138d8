"""The tables of `waybill.toml`: how the chains are indexed, dead letters, attestations, reliability, and the types of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from eth_utils.address import to_checksum_address
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

from bridge.dead_letters.governance import DEFAULT_WEI_PER_DAY
from bridge.dead_letters.queue import DeadLetterSettings
from bridge.evm.account import SendingSettings
from bridge.evm.actions import Coordinator
from bridge.gmps.attestation import AttestationSettings
from bridge.gmps.registry import attestation_setting
from bridge.protocol.addresses import checksummed
from bridge.protocol.delivery_policy import DeliveryPolicy
from bridge.protocol.deployment import COORDINATOR_EXAMPLE, Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import HIGH_FREQUENCY_TRADING_TTL, RECOMMENDED_TTL, REGULATED_ASSET_TTL
from bridge.protocol.invariants import Reliability
from bridge.protocol.lanes import Lane
from bridge.protocol.message import Kind
from bridge.records.spending import SpendBounds
from bridge.records.streams import Stream
from bridge.relayer.actions import ActionSettings
from bridge.relayer.propagation import PropagationSettings
from bridge.relayer.settings import PhaseLimit
from bridge.streams.settings import (
    DeadLetterTopicSettings,
    KafkaSettings,
    Semantics,
)
from bridge.tripwire.settings import MAX_PAUSE, TripwireSettings

_ETHER = 10**18
_UNITS = {"wei": 1, "gwei": 10**9, "ether": _ETHER}

_DAY = 86_400  # seconds


def _listed(value: Any) -> Any:
    """A comma-separated list, as the environment has it, or a sequence."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _gmps(value: Any) -> Any:
    return [Gmp.parse(item) if isinstance(item, str) else item for item in _listed(value)]


def _wei(value: Any) -> Any:
    """An amount as a number of wei, or as text with its unit: ``"0.5 ether"``, ``"30 gwei"``."""
    if not isinstance(value, str) or value.strip().isdigit():
        return value
    number, _, unit = value.strip().partition(" ")
    if unit not in _UNITS:
        raise ValueError(f"{value!r} is no amount: a number of wei, or one with its unit, such as '0.5 ether'")
    whole, _, fraction = number.partition(".")
    decimals = len(str(_UNITS[unit])) - 1
    if not whole.isdigit() or (fraction and not fraction.isdigit()) or len(fraction) > decimals:
        raise ValueError(f"{value!r} is no whole number of wei")
    return int(whole) * _UNITS[unit] + int(fraction.ljust(decimals, "0") or "0")


def _address_or_any(text: str) -> str:
    return text if text == ANY else checksummed(text)


ANY: Final = "any"
"""Stands for every sender."""

_TEXTS: Final = list[str] | str
"""What lists may be written as: a list, or names with commas between them, as in a variable of the environment."""

Address = Annotated[str, AfterValidator(checksummed)]
AddressesOrAny = Annotated[
    frozenset[Annotated[str, AfterValidator(_address_or_any)]],
    NoDecode,
    BeforeValidator(_listed, json_schema_input_type=_TEXTS),
]
Addresses = Annotated[frozenset[Address], NoDecode, BeforeValidator(_listed, json_schema_input_type=_TEXTS)]
Gmps = Annotated[frozenset[Gmp], NoDecode, BeforeValidator(_gmps, json_schema_input_type=_TEXTS)]
Keys = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_listed, json_schema_input_type=_TEXTS)]
Names = Annotated[frozenset[str], NoDecode, BeforeValidator(_listed, json_schema_input_type=_TEXTS)]
Wei = Annotated[int, BeforeValidator(_wei, json_schema_input_type=int | str)]


class Section(BaseModel):
    """A table in the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PolicyOverride(Section):
    """What to change in one row of the policy table; times in seconds."""

    max_retries: int | None = Field(default=None, ge=0, description="tries after the first")
    base: float | None = Field(default=None, ge=0, description="the first wait")
    multiplier: float | None = Field(
        default=None,
        ge=1,
        le=10,
        description="how many times as long as the one before each further wait is; 2 by default",
    )
    cap: float | None = Field(default=None, ge=0, description="the longest wait")
    jitter: float | None = Field(default=None, ge=0, lt=1, description="share by which a wait gets longer or shorter")
    dead_letter: bool | None = Field(default=None, description="whether running out of tries leaves a dead letter")

    def applied_to(self, policy: DeliveryPolicy) -> DeliveryPolicy:
        """The row with the changes."""
        return replace(policy, **self.model_dump(exclude_none=True))


_SIGNER_FORMS: Final = (
    'a signer is { environment = "VARIABLE" }, { keystore = "FILE", password_file = "FILE" }'
    ' or { remote = "URL", address = "0x…" }'
)


class SignerSource(Section):
    """Where one key is: in a variable, in a keystore file, or with a remote signer. Exactly one of the three."""

    environment: str | None = Field(default=None, description="the variable that holds a private key")
    keystore: Path | None = Field(default=None, description="a version 3 keystore file")
    password_file: Path | None = Field(default=None, description="with the keystore's password")
    remote: str | None = Field(
        default=None, pattern=r"^https?://", description="a signer's JSON-RPC, such as Web3signer's"
    )
    address: Address | None = Field(default=None, description="the remote signer's account")
    certificate: Path | None = Field(
        default=None, description="a PEM file with the certificate and key that the remote signer asks for (TLS)"
    )
    authority: Path | None = Field(
        default=None, description="a PEM file with the authority of the remote signer's own certificate"
    )
    chains: Names = Field(default=frozenset(), description="names of the chains it sends on; none is every chain")

    @model_validator(mode="before")
    @classmethod
    def _has_a_known_form(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise ValueError(f"{_SIGNER_FORMS}; found text or a number")  # noqa: TRY004  # pydantic takes a ValueError
        if unknown := sorted(set(value) - set(cls.model_fields)):
            raise ValueError(f"{_SIGNER_FORMS}; found {', '.join(unknown)}")
        return value

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        named = [name for name in ("environment", "keystore", "remote") if getattr(self, name) is not None]
        if len(named) != 1:
            found = " and ".join(named) or "none"
            raise ValueError(f"{_SIGNER_FORMS}; exactly one of the first names must be there: found {found}")
        if self.keystore is not None and self.password_file is None:
            raise ValueError("a keystore needs password_file, the file that holds its password")
        if self.remote is not None and self.address is None:
            raise ValueError("a remote signer needs address, the account that it signs for")
        if (self.certificate or self.authority) and not (self.remote or "").startswith("https://"):
            raise ValueError("certificate and authority are for a remote signer at https://")
        return self


class SpendLimit(Section):
    """What a lane, or its retries, may cost per day (UTC)."""

    source: str | None = Field(default=None, description="name of a chain; none is every one")
    destination: str | None = Field(default=None, description="the same")
    wei_per_day: Wei = Field(gt=0, description="what may be spent")

    def fits(self, source: str, destination: str) -> bool:
        """Whether it is about that lane."""
        return self.source in (None, source) and self.destination in (None, destination)


def wei_by_lane(limits: Sequence[SpendLimit], deployment: Deployment) -> Mapping[tuple[int, int], int]:
    """Wei per day of each lane that has a limit, by its chains' ids; where several limits fit, the least counts."""
    found: dict[tuple[int, int], int] = {}
    for source, destination in permutations(deployment.chains, 2):
        fitting = [limit.wei_per_day for limit in limits if limit.fits(source.name, destination.name)]
        if fitting:
            found[source.chain_id, destination.chain_id] = min(fitting)
    return found


class SpendingTable(Section):
    """What transactions may cost on each chain, in its own currency, and how often executions may fail."""

    message: Wei = Field(default=_ETHER // 2, gt=0, description="wei that one message may cost on a chain, ever")
    sender_per_day: Wei = Field(
        default=2 * _ETHER, gt=0, description="wei that one sender's messages may cost on a chain per day (UTC)"
    )
    lane_per_day: Wei = Field(
        default=5 * _ETHER, gt=0, description="wei that a lane may cost on a chain per day; `spend_limits` names others"
    )
    chain_per_day: Wei = Field(default=10 * _ETHER, gt=0, description="wei that all may cost on a chain per day")
    message_failures: int = Field(
        default=5, gt=0, description="executions of one message that may fail in a transaction, ever"
    )
    sender_failures_per_day: int = Field(
        default=50, gt=0, description="executions of one sender's messages that may fail in a transaction per day"
    )
    data_fees: dict[str, Wei] = Field(
        default={},
        description="by chain, wei that a byte of a transaction costs beside its gas: a rollup's fee for data",
    )

    def bounds(self, lanes: Mapping[tuple[int, int], int], data_fees: Mapping[int, int]) -> SpendBounds:
        """The bounds of the spending gate.

        Args:
            lanes: the limits of some lanes, in wei per day, by source and destination.
            data_fees: `data_fees` by chain id.
        """
        return SpendBounds(
            message=self.message,
            sender=self.sender_per_day,
            lane=self.lane_per_day,
            lanes={Lane(*ends): wei for ends, wei in lanes.items()},
            chain=self.chain_per_day,
            message_failures=self.message_failures,
            sender_failures=self.sender_failures_per_day,
            data_fees=data_fees,
        )


class ChainSettings(Section):
    """One chain's endpoints, where they differ from the deployments file."""

    rpc_urls: tuple[str, ...] = Field(default=(), description="in place of the deployments file's")
    ws_url: str | None = Field(
        default=None, pattern=r"^wss?://", description="announces new blocks; polling continues as well"
    )
    agreement: int | None = Field(
        default=None,
        ge=1,
        description="endpoints that must say the same before anything counts; by default the deployments file's number, else 1",
    )
    requests_per_second: float | None = Field(default=None, gt=0, description="to each endpoint; none is no limit")
    batch: int = Field(default=50, ge=1, description="requests that travel to an endpoint together at most")
    concurrency: int | None = Field(
        default=None, gt=0, description="requests that the index has under way at an endpoint; none is no limit"
    )


class LaneStall(Section):
    """When messages of some lanes count as stalled."""

    source: str | None = None  # name of a chain; none is every one
    destination: str | None = None
    stall_after: int = Field(gt=0)

    def fits(self, source: str, destination: str) -> bool:
        """Whether it is about that lane."""
        return self.source in (None, source) and self.destination in (None, destination)


class IndexTable(Section):
    """How the chains are indexed, and when a retry is asked for. Times are in seconds where no other unit is named."""

    stall_after: int = Field(default=900, gt=0, description="until a message without its quorum is stalled")
    stall_after_by_kind: dict[str, int] = Field(default={}, description="the same, for some kinds of message")
    lanes: tuple[LaneStall, ...] = Field(
        default=(),
        description="the same, for some lanes (source, destination, stall_after), before what is said of kinds; the last that fits a lane counts",
    )
    learn_deadlines: bool = Field(default=False, description="whether other lanes' is taken from their own latencies")
    max_lag: int = Field(default=120, gt=0, description="behind which a chain is too far behind to judge by")
    max_message_retries: int = Field(
        default=10,
        gt=0,
        description="retries of one message that are asked for at most, if its kind's policy has an end",
    )
    requests_per_lane_minute: int = Field(default=60, gt=0, description="retries asked for, per lane and minute")
    silence_after: int = Field(
        default=86_400, gt=0, description="until the silence of a message that no GMP delivers is a divergence"
    )
    poll_interval: float = Field(
        default=1.0, gt=0, description="between two looks at a chain at least; each block gets one look (devnet: 0.1)"
    )
    rpc_timeout: float = Field(default=10.0, gt=0, description="until a request counts as failed")
    hash_window: int = Field(default=128, ge=2, description="recent blocks whose hashes are remembered")
    max_blocks_per_batch: int = Field(default=20_000, gt=0, description="blocks read at once by the stream")
    max_logs_per_batch: int = Field(default=10_000, gt=0, description="logs after which a batch of the stream ends")
    finality_depth: int = Field(default=64, gt=0, description="blocks, where a node does not know the tag finalized")
    rollback_patience: float = Field(default=2.0, ge=0, description="until a lower head counts as a rollback")
    failover_patience: float = Field(
        default=60.0,
        ge=0,
        description="until the index fails over to an endpoint that has another last block than the index",
    )
    backfill_blocks: int = Field(
        default=10_000, gt=0, description="final blocks behind from which Spark reads them in parallel"
    )
    lake_interval: float = Field(default=30.0, gt=0, description="between two appends to the lake")
    refresh_interval: float = Field(default=3_600.0, gt=0, description="between two refreshes of the tables")
    verify_interval: float = Field(default=300.0, gt=0, description="between two comparisons with what routers count")
    keep_days: int = Field(default=30, ge=0, description="days that the store keeps messages that have ended")
    keep_hours: int = Field(default=168, ge=0, description="hours for which the lake's earlier versions can be read")

    @field_validator("stall_after_by_kind")
    @classmethod
    def _names_kinds(cls, limits: dict[str, int]) -> dict[str, int]:
        for name, seconds in limits.items():
            if name.upper() not in Kind.__members__:
                raise ValueError(f"{name!r} is no kind of message; the kinds are {', '.join(Kind.__members__).lower()}")
            if seconds <= 0:
                raise ValueError(f"the limit of {name} is {seconds}; it must be greater than 0")
        return limits

    def by_kind(self) -> Mapping[Kind, int]:
        """Limits of some kinds."""
        return {Kind[name.upper()]: seconds for name, seconds in self.stall_after_by_kind.items()}

    def by_lane(self, deployment: Deployment) -> Mapping[tuple[int, int], int]:
        """Limits of some lanes, by their chains' ids."""
        return {
            (source.chain_id, destination.chain_id): limit.stall_after
            for limit in self.lanes
            for source in deployment.chains
            for destination in deployment.chains
            if source is not destination and limit.fits(source.name, destination.name)
        }


class EmailSettings(Section):
    """A mail server, and whom to write to."""

    host: str = Field(description="the mail server")
    port: int = Field(default=25, gt=0, lt=65_536, description="of the mail server")
    sender: str = Field(pattern=r"^[^@\s]+@[^@\s]+$", description="address that the mails come from")
    recipients: tuple[str, ...] = Field(min_length=1, description="addresses that they go to")
    starttls: bool = Field(default=False, description="whether to encrypt with STARTTLS")
    user: str | None = Field(default=None, description="to log in as")
    password: SecretStr | None = Field(default=None, description="of that user")


class AlertSettings(Section):
    """Who is notified of dead letters. Each channel that is named is notified of each one."""

    enabled: bool = Field(default=True, description="whether alerts are sent")
    webhook: str | None = Field(
        default=None, pattern=r"^https?://", description="URL that gets the whole notice as JSON"
    )
    slack: str | None = Field(default=None, pattern=r"^https?://", description="an incoming webhook in Slack's format")
    pagerduty: str = Field(
        default="https://events.pagerduty.com/v2/enqueue",
        pattern=r"^https?://",
        description="where PagerDuty takes events",
    )
    pagerduty_key: SecretStr | None = Field(
        default=None, description="the integration's routing key; none: PagerDuty is not notified"
    )
    email: EmailSettings | None = Field(default=None, description="see below; none: no mails")
    timeout: float = Field(default=10.0, gt=0, description="until a channel counts as silent")


class OnChain(Section):
    """A contract on a chain of the network."""

    chain: str  # name or id
    address: Address


class GovernanceTable(OnChain):
    """Who decides what operators may not."""

    wei_per_day: Wei = Field(
        default=DEFAULT_WEI_PER_DAY,
        ge=0,
        description="what the relayer's own messages to it may cost on their source per day (UTC)",
    )


class DeadLetterTable(Section):
    """Everything about dead letters that can be set. Times are in seconds."""

    url: str | None = Field(
        default=None, description="where they are kept, as a SQLAlchemy URL; none: in the relayer's store"
    )
    key: SecretStr | None = Field(default=None, description="seals the records; none: the relayer's, or a signer's")
    trusted_signers: Addresses = Field(
        default=frozenset(), description="accounts whose seals count, in addition to the present one's"
    )
    retention_days: float = Field(
        default=30, gt=0, description="days for which a letter's document is kept at least; its record stays"
    )
    tries: int = Field(default=3, gt=0, description="to write a letter, before its lane halts")
    pause: float = Field(default=1.0, ge=0, description="between two such tries")
    poll_interval: float = Field(default=5.0, gt=0, description="between two looks at what became of open letters")
    parameters: OnChain | None = Field(
        default=None,
        description="chain and address of the contract with thresholds and operators; none: the deployments file's",
    )
    governance: GovernanceTable | None = Field(
        default=None,
        description="chain and address of who gets escalations, as a recipient of messages; wei_per_day, see below",
    )
    alerts: AlertSettings = Field(default=AlertSettings(), description="who is notified")

    def dead_letter_queue(self) -> DeadLetterSettings:
        """What the dead_letter_queue needs of these."""
        return DeadLetterSettings(
            retention=self.retention_days * _DAY, tries=self.tries, pause=self.pause, poll_interval=self.poll_interval
        )


_ATTESTATIONS: Final = {gmp: setting for gmp in Gmp if (setting := attestation_setting(gmp))}
_FIELDS: Final[dict[str, Any]] = {gmp.label: setting for gmp, setting in _ATTESTATIONS.items()}
_GmpAttestations: Any = create_model("_GmpAttestations", __base__=Section, **_FIELDS)


class AttestationTable(_GmpAttestations):  # type: ignore[misc]  # the GMPs' folders say what it holds
    """Whom to ask for what a GMP's own parties signed. A devnet asks nobody: it signs itself."""

    timeout: float = Field(default=10.0, gt=0, description="until an answer is given up")

    def settings(self, *, is_testnet: bool = False) -> AttestationSettings:
        """What the attesters need of these, on public testnets or elsewhere."""
        said = {gmp: getattr(self, gmp.label) for gmp in _ATTESTATIONS if gmp.label in self.model_fields_set}
        return AttestationSettings(gmps=said, is_testnet=is_testnet)

    def chains(self) -> dict[str, set[str]]:
        """The chains that are named, by table."""
        return {
            f"attestations.{gmp.label}": set(said)
            for gmp, said in self.settings().gmps.items()
            if isinstance(said, dict)
        }


class AssetClassTable(Section):
    """How long messages about a class of assets live at least, and whose messages those are."""

    min_ttl: int | None = Field(
        default=None,
        gt=0,
        description="the least TTL; `high-frequency` and `regulatory` have the document's, 5 and 600",
    )
    members: dict[str, Addresses] = Field(description="contracts that send or receive them, by name of the chain")

    def least(self, name: str) -> int:
        """The minimum, or the document's for that name.

        Raises:
            ValueError: there is neither.
        """
        minimum = self.min_ttl or _DOCUMENTED.get(name)
        if minimum is None:
            known = ", ".join(_DOCUMENTED)
            raise ValueError(f"asset class {name!r} needs min_ttl, in seconds; only {known} have one by default")
        return minimum


_DOCUMENTED: Final = {"high-frequency": HIGH_FREQUENCY_TRADING_TTL, "regulatory": REGULATED_ASSET_TTL}


class PhaseTable(Section):
    """How long each phase of a delivery may take; times in seconds. They never touch a message's TTL."""

    attest: float = Field(default=120.0, gt=0, description="until the GMP's attestation is there")
    deliver: float = Field(default=900.0, gt=0, description="until the delivery is in a block")


class PhaseLimitTable(Section):
    """Other phase timeouts for a lane, a kind of message, or both; where several fit, the shortest counts."""

    source: str | None = Field(default=None, description="name of a chain; none is every one")
    destination: str | None = Field(default=None, description="the same")
    kind: str | None = Field(default=None, description="of message; none is every one")
    attest: float | None = Field(default=None, gt=0, description="until the GMP's attestation is there")
    deliver: float | None = Field(default=None, gt=0, description="until the delivery is in a block")

    def limit(self, deployment: Deployment) -> PhaseLimit:
        """The limit on the lanes of a network."""
        pairs = permutations(deployment.chains, 2)
        named = [
            Lane(source.chain_id, destination.chain_id)
            for source, destination in pairs
            if self.source in (None, source.name) and self.destination in (None, destination.name)
        ]
        return PhaseLimit(
            lanes=frozenset(named),
            kind=None if self.kind is None else Kind[self.kind.upper()],
            seconds=self.model_dump(include={"attest", "deliver"}, exclude_none=True),
        )


class ActionsTable(Section):
    """Which atomic actions are followed; times in seconds."""

    coordinators: dict[str, Addresses] = Field(
        default={}, description="by chain, the coordinators whose actions are followed, beside the network's examples"
    )
    advance: bool = Field(
        default=False, description="whether the relayer pays for what anyone may call: phases, answers, time-outs"
    )
    poll_interval: float = Field(default=5.0, gt=0, description="between two looks at actions that are not over")

    def settings(self) -> ActionSettings:
        """What following actions needs of these."""
        return ActionSettings(advance=self.advance, poll_interval=self.poll_interval)

    def named(self, deployment: Deployment) -> tuple[Coordinator, ...]:
        """The coordinators on a network; of chains that it does not have nothing is said."""
        found: dict[Coordinator, None] = {}  # in order, each once
        for chain in deployment.chains:
            examples = [chain.examples[COORDINATOR_EXAMPLE]] if COORDINATOR_EXAMPLE in chain.examples else []
            for address in [*examples, *sorted(self.coordinators.get(chain.name, frozenset()))]:
                found[Coordinator(chain.chain_id, to_checksum_address(address))] = None
        return tuple(found)


class TripwireTable(Section):
    """The tripwire: with which key it pauses a GMP that lies, and for how long; times in seconds."""

    key: SecretStr | None = Field(default=None, description="pauses; the routers name its account as their tripwire")
    signer: SignerSource | None = Field(
        default=None, description="in place of key: a variable, a keystore or a remote signer"
    )
    pause: int = Field(default=MAX_PAUSE, ge=60, le=MAX_PAUSE, description="for which a GMP is paused")
    poll_interval: float = Field(default=0.5, gt=0, description="between two looks at the index")
    max_clock_skew: float = Field(default=15.0, ge=0, description="by which the times of two chains may differ")
    early_gmps: Gmps = Field(
        default=frozenset(),
        description="GMPs that may deliver before the source is final: reported, and not paused, for a missing message",
    )
    max_fee: Wei | None = Field(
        default=None, gt=0, description="wei per gas that a pause's transaction does not exceed"
    )

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if self.key is not None and self.signer is not None:
            raise ValueError("the tripwire has one key: set key or signer, not both")
        return self

    def settings(self) -> TripwireSettings:
        """What the tripwire needs of these."""
        return TripwireSettings(
            pause=self.pause,
            poll_interval=self.poll_interval,
            max_clock_skew=self.max_clock_skew,
            early_gmps=self.early_gmps,
        )

    def sending(self) -> SendingSettings:
        """How patiently a pause is sent. It counts for no bound of the relayer's spending."""
        return SendingSettings(poll_interval=self.poll_interval, fee_bump_after=4.0, max_fee=self.max_fee)


class PropagationTable(Section):
    """How state changes are followed to their application; times in seconds."""

    heartbeat: float = Field(default=5.0, gt=0, description="between two heartbeats of a lane")
    threshold: float = Field(default=300.0, gt=0, description="lag above which a state change is sent again")
    pause: float = Field(default=60.0, gt=0, description="between two re-propagations")
    most: int = Field(default=5, gt=0, description="re-propagations in vain, after which the destination has DIVERGED")
    longest_pause: float = Field(default=900.0, gt=0, description="each pause after that is twice as long, up to this")

    def settings(self, poll_interval: float, lock_ttl: float) -> PropagationSettings:
        """What propagation needs of these."""
        return PropagationSettings(
            poll_interval=poll_interval,
            heartbeat=self.heartbeat,
            threshold=self.threshold,
            pause=self.pause,
            most=self.most,
            longest_pause=self.longest_pause,
            lock_ttl=lock_ttl,
        )


class ReliabilityTable(Section):
    """Times are in seconds. The dedup window is the setting `retention`: what is forgotten is not known any more."""

    max_clock_skew: float = Field(default=5.0, ge=0, description="by which clocks may differ")
    lock_ttl: float = Field(default=1_020.0, gt=0, description="until a lock on a state change expires")
    source_finality: float = Field(default=12.0, ge=0, description="until a source's block is final")
    gmp_time: float = Field(default=10.0, ge=0, description="that a GMP usually takes after that")
    dedup_capacity: int = Field(default=5_000_000, gt=0, description="messages that the store knows at once")
    messages_per_second: float = Field(default=1.0, gt=0, description="that this relayer is expected to see")
    ttls: dict[str, int] = Field(default={}, description="changes to the recommended TTLs, by kind")

    def values(self, policies: Mapping[Kind, DeliveryPolicy], dedup_window: float) -> Reliability:
        """All values that are checked together."""
        return Reliability(
            policies=policies,
            ttls={**RECOMMENDED_TTL, **{Kind[name.upper()]: ttl for name, ttl in self.ttls.items()}},
            dedup_window=dedup_window,
            dedup_capacity=self.dedup_capacity,
            messages_per_second=self.messages_per_second,
            max_clock_skew=self.max_clock_skew,
            lock_ttl=self.lock_ttl,
            source_finality=self.source_finality,
            gmp_time=self.gmp_time,
        )

    @field_validator("ttls")
    @classmethod
    def _names_kinds(cls, ttls: dict[str, int]) -> dict[str, int]:
        unknown = [repr(name) for name in ttls if name.upper() not in Kind.__members__]
        negative = [f"the TTL of {name} is {ttl} s" for name, ttl in ttls.items() if ttl < 0]
        problems = [f"{', '.join(negative)}, and can't be negative; 0 is for ever"] if negative else []
        if unknown:
            known = ", ".join(Kind.__members__).lower()
            problems.append(f"{', '.join(unknown)} is no kind of message; the kinds are {known}")
        if problems:
            raise ValueError("; ".join(problems))
        return ttls


_Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class DeadLetterTopicTable(Section):
    """The topic of records that another topic refused, and of messages whose deliveries died."""

    enabled: bool = Field(default=True, description="whether there is one; without it, a refused record halts")
    topic: str = Field(default="waybill.dlq", description="its name")
    brokers: str | None = Field(
        default=None, description="HOST:PORT of its brokers, separated by commas; none: the same"
    )
    include_original_headers: bool = Field(
        default=True,
        description="whether the headers of the record, or the dispatch's GMP, block and transaction, are kept",
    )
    include_stack_trace: bool = Field(
        default=False, description="whether a header has the stack, or the history of a delivery's failures"
    )
    compression: _Compression = Field(default="none", description="of its records: none, gzip, snappy, lz4, zstd")
    max_dlq_retries: int = Field(default=3, gt=0, description="tries to write a record, before publishing halts")
    pause: float = Field(default=1.0, ge=0, description="seconds between two such tries")


class TopicTable(Section):
    """The topic of each stream."""

    messages: str = Field(default="waybill.messages", description="what happens to messages and their deliveries")
    retries: str = Field(default="waybill.retries", description="retry requests, and what becomes of them")
    divergences: str = Field(default="waybill.divergences", description="what the index finds contradicting")
    dead_letters: str = Field(default="waybill.dead-letters", description="the log of dead letters")


class KafkaTable(Section):
    """Where streams are published. Times are in seconds. Nothing is recorded while `bootstrap_servers` is not set."""

    bootstrap_servers: str | None = Field(
        default=None, pattern=r"^[^\s,:]+:\d+(,[^\s,:]+:\d+)*$", description="HOST:PORT of brokers, separated by commas"
    )
    delivery: Semantics = Field(
        default=Semantics.AT_LEAST_ONCE, description="what consumers may rely on: at-least-once, exactly-once"
    )
    transactional_id: str = Field(
        default="waybill", min_length=1, description="of exactly-once; each store has its own, and keeps it"
    )
    topics: TopicTable = Field(default=TopicTable(), description="the topic of each stream, see below")
    commit_interval: int = Field(
        default=100, gt=0, le=10_000, description="records that are sent, and noted as sent, together"
    )
    poll_interval: float = Field(default=1.0, gt=0, description="between two looks at what is to be sent")
    divergence_interval: float = Field(default=60.0, gt=0, description="between two looks at the index's divergences")
    compression: _Compression = Field(default="lz4", description="of the records: none, gzip, snappy, lz4, zstd")
    create_topics: bool = Field(default=True, description="whether topics that are missing are made")
    partitions: int = Field(default=6, gt=0, description="of a topic that is made")
    replication_factor: int = Field(
        default=-1, ge=-1, description="of a topic that is made; -1 is the brokers' default"
    )
    security_protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field(
        default="plaintext", description="plaintext, ssl, sasl_plaintext, sasl_ssl"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
    )
    sasl_username: str | None = Field(default=None, description="whom to log in as")
    sasl_password: SecretStr | None = Field(default=None, description="of that user")
    sasl_password_file: Path | None = Field(default=None, description="file with the password, in place of it")
    ssl_ca: Path | None = Field(default=None, description="PEM file of the authorities that brokers are checked with")
    ssl_certificate: Path | None = Field(default=None, description="PEM file of the certificate shown to brokers")
    ssl_key: Path | None = Field(default=None, description="PEM file of its key")
    ssl_key_password: SecretStr | None = Field(default=None, description="of that file")
    dead_letter_queue: DeadLetterTopicTable = Field(
        default=DeadLetterTopicTable(), description="the topic of what is refused or dead, see below"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        sasl = self.security_protocol.startswith("sasl")
        if sasl and (self.sasl_mechanism is None or self.sasl_username is None):
            raise ValueError(f"security_protocol {self.security_protocol!r} needs sasl_mechanism and sasl_username")
        if sasl and (self.sasl_password is None) == (self.sasl_password_file is None):
            raise ValueError("sasl needs exactly one of sasl_password and sasl_password_file")
        if not sasl and self.sasl_username is not None:
            raise ValueError(f"sasl_username needs security_protocol sasl_ssl; it is {self.security_protocol!r}")
        topics = [
            *self.topics.model_dump().values(),
            self.dead_letter_queue.topic,
            f"{self.transactional_id}.positions",
        ]
        if twice := sorted({topic for topic in topics if topics.count(topic) > 1}):
            raise ValueError(f"each stream needs a topic of its own; {', '.join(twice)} is named twice")
        return self

    def settings(self, lease: float) -> KafkaSettings | None:
        """What publishing needs of these; None if nothing is published.

        Raises:
            ValueError: the password's file can't be read.
        """
        if self.bootstrap_servers is None:
            return None
        queue = self.dead_letter_queue.model_dump(exclude={"max_dlq_retries"})
        return KafkaSettings(
            bootstrap_servers=self.bootstrap_servers,
            topics={Stream(name): topic for name, topic in self.topics.model_dump().items()},
            semantics=self.delivery,
            transactional_id=self.transactional_id,
            commit_interval=self.commit_interval,
            compression=self.compression,
            create_topics=self.create_topics,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            poll_interval=self.poll_interval,
            lease=lease,
            security=self._security(),
            dead_letters=DeadLetterTopicSettings(**queue, tries=self.dead_letter_queue.max_dlq_retries),
        )

    def _security(self) -> dict[str, str]:
        """In librdkafka's names."""
        password = self.sasl_password.get_secret_value() if self.sasl_password else None
        if self.sasl_password_file is not None:
            try:
                password = self.sasl_password_file.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise ValueError(
                    f"kafka.sasl_password_file {self.sasl_password_file} can't be read: {error}"
                ) from error
        found = {
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.sasl_mechanism,
            "sasl.username": self.sasl_username,
            "sasl.password": password,
            "ssl.ca.location": self.ssl_ca,
            "ssl.certificate.location": self.ssl_certificate,
            "ssl.key.location": self.ssl_key,
            "ssl.key.password": self.ssl_key_password and self.ssl_key_password.get_secret_value(),
        }
        return {name: str(value) for name, value in found.items() if value is not None}
