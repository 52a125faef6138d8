"""Everything that can be set, and every check on it: each value, values that conflict, and chains that must exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bridge.evm.account import SendingSettings
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.delivery_policy import DEFAULT_POLICIES, DeliveryPolicy, PolicyError, validated
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import (
    DEFAULT_ATOMICITY,
    AssetClass,
    Atomicity,
    ChoiceBounds,
    OperatorPolicies,
)
from bridge.protocol.invariants import reliable
from bridge.protocol.message import MOST_GAS, Kind
from bridge.records.relay_policy import RelayPolicy
from bridge.records.spending import SpendBounds
from bridge.relayer.breaker import BreakerSettings
from bridge.relayer.delivery_commits import CommitSettings, CommitStrategy
from bridge.relayer.propagation import PropagationSettings
from bridge.relayer.retries import RecoverySettings
from bridge.relayer.settings import Ordering, PhaseLimit, RelaySettings
from bridge.rpc.policy import EndpointPolicy
from bridge.settings.problems import SettingsError, explain, refusal
from bridge.settings.sections import (
    ANY,
    ActionsTable,
    Addresses,
    AddressesOrAny,
    AssetClassTable,
    AttestationTable,
    ChainSettings,
    DeadLetterTable,
    Gmps,
    IndexTable,
    KafkaTable,
    Keys,
    Names,
    PhaseLimitTable,
    PhaseTable,
    PolicyOverride,
    PropagationTable,
    ReliabilityTable,
    SignerSource,
    SpendingTable,
    SpendLimit,
    TripwireTable,
    Wei,
    wei_by_lane,
)
from bridge.settings.sources import PREFIX, Origin, merged, origin_name, origins
from bridge.streams.settings import KafkaSettings


class Settings(BaseSettings):
    """Everything that can be set. Times are in seconds, fees in wei."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    profile: Literal["default", "production", "low-latency", "high-throughput"] = Field(
        default="default", description="a named set of settings, under all others"
    )
    relayer_key: SecretStr | None = Field(
        default=None, description="pays for deliveries; appointed by a sender in `retry_for`, also for its retries"
    )
    retry_keys: Keys = Field(
        default=(), description="of message senders, or of retriers that those in `retry_for` appointed"
    )
    signers: tuple[SignerSource, ...] = Field(default=(), description="further keys that pay for deliveries")
    accounts: Mapping[str, SignerSource] = Field(
        default={}, description="accounts that commands sign as: `waybill --signer NAME`"
    )
    store: str = Field(default="sqlite:///bridge.db", description="the relayer's own store, as a SQLAlchemy URL")
    index_store: str | None = Field(default=None, description="the index's store, as a SQLAlchemy URL")
    index_lake: str | None = Field(
        default=None, description="the index's lake: a folder, or s3://bucket/prefix?region=…&endpoint=…"
    )
    index: IndexTable = Field(default=IndexTable(), description="how the chains are indexed, see below")

    gmps: Gmps = Field(default=frozenset(Gmp), description="GMPs to deliver over")
    paused_gmps: Gmps = Field(default=frozenset(), description="GMPs not to deliver over for now")
    allow_chains: Names = Field(default=frozenset(), description="chains to relay between; none named is all")
    deny_chains: Names = Field(default=frozenset(), description="chains whose messages wait")
    allow_senders: Addresses = Field(default=frozenset(), description="senders to relay for; none named is all")
    deny_senders: Addresses = Field(default=frozenset(), description="senders whose messages wait")

    poll_interval: float = Field(
        default=1.0,
        gt=0,
        description="between two looks at a chain; where blocks take longer than a second, as long as one takes, up to 15 s",
    )
    lease: float = Field(default=15.0, gt=0, description="how long a dead relayer keeps others from its entries")
    in_flight: int = Field(
        default=64,
        gt=0,
        description="deliveries under way at once, per destination; idle queues and live traffic may add some",
    )
    block_range: int = Field(default=2_000, gt=0, description="blocks asked for at once when catching up")
    completeness_interval: float = Field(
        default=60.0, gt=0, description="between two comparisons with what the routers counted"
    )
    rebroadcast: float = Field(default=20.0, gt=0, description="until a transaction is sent again")
    fee_bump_after: float = Field(default=60.0, gt=0, description="until a transaction offers a higher fee")
    inclusion_timeout: float = Field(
        default=180.0, gt=0, description="until a delivery without a block counts as failed"
    )
    send_batch: int = Field(default=100, gt=0, description="calls signed and stored at once")
    max_calls_per_tx: int = Field(
        default=20,
        ge=1,
        le=256,
        description="deliveries that share a transaction at most, within max_gas; 1: none does",
    )
    max_gas: int = Field(default=MOST_GAS, gt=21_000, description="gas that no transaction exceeds")
    max_fee: Wei | None = Field(default=None, gt=0, description="wei per gas that no transaction exceeds")
    max_retry_fee: Wei | None = Field(default=None, gt=0, description="wei that one retry pays its GMPs at most")
    max_message_retry_fee: Wei | None = Field(
        default=None, gt=0, description="wei that all retries of one message pay their GMPs at most"
    )
    max_message_retries: int = Field(default=10, gt=0, description="retries of one message that are paid for at most")
    retry_budgets: tuple[SpendLimit, ...] = Field(
        default=(), description="wei that a lane's retries pay their GMPs per day"
    )
    retry_for: AddressesOrAny = Field(
        default=frozenset(),
        description='senders that may appoint this relayer as their retrier, which pays for it; none named is none, "any" is all',
    )
    spending: SpendingTable = Field(default=SpendingTable(), description="what transactions may cost, see below")
    spend_limits: tuple[SpendLimit, ...] = Field(
        default=(), description="wei that a lane may cost on a chain per day, in place of `spending.lane_per_day`"
    )
    policies: dict[str, PolicyOverride] = Field(
        default={}, description="by kind, what is to differ of max_retries, base, cap, jitter, dead_letter"
    )

    sender_choices: ChoiceBounds = Field(
        default=ChoiceBounds(), description="what senders may choose on chain, see below"
    )
    asset_classes: dict[str, AssetClassTable] = Field(
        default={}, description="by name, least TTL (min_ttl) of messages from or to contracts (members, by chain)"
    )
    atomicity: dict[str, Atomicity] = Field(
        default={},
        description="by kind, what differs: BEST_EFFORT has no phase timeouts, GUARANTEED and ALL_OR_NOTHING have",
    )
    phase_limits: tuple[PhaseLimitTable, ...] = Field(
        default=(), description="other phase timeouts for some lanes and kinds"
    )
    phase_timeouts: PhaseTable = Field(default=PhaseTable(), description="until a phase of a delivery is given up")
    sync: PropagationTable = Field(default=PropagationTable(), description="how state changes are followed")
    actions: ActionsTable = Field(
        default=ActionsTable(), description="which atomic actions are followed, and whether they are moved on"
    )
    tripwire: TripwireTable = Field(
        default=TripwireTable(), description="the process that pauses a GMP that lies, see below"
    )
    reliability: ReliabilityTable = Field(default=ReliabilityTable(), description="values that must fit each other")
    dlq: DeadLetterTable = Field(
        default=DeadLetterTable(), description="where dead letters are kept, and who is notified"
    )
    kafka: KafkaTable = Field(default=KafkaTable(), description="where streams are published, see below")
    commit: CommitStrategy = Field(
        default=CommitStrategy.BATCH,
        description="when deliveries are committed: batch, message, time, at-most-once, auto",
    )
    commit_interval: int = Field(default=100, gt=0, description="deliveries that a batch commits at once")
    commit_seconds: float | None = Field(
        default=None, gt=0, description="until a commit; none is 5 for batch and auto, 30 for time"
    )
    commit_tries: int = Field(
        default=12, gt=0, description="of a commit that the store refuses; then the relayer stops"
    )
    unsafe: bool = Field(default=False, description="whether commit = auto, which guarantees nothing, may be chosen")
    ordering: Ordering = Field(
        default=Ordering.SKIP,
        description="whether a failing delivery blocks those behind it in its lane and GMP: skip, block",
    )
    retention: float = Field(
        default=30 * 86_400.0, gt=0, description="until final deliveries, their transactions and payloads are deleted"
    )

    breaker_failures: int = Field(default=10, gt=0, description="failures in a row that open a GMP's circuit breaker")
    breaker_cooldown: float = Field(default=10.0, gt=0, description="until an open breaker lets one delivery try")
    breaker_cooldown_cap: float = Field(default=60.0, gt=0, description="the longest such wait; each one doubles")

    attestations: AttestationTable = Field(
        default=AttestationTable(), description="whom to ask for GMPs' attestations on a public network"
    )
    chains: dict[str, ChainSettings] = Field(default={}, description="endpoints, by name of the chain")
    hedge_after: float | None = Field(
        default=None, gt=0, description="until a read that is slow is also asked of another endpoint; none never"
    )
    http: str | None = Field(
        default=None,
        pattern=r"^[^\s:]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$",
        description="HOST:PORT of the relayer's /metrics and /healthz",
    )
    api_token: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="the bearer token of `waybill web`, for changes over its API and for dead letters; none forbids both",
    )

    _origins: list[Origin] = PrivateAttr(default=[])

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  # pydantic-settings' own signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  pydantic's signature
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` hands over: it reads the sources itself, to know which said what."""
        return (init_settings,)

    @field_validator("policies")
    @classmethod
    def _is_a_table(cls, policies: dict[str, PolicyOverride]) -> dict[str, PolicyOverride]:
        _policy_table(policies)
        return policies

    @field_validator("asset_classes")
    @classmethod
    def _has_minimum(cls, asset_classes: dict[str, AssetClassTable]) -> dict[str, AssetClassTable]:
        for name, table in asset_classes.items():
            table.least(name)
        return asset_classes

    @field_validator("atomicity")
    @classmethod
    def _names_kinds(cls, atomicity: dict[str, Atomicity]) -> dict[str, Atomicity]:
        if unknown := [repr(name) for name in atomicity if name.upper() not in Kind.__members__]:
            known = ", ".join(Kind.__members__).lower()
            raise ValueError(f"{', '.join(unknown)} is no kind of message; the kinds are {known}")
        return atomicity

    @field_validator("phase_limits")
    @classmethod
    def _are_about_kinds(cls, limits: tuple[PhaseLimitTable, ...]) -> tuple[PhaseLimitTable, ...]:
        if unknown := [repr(one.kind) for one in limits if one.kind and one.kind.upper() not in Kind.__members__]:
            known = ", ".join(Kind.__members__).lower()
            raise ValueError(f"{', '.join(unknown)} is no kind of message; the kinds are {known}")
        return limits

    @model_validator(mode="wrap")
    @classmethod
    def _fits_together(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Compares values that depend on each other, also when others can't be used: everything wrong is said at once."""
        try:
            settings, errors = validate(values), []
        except ValidationError as error:
            errors = error.errors(include_url=False)
            wrong = {item["loc"][0] for item in errors if item["loc"]}
            settings = validate({name: value for name, value in values.items() if name not in wrong})
        problems = conflicts(settings, frozenset(str(item["loc"][0]) for item in errors if item["loc"]))
        if errors or problems:
            raise refusal(cls.__name__, errors, problems, values)
        return settings

    @classmethod
    def load(cls, file: Path | None = None, defaults: Mapping[str, Any] | None = None, /, **arguments: Any) -> Self:
        """Settings from all their sources.

        Args:
            file: a TOML file; None is none.
            defaults: weaker than everything else but the defaults in here.
            arguments: stronger than everything else; None counts as not given.

        Raises:
            SettingsError: a name or a value can't be used; the text lists all of them.
        """
        sources = origins(cls, arguments, file, defaults or {})
        try:
            settings = cls(**merged(sources))
        except ValidationError as error:
            raise explain(error, cls.model_fields, lambda name: origin_name(sources, name)) from None
        settings._origins.extend(sources)
        return settings

    def origin(self, setting: str, *within: str) -> str:
        """Which source had the last word on a setting, or on a value within it if it is a table."""
        return origin_name(self._origins, setting, *within)

    def delivery_policies(self) -> Mapping[Kind, DeliveryPolicy]:
        """The table of policies with the changes applied."""
        return _policy_table(self.policies)

    def classes(self, deployment: Deployment) -> tuple[AssetClass, ...]:
        """The classes of assets on a network; of chains that it does not have nothing is said."""
        ids = {chain.name: chain.chain_id for chain in deployment.chains}
        return tuple(
            AssetClass(
                name=name,
                min_ttl=table.least(name),
                members=frozenset(
                    (ids[chain], to_bytes32(address))
                    for chain, addresses in table.members.items()
                    if chain in ids
                    for address in addresses
                ),
            )
            for name, table in self.asset_classes.items()
        )

    def _atomicity(self) -> Mapping[Kind, Atomicity]:
        return {**DEFAULT_ATOMICITY, **{Kind[name.upper()]: level for name, level in self.atomicity.items()}}

    def operator_policies(self) -> OperatorPolicies:
        """What these settings decide about the policies of messages."""
        return OperatorPolicies(rows=self.delivery_policies(), atomicity=self._atomicity(), bounds=self.sender_choices)

    def relay(self) -> RelaySettings:
        """What the relay needs of these."""
        return RelaySettings(
            gmps=self.gmps,
            paused=self.paused_gmps,
            poll_interval=self.poll_interval,
            lease=self.lease,
            in_flight=self.in_flight,
            commits=CommitSettings(
                strategy=self.commit,
                interval=self.commit_interval,
                seconds=self.commit_seconds,
                tries=self.commit_tries,
            ),
            ordering=self.ordering,
            atomicity=self._atomicity(),
            phase_timeouts=self.phase_timeouts.model_dump(),
            retention=self.retention,
            dedup_capacity=self.reliability.dedup_capacity,
            block_range=self.block_range,
            completeness_interval=self.completeness_interval,
            breaker=BreakerSettings(
                failures=self.breaker_failures,
                cooldown=self.breaker_cooldown,
                cooldown_cap=self.breaker_cooldown_cap,
            ),
        )

    def endpoint_policies(self, deployment: Deployment) -> dict[int, EndpointPolicy]:
        """How the endpoints of each chain are asked, by its id."""
        found = {}
        for deployed in deployment.chains:
            chain = self.chains.get(deployed.name, ChainSettings())
            in_file = f"rpcUrls of chain {deployed.name!r} in deployments/{deployment.network}.json, or the variable that it names"
            found[deployed.chain_id] = EndpointPolicy(
                origin=f"rpc_urls in [chains.{deployed.name}] of the settings" if chain.rpc_urls else in_file,
                agreement=chain.agreement or deployed.agreement or 1,
                hedge_after=self.hedge_after,
                requests_per_second=chain.requests_per_second,
                batch=chain.batch,
                chain_name=deployed.name,
            )
        return found

    def rpc_urls(self, deployment: Deployment) -> dict[int, tuple[str, ...]]:
        """Endpoints that stand in place of the deployment's, by the chain's id."""
        return {
            deployed.chain_id: self.chains[deployed.name].rpc_urls
            for deployed in deployment.chains
            if deployed.name in self.chains
        }

    def ws_urls(self, deployment: Deployment) -> dict[int, str]:
        """Where new blocks are announced, by the chain's id."""
        named = {deployed.chain_id: self.chains.get(deployed.name) for deployed in deployment.chains}
        return {chain_id: chain.ws_url for chain_id, chain in named.items() if chain is not None and chain.ws_url}

    def accepts_chain(self, name: str) -> bool:
        """Whether messages from and to a chain are delivered."""
        return (not self.allow_chains or name in self.allow_chains) and name not in self.deny_chains

    def lane_limits(self, deployment: Deployment) -> Mapping[tuple[int, int], int]:
        """What some lanes may cost per day, in wei, by their chains' ids."""
        return wei_by_lane(self.spend_limits, deployment)

    def phases(self, deployment: Deployment) -> tuple[PhaseLimit, ...]:
        """The phase timeouts of some lanes and kinds."""
        return tuple(limit.limit(deployment) for limit in self.phase_limits)

    def acceptance(self, deployment: Deployment) -> RelayPolicy:
        """Whose messages are delivered."""
        return RelayPolicy(
            withheld_sources=frozenset(
                chain.chain_id for chain in deployment.chains if not self.accepts_chain(chain.name)
            ),
            senders=frozenset(map(to_bytes32, self.allow_senders)) or None,
            withheld_senders=frozenset(map(to_bytes32, self.deny_senders)),
        )

    def bounds(self, deployment: Deployment) -> SpendBounds:
        """What transactions may cost."""
        fees = {deployment.chain(name).chain_id: wei for name, wei in self.spending.data_fees.items()}
        return self.spending.bounds(self.lane_limits(deployment), fees)

    def retried_for(self) -> frozenset[bytes] | None:
        """Senders that may appoint this relayer as their retrier; None is every one."""
        return None if ANY in self.retry_for else frozenset(map(to_bytes32, self.retry_for))

    def sending(self, deployment: Deployment) -> SendingSettings:
        """What sending needs of these."""
        return SendingSettings(
            bounds=self.bounds(deployment),
            poll_interval=self.poll_interval,
            rebroadcast=self.rebroadcast,
            fee_bump_after=self.fee_bump_after,
            inclusion_timeout=self.inclusion_timeout,
            max_gas=self.max_gas,
            max_fee=self.max_fee,
            batch=self.send_batch,
            max_calls_per_tx=self.max_calls_per_tx,
        )

    def propagation(self) -> PropagationSettings:
        """What the pending sync queue needs of these."""
        return self.sync.settings(self.poll_interval, self.reliability.lock_ttl)

    def streams(self) -> KafkaSettings | None:
        """What publishing streams needs of these; None if none are published.

        Raises:
            SettingsError: the password's file can't be read.
        """
        try:
            return self.kafka.settings(self.lease)
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def recovery(self, deployment: Deployment) -> RecoverySettings:
        """What recovery needs of these."""
        return RecoverySettings(
            poll_interval=self.poll_interval,
            max_message_retries=self.max_message_retries,
            max_message_retry_fee=self.max_message_retry_fee,
            lane_budgets=wei_by_lane(self.retry_budgets, deployment),
        )


def _policy_table(policies: Mapping[str, PolicyOverride]) -> Mapping[Kind, DeliveryPolicy]:
    """The default table with changes applied.

    Raises:
        ValueError: an unknown kind, or a table that contradicts itself.
    """
    table, problems = dict(DEFAULT_POLICIES), []
    for name, override in policies.items():
        kind = Kind.__members__.get(name.upper())
        if kind is None:
            known = ", ".join(member.lower() for member in Kind.__members__)
            problems.append(f"{name!r} is no kind of message; the kinds are {known}")
        else:
            table[kind] = override.applied_to(table[kind])
    try:
        validated(table)
    except PolicyError as error:
        problems.append(str(error))
    if problems:
        raise ValueError("\n  ".join(problems))
    return MappingProxyType(table)


def conflicts(settings: Settings, wrong: frozenset[str] = frozenset()) -> list[str]:
    """What contradicts what, among the settings that are valid on their own.

    Args:
        settings: all of them.
        wrong: names of settings with invalid values; checks that depend on one of them are left out.
    """
    return [problem for names, check in _CHECKS if not names & wrong for problem in check(settings)]


def _chains(settings: Settings) -> Iterator[str]:
    if both := settings.allow_chains & settings.deny_chains:
        yield f"chains: {', '.join(sorted(both))} is allowed and denied"


def _senders(settings: Settings) -> Iterator[str]:
    if both := settings.allow_senders & settings.deny_senders:
        yield f"senders: {', '.join(sorted(both))} is allowed and denied"


def _lease(settings: Settings) -> Iterator[str]:
    if settings.lease < 2 * settings.poll_interval:
        yield f"lease is {settings.lease:g} s, less than two polls of {settings.poll_interval:g} s: raise it"


def _commit(settings: Settings) -> Iterator[str]:
    if settings.commit is CommitStrategy.AUTO and not settings.unsafe:
        yield "commit is 'auto', which may lose and repeat messages: add unsafe = true if that is meant"


def _breaker(settings: Settings) -> Iterator[str]:
    if settings.breaker_cooldown > settings.breaker_cooldown_cap:
        yield (
            f"breaker_cooldown is {settings.breaker_cooldown:g} s, more than breaker_cooldown_cap"
            f" of {settings.breaker_cooldown_cap:g} s"
        )


def _reliability(settings: Settings) -> Iterator[str]:
    try:
        reliable(settings.reliability.values(settings.delivery_policies(), settings.retention))
    except PolicyError as error:
        yield str(error)


_CHECKS: Final[tuple[tuple[frozenset[str], Callable[[Settings], Iterator[str]]], ...]] = (
    (frozenset({"allow_chains", "deny_chains"}), _chains),
    (frozenset({"allow_senders", "deny_senders"}), _senders),
    (frozenset({"lease", "poll_interval"}), _lease),
    (frozenset({"commit", "unsafe"}), _commit),
    (frozenset({"breaker_cooldown", "breaker_cooldown_cap"}), _breaker),
    (frozenset({"reliability", "policies", "retention"}), _reliability),
)


def check_chains(settings: Settings, deployment: Deployment) -> None:
    """Checks that settings name only chains that the network has: a misspelt name would be ignored.

    Raises:
        SettingsError: they name others.
    """
    known = {chain.name for chain in deployment.chains}
    ids = {str(chain.chain_id) for chain in deployment.chains}  # [dlq] may name chains so
    named = {
        "chains": set(settings.chains),
        "allow_chains": settings.allow_chains,
        "deny_chains": settings.deny_chains,
        "signers": {name for signer in settings.signers for name in signer.chains},
        "phase_limits": {end for one in settings.phase_limits for end in (one.source, one.destination) if end},
        "index": {end for lane in settings.index.lanes for end in (lane.source, lane.destination) if end},
        "spending": set(settings.spending.data_fees),
        **settings.attestations.chains(),
        "actions": set(settings.actions.coordinators),
        "asset_classes": {name for table in settings.asset_classes.values() for name in table.members},
        "dlq": {
            contract.chain
            for contract in (settings.dlq.parameters, settings.dlq.governance)
            if contract is not None and contract.chain not in ids
        },
        **{
            name: {end for limit in limits for end in (limit.source, limit.destination) if end}
            for name, limits in (("spend_limits", settings.spend_limits), ("retry_budgets", settings.retry_budgets))
        },
    }
    problems = [
        f"  {setting} ({settings.origin(setting.partition('.')[0])}): network {deployment.network!r} has no chain {name!r};"
        f" its chains are {', '.join(sorted(known))}"
        for setting, names in named.items()
        for name in sorted(names - known)
    ]
    if problems:
        raise SettingsError("settings can't be used:\n" + "\n".join(problems))
