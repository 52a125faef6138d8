"""The operator's settings for chains and accounts: endpoints, keys, transactions and their costs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import MOST_GAS
from bridge.records.spending import SpendBounds
from bridge.settings import Address, Names, Section, Wei

_ETHER: Final = 10**18

SIGNER_FORMS: Final = (
    'a signer is { environment = "VARIABLE" }, { keystore = "FILE", password_file = "FILE" }'
    ' or { remote = "URL", address = "0x…" }'
)


class SignerSource(Section):
    """The location of a key: exactly one of an environment variable, a keystore file, and a remote signer."""

    environment: str | None = Field(default=None, description="the variable that holds a private key")
    keystore: Path | None = Field(default=None, description="a version 3 keystore file")
    password_file: Path | None = Field(default=None, description="file with the keystore's password")
    remote: str | None = Field(
        default=None, pattern=r"^https?://", description="URL of a remote signer's JSON-RPC, such as Web3signer's"
    )
    address: Address | None = Field(default=None, description="the remote signer's account")
    certificate: Path | None = Field(
        default=None, description="PEM file with the client certificate and key that the remote signer requires (TLS)"
    )
    authority: Path | None = Field(
        default=None, description="PEM file with the authority of the remote signer's certificate"
    )
    chains: Names = Field(
        default=frozenset(), description="names of the chains on which the account sends; by default all chains"
    )

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        named = [name for name in ("environment", "keystore", "remote") if getattr(self, name) is not None]
        if len(named) != 1:
            found = " and ".join(named) or "none"
            raise ValueError(f"{SIGNER_FORMS}; give exactly one of environment, keystore and remote; found {found}")
        if self.keystore is not None and self.password_file is None:
            raise ValueError("a keystore requires password_file, the path of the file with its password")
        if self.remote is not None and self.address is None:
            raise ValueError("a remote signer requires address, the account for which it signs")
        if (self.certificate or self.authority) and not (self.remote or "").startswith("https://"):
            raise ValueError(
                f"certificate and authority require remote to be an https:// URL; remote is {self.remote!r}"
            )
        return self


class ChainSettings(Section):
    """One chain's endpoint settings that differ from the deployments file."""

    rpc_urls: tuple[str, ...] = Field(default=(), description="RPC URLs, which replace those in the deployments file")
    agreement: int | None = Field(
        default=None,
        ge=1,
        description="number of endpoints that must agree on every response; by default the number in the deployments file, or 1",
    )
    requests_per_second: float | None = Field(
        default=None, gt=0, description="rate limit for each endpoint; unlimited by default"
    )
    batch: int = Field(default=50, ge=1, description="maximum number of requests in a batch")


class EndpointSettings(Section):
    """The endpoints of all chains."""

    chains: dict[str, ChainSettings] = Field(default={}, description="endpoints, by chain name")

    def endpoint_policies(self, deployment: Deployment) -> dict[int, EndpointPolicy]:
        """Returns the endpoint policy of each chain by id."""
        found = {}
        for deployed in deployment.chains:
            chain = self.chains.get(deployed.name, ChainSettings())
            in_file = f"rpcUrls of chain {deployed.name!r} in deployments/{deployment.network}.json, or the variable that it names"
            found[deployed.chain_id] = EndpointPolicy(
                origin=f"rpc_urls in [chains.{deployed.name}] of the settings" if chain.rpc_urls else in_file,
                agreement=chain.agreement or deployed.agreement or 1,
                requests_per_second=chain.requests_per_second,
                batch=chain.batch,
                chain_name=deployed.name,
            )
        return found

    def rpc_urls(self, deployment: Deployment) -> dict[int, tuple[str, ...]]:
        """Returns the endpoints that replace the deployment's, by chain id."""
        return {
            deployed.chain_id: self.chains[deployed.name].rpc_urls
            for deployed in deployment.chains
            if deployed.name in self.chains
        }


class SpendingSettings(Section):
    """Bounds on the cost of transactions on each chain, in the chain's own currency."""

    message: Wei = Field(default=_ETHER // 2, gt=0, description="maximum cost of one message on a chain in wei")
    sender_per_day: Wei = Field(
        default=2 * _ETHER, gt=0, description="maximum cost of one sender's messages on a chain per day (UTC), in wei"
    )
    lane_per_day: Wei = Field(default=5 * _ETHER, gt=0, description="maximum cost of a lane on a chain per day, in wei")
    chain_per_day: Wei = Field(
        default=10 * _ETHER, gt=0, description="maximum cost of all messages on a chain per day, in wei"
    )
    data_fees: dict[str, Wei] = Field(
        default={},
        description="a rollup's data fee by chain, in wei per byte of a transaction",
    )


class SendingSettings(Section):
    """Timing and limits of an account's transactions. Times are in seconds."""

    poll_interval: float = Field(
        default=1.0,
        gt=0,
        description="interval between polls of a chain; on a chain with slower blocks the block time, up to 15 s",
    )
    fee_bump_after: float = Field(default=60.0, gt=0, description="time until a transaction's fee is raised")
    max_calls_per_tx: int = Field(
        default=20,
        ge=1,
        le=256,
        description="maximum number of deliveries in a transaction, within max_gas; 1 means that deliveries never share one",
    )
    max_gas: int = Field(default=MOST_GAS, gt=21_000, description="maximum gas of a transaction")
    max_fee: Wei | None = Field(default=None, gt=0, description="maximum wei per gas of a transaction")
    spending: SpendingSettings = Field(
        default=SpendingSettings(), description="limits on the cost of transactions, see below"
    )

    RESERVATION: ClassVar[float] = 10.0  # until a reserved nonce that was never signed for is closed by a no-op
    REFUSALS: ClassVar[int] = 5  # rejections by every node, after which a transaction in no pool is given up
    FOREIGN: ClassVar[float] = 15.0  # until another signer is assumed to have used a nonce with an unknown transaction
    INCLUSION_TIMEOUT: ClassVar[float] = 180.0  # until a delivery without a block counts as failed
    GAS_MARGIN: ClassVar[float] = 1.2  # on top of an estimate
    BATCH: ClassVar[int] = 200  # calls signed and stored at once

    @property
    def rebroadcast_after(self) -> float:
        """Returns the seconds after which a pending transaction is broadcast again.

        It is broadcast three times before its fee is raised.
        """
        return self.fee_bump_after / 3

    def bounds(self, deployment: Deployment) -> SpendBounds:
        """Returns the spending bounds for the chains of a network."""
        return SpendBounds(
            message=self.spending.message,
            sender=self.spending.sender_per_day,
            lane=self.spending.lane_per_day,
            chain=self.spending.chain_per_day,
            data_fees={deployment.chain(name).chain_id: wei for name, wei in self.spending.data_fees.items()},
        )
