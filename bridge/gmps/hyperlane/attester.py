"""Hyperlane's attester: collects signed checkpoints from the locations that validators announced on chain.

The destination's ISM determines whose signatures are needed. Message-id multisig ISMs are supported, as are
routing and aggregation ISMs on top of them, which covers Hyperlane's default deployments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final

from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils import ValidationError, decode_hex, keccak
from eth_utils.address import to_canonical_address
from pydantic import Field

from bridge.evm.ttl_cache import AsyncCached
from bridge.gmps.attestation import AttestationError, AttestationSources, JsonDocuments
from bridge.gmps.base_adapter import DeploymentReader
from bridge.gmps.hyperlane.adapter import HyperlaneContracts, hyperlane_message, recipient_of
from bridge.protocol.addresses import checksummed, to_bytes32
from bridge.protocol.contracts import Contract, contract
from bridge.protocol.deployment import Address, ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import (
    AttestationPendingError,
    CallRevertedError,
    Chain,
    Dispatch,
    TerminalError,
    TransientError,
    UnansweredError,
)

_MAILBOX: Final = contract("recipientIsm(address) returns (address)")
_ISM: Final = contract(
    "moduleType() returns (uint8)",
    "validatorsAndThreshold(bytes) returns (address[],uint8)",
    "modulesAndThreshold(bytes) returns (address[],uint8)",
    "route(bytes) returns (address)",
)
_ANNOUNCE: Final = contract("getAnnouncedStorageLocations(address[]) returns (string[][])")
_MAX_DEPTH: Final = 4  # nested ISMs
_PREFIX: Final = b"\x19Ethereum Signed Message:\n32"
_FIRST_V: Final = 27  # lower of Ethereum's two values of v, which stand for recovery ids 0 and 1
_CACHE_TIME: Final = 5.0  # seconds; only the contracts' owners can change the cached values
_MAX_CACHED: Final = 1_000  # results of view functions

SETTING: Final[tuple[Any, Any]] = (
    dict[str, Address],
    Field(default={}, description="ValidatorAnnounce contracts by chain name"),
)


class _Ism(IntEnum):
    """The supported kinds of ISM, with Hyperlane's numbers."""

    ROUTING = 1
    AGGREGATION = 2
    MESSAGE_ID_MULTISIG = 5
    NULL = 6


class HyperlaneCheckpoints(DeploymentReader):
    """Builds ISM metadata from the checkpoints that validators published."""

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], announcements: Mapping[int, str], web: JsonDocuments
    ) -> None:
        """Creates an attester. `announcements` are the addresses of the ValidatorAnnounce contracts by chain id."""
        super().__init__(deployment, chains)
        self._announcements = announcements
        self._web = web
        self._cached: dict[tuple[Any, ...], AsyncCached[Any]] = {}

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`.

        Raises:
            TerminalError: the message was not inserted into a Merkle tree.
            TransientError: signatures are missing, or the destination's ISM is not supported.
        """
        if "leaf" not in dispatch.evidence:
            raise TerminalError(
                f"Hyperlane message {dispatch.transport_id} was not inserted into a Merkle tree, so no validator signs it"
            )
        destination = self._deployment.chain(dispatch.destination_chain)
        mailbox, recipient = HyperlaneContracts.of(destination).mailbox, recipient_of(dispatch)
        ism = await self._look_up(destination, mailbox, _MAILBOX, "recipientIsm", recipient)
        return await self._metadata(dispatch, destination, ism, depth=0)

    async def _look_up(
        self, chain: ChainDeployment, address: str, contract: Contract, function: str, *arguments: Any
    ) -> Any:
        """Returns the result of a view function, cached for `_CACHE_TIME`.

        Suitable for results that are the same for every message. If a cached result is outdated, the
        destination rejects the delivery and the relayer retries it later.

        Raises:
            UnansweredError: see `DeploymentReader._read`.
        """
        key = (chain.chain_id, address, function, *arguments)
        if key not in self._cached:
            if len(self._cached) >= _MAX_CACHED:  # a malicious node could name a new contract each time
                self._cached.clear()
            read = partial(self._read, chain, address, contract, function, *arguments)
            self._cached[key] = AsyncCached(read, lasts=_CACHE_TIME)
        return (await self._cached[key].look()).value

    async def _metadata(self, dispatch: Dispatch, destination: ChainDeployment, ism: str, depth: int) -> bytes:
        """Returns the metadata that one ISM requires."""
        kind = await self._look_up(destination, ism, _ISM, "moduleType")
        message = hyperlane_message(dispatch)
        if depth > _MAX_DEPTH or kind not in set(_Ism):
            raise TransientError(  # not terminal: the node may be wrong, and the adapter's owner may change the ISM
                f"ISM {ism} on {destination.name} has kind {kind} at depth {depth}, which Waybill does not support;"
                " the adapter's owner must choose another ISM"
            )
        if kind == _Ism.NULL:
            return b""
        if kind == _Ism.ROUTING:
            module = await self._read(destination, ism, _ISM, "route", message)
            return await self._metadata(dispatch, destination, module, depth + 1)
        if kind == _Ism.AGGREGATION:
            modules, threshold = await self._read(destination, ism, _ISM, "modulesAndThreshold", message)
            return await self._aggregated(dispatch, destination, modules, threshold, depth)
        validators, threshold = await self._read(destination, ism, _ISM, "validatorsAndThreshold", message)
        return await self._signed(dispatch, [checksummed(validator) for validator in validators], threshold)

    async def _aggregated(
        self, dispatch: Dispatch, destination: ChainDeployment, modules: Sequence[str], threshold: int, depth: int
    ) -> bytes:
        """Returns the metadata of `threshold` modules, preceded by a table of each one's start and end offsets."""
        table, body, start = [bytes(8)] * len(modules), b"", 8 * len(modules)
        completed, problems = 0, list[Exception]()
        for index, module in enumerate(modules):
            if completed == threshold:
                break
            try:
                part = await self._metadata(dispatch, destination, module, depth + 1)
            except (TransientError, TerminalError, CallRevertedError) as error:
                problems.append(error)
                continue
            table[index] = (start + len(body)).to_bytes(4, "big") + (start + len(body) + len(part)).to_bytes(4, "big")
            body, completed = body + part, completed + 1
        if completed < threshold:
            raise next((problem for problem in problems if isinstance(problem, TransientError)), problems[0])
        return b"".join(table) + body

    async def _signed(self, dispatch: Dispatch, validators: Sequence[str], threshold: int) -> bytes:
        """Returns a multisig ISM's metadata: hook, root, leaf and signatures in the validators' order."""
        source = self._deployment.chain(dispatch.source_chain)
        announce = self._announcements[source.chain_id]
        locations = await self._look_up(source, announce, _ANNOUNCE, "getAnnouncedStorageLocations", tuple(validators))
        requests = (
            self._signature(dispatch, source, validator, storage)
            for validator, storage in zip(validators, locations, strict=True)
        )
        by_root: dict[bytes, list[bytes]] = {}
        problems, silent = [], 0
        for answer in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(answer, TransientError):
                problems.append(str(answer))
                silent += isinstance(answer, UnansweredError)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                root, signature = answer
                by_root.setdefault(root, []).append(signature)
        for root, signatures in by_root.items():
            if len(signatures) >= threshold:
                hook, leaf = to_bytes32(HyperlaneContracts.of(source).merkle_tree_hook), int(dispatch.evidence["leaf"])
                return hook + root + leaf.to_bytes(4, "big") + b"".join(signatures[:threshold])
        signed = max((len(signatures) for signatures in by_root.values()), default=0)
        text = f"{signed} of {threshold} validators of {source.name} have signed {dispatch.transport_id}: {'; '.join(problems)}"
        raise UnansweredError(text) if signed + silent >= threshold else AttestationPendingError(text)

    async def _signature(
        self, dispatch: Dispatch, source: ChainDeployment, validator: str, locations: Sequence[str]
    ) -> tuple[bytes, bytes]:
        """Returns a validator's root and signature from the location that it announced last.

        Raises:
            UnansweredError: the location did not respond properly.
            TransientError: the validator has no location, or has not signed this message.
        """
        if not locations:
            raise TransientError(f"validator {validator} has not announced a storage location")
        url = f"{public_url(locations[-1])}/checkpoint_{dispatch.evidence['leaf']}_with_id.json"
        document = await self._web.json(url)
        if document is None:
            raise TransientError(f"validator {validator} has not signed yet")
        try:
            root = decode_hex(document["value"]["checkpoint"]["root"])
            signature = decode_hex(document["serialized_signature"])
            signer = _signer(_checkpoint_hash(dispatch, source, root), signature)
        except (LookupError, TypeError, AttributeError, ValueError, BadSignature, ValidationError) as error:
            raise TransientError(f"{url} did not return a signed checkpoint: {error!r}") from error
        if signer != to_canonical_address(validator):
            raise TransientError(f"{url} returned a checkpoint that {validator} did not sign for this message")
        return root, signature


def public_url(location: str) -> str:
    """Returns the public URL of a validator's storage location: an Amazon or Google bucket, or plain HTTP.

    Raises:
        TransientError: the location's scheme is not supported. The validator may announce a different location later.
    """
    scheme, _, rest = location.rstrip("/").partition("://")
    if scheme in ("http", "https"):
        return location.rstrip("/")
    bucket, *parts = rest.split("/")
    if scheme == "s3" and parts:
        region, *folders = parts
        return "/".join([f"https://{bucket}.s3.{region}.amazonaws.com", *folders])
    if scheme == "gs":
        return "/".join([f"https://storage.googleapis.com/{bucket}", *parts])
    raise TransientError(f"storage location {location!r} is not supported; supported are https, s3 and gs")


def _checkpoint_hash(dispatch: Dispatch, source: ChainDeployment, root: bytes) -> bytes:
    """Returns the hash of a message's checkpoint, which validators sign with Ethereum's message prefix."""
    contracts = HyperlaneContracts.of(source)
    leaf = int(dispatch.evidence["leaf"]).to_bytes(4, "big")
    tree = keccak(contracts.domain.to_bytes(4, "big") + to_bytes32(contracts.merkle_tree_hook) + b"HYPERLANE")
    return keccak(tree + root + leaf + keccak(hyperlane_message(dispatch)))


def _signer(checkpoint: bytes, signature: bytes) -> bytes:
    """Returns the address (20 bytes) that signed a checkpoint. eth_account would take three times as long.

    Raises:
        BadSignature, ValidationError: the signature is invalid.
    """
    v = signature[-1]
    rsv = Signature(signature_bytes=signature[:-1] + bytes([v - _FIRST_V if v >= _FIRST_V else v]))
    return rsv.recover_public_key_from_msg_hash(keccak(_PREFIX + checkpoint)).to_canonical_address()


def create_attester(sources: AttestationSources) -> HyperlaneCheckpoints:
    """Returns an attester for the validators of every chain that has Hyperlane.

    Raises:
        AttestationError: no ValidatorAnnounce contract is known for a chain.
    """
    with_hyperlane = [chain for chain in sources.deployment.chains if Gmp.HYPERLANE in chain.gmp_numbers]
    announce_contracts = {
        chain.name: address
        for chain in with_hyperlane
        if (address := sources.setting.get(chain.name) or HyperlaneContracts.of(chain).validator_announce)
    }
    missing = [chain.name for chain in with_hyperlane if chain.name not in announce_contracts]
    if missing:
        raise AttestationError(
            f"no ValidatorAnnounce contract is known for {', '.join(missing)}: add it to "
            "[attestations.hyperlane] or the deployments file, or leave hyperlane out of `gmps`"
        )
    announcements = {chain.chain_id: announce_contracts[chain.name] for chain in with_hyperlane}
    return HyperlaneCheckpoints(sources.deployment, sources.chains, announcements, sources.web)
