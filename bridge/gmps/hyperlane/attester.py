"""Hyperlane: the validators' checkpoints, from where the validators announced on chain that they put them.

The destination's ISM says whose signatures it wants. Supported are multisig by message id, and routing and aggregation of what
is supported: together they are what Hyperlane deploys by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache, partial
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
_DEEPEST: Final = 4  # ISMs within ISMs
_PREFIX: Final = b"\x19Ethereum Signed Message:\n32"
_FIRST_V: Final = 27  # of the two that Ethereum's signatures end with, for 0 and 1
_LASTS: Final = 5.0  # seconds; only a transaction of a contract's owner changes what is remembered for so long
_MOST_KNOWN: Final = 1_000  # answers that are remembered

SETTING: Final[tuple[Any, Any]] = (
    dict[str, Address],
    Field(default={}, description="ValidatorAnnounce contracts, by name of the chain"),
)


class _Ism(IntEnum):
    """The kinds of ISM that an attestation is put together for, by Hyperlane's numbers."""

    ROUTING = 1
    AGGREGATION = 2
    MESSAGE_ID_MULTISIG = 5
    NULL = 6


class HyperlaneCheckpoints(DeploymentReader):
    """Puts metadata together from what validators published."""

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], announcements: Mapping[int, str], web: JsonDocuments
    ) -> None:
        """Knows where validators announce themselves: addresses of ValidatorAnnounce, by chain id."""
        super().__init__(deployment, chains)
        self._announcements = announcements
        self._web = web
        self._known: dict[tuple[Any, ...], AsyncCached[Any]] = {}

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`.

        Raises:
            TerminalError: the message is in no tree.
            TransientError: a validator has not signed, or the destination wants another kind of attestation.
        """
        if "leaf" not in dispatch.evidence:
            raise TerminalError(f"no merkle tree hook has inserted Hyperlane message {dispatch.transport_id}")
        destination = self._deployment.chain(dispatch.destination_chain)
        mailbox, recipient = HyperlaneContracts.of(destination).mailbox, recipient_of(dispatch)
        ism = await self._look_up(destination, mailbox, _MAILBOX, "recipientIsm", recipient)
        return await self._metadata(dispatch, destination, ism, depth=0)

    async def _look_up(
        self, chain: ChainDeployment, address: str, contract: Contract, function: str, *arguments: Any
    ) -> Any:
        """What a view function returned at most `_LASTS` ago; for answers that are the same for every message.

        If the answer is outdated, the destination refuses the delivery, and it is tried again later.

        Raises:
            UnansweredError: see `DeploymentReader._read`.
        """
        asked = (chain.chain_id, address, function, *arguments)
        if asked not in self._known:
            if len(self._known) >= _MOST_KNOWN:  # a node that lies names a new contract each time
                self._known.clear()
            ask = partial(self._read, chain, address, contract, function, *arguments)
            self._known[asked] = AsyncCached(ask, lasts=_LASTS)
        return (await self._known[asked].look()).value

    async def _metadata(self, dispatch: Dispatch, destination: ChainDeployment, ism: str, depth: int) -> bytes:
        """What one ISM asks for."""
        kind = await self._look_up(destination, ism, _ISM, "moduleType")
        message = hyperlane_message(dispatch)
        if depth > _DEEPEST or kind not in set(_Ism):
            raise TransientError(  # one node's word, and the adapter's owner may change it
                f"ISM {ism} on {destination.name} is of kind {kind}, {depth} deep: no attestation for it can be put together;"
                " let the adapter's owner choose another one"
            )
        if kind == _Ism.NULL:
            return b""
        if kind == _Ism.ROUTING:
            chosen = await self._read(destination, ism, _ISM, "route", message)
            return await self._metadata(dispatch, destination, chosen, depth + 1)
        if kind == _Ism.AGGREGATION:
            modules, threshold = await self._read(destination, ism, _ISM, "modulesAndThreshold", message)
            return await self._aggregated(dispatch, destination, modules, threshold, depth)
        validators, threshold = await self._read(destination, ism, _ISM, "validatorsAndThreshold", message)
        return await self._signed(dispatch, [checksummed(one) for one in validators], threshold)

    async def _aggregated(
        self, dispatch: Dispatch, destination: ChainDeployment, modules: Sequence[str], threshold: int, depth: int
    ) -> bytes:
        """As many modules' metadata as are asked for, behind a table of where each begins and ends."""
        table, body, begins = [bytes(8)] * len(modules), b"", 8 * len(modules)
        found, problems = 0, list[Exception]()
        for place, module in enumerate(modules):
            if found == threshold:
                break
            try:
                part = await self._metadata(dispatch, destination, module, depth + 1)
            except (TransientError, TerminalError, CallRevertedError) as error:
                problems.append(error)
                continue
            table[place] = (begins + len(body)).to_bytes(4, "big") + (begins + len(body) + len(part)).to_bytes(4, "big")
            body, found = body + part, found + 1
        if found < threshold:
            raise next((one for one in problems if isinstance(one, TransientError)), problems[0])
        return b"".join(table) + body

    async def _signed(self, dispatch: Dispatch, validators: Sequence[str], threshold: int) -> bytes:
        """Hook, root, leaf, and signatures in the validators' order."""
        source = self._deployment.chain(dispatch.source_chain)
        announce = self._announcements[source.chain_id]
        locations = await self._look_up(source, announce, _ANNOUNCE, "getAnnouncedStorageLocations", tuple(validators))
        asked = (
            self._signature(dispatch, source, validator, places)
            for validator, places in zip(validators, locations, strict=True)
        )
        by_root: dict[bytes, list[bytes]] = {}
        problems, silent = [], 0
        for answer in await asyncio.gather(*asked, return_exceptions=True):
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
        self, dispatch: Dispatch, source: ChainDeployment, validator: str, places: Sequence[str]
    ) -> tuple[bytes, bytes]:
        """A validator's root and signature, from the place it announced last.

        Raises:
            UnansweredError: the place does not answer as it should.
            TransientError: there is none that is its own and of this message.
        """
        if not places:
            raise TransientError(f"{validator} has not announced where its signatures are")
        url = f"{public_url(places[-1])}/checkpoint_{dispatch.evidence['leaf']}_with_id.json"
        document = await self._web.json(url)
        if document is None:
            raise TransientError(f"{validator} has not signed yet")
        try:
            root = decode_hex(document["value"]["checkpoint"]["root"])
            signature = decode_hex(document["serialized_signature"])
            signer = _signer(_checkpoint_hash(dispatch, source, root), signature)
        except (LookupError, TypeError, AttributeError, ValueError, BadSignature, ValidationError) as error:
            raise TransientError(f"{url} is no signed checkpoint: {error!r}") from error
        if signer != to_canonical_address(validator):
            raise TransientError(f"{url} is not signed by {validator} for this message")
        return root, signature


def public_url(location: str) -> str:
    """Where a validator's storage can be read without an account: buckets of Amazon and Google, or plain HTTP.

    Raises:
        TransientError: it can't be read from here; the validator may announce another one.
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
    raise TransientError(f"signatures at {location!r} can't be read from here")


def _checkpoint_hash(dispatch: Dispatch, source: ChainDeployment, root: bytes) -> bytes:
    """What validators sign of a message in the tree, but for Ethereum's prefix."""
    contracts = HyperlaneContracts.of(source)
    leaf = int(dispatch.evidence["leaf"]).to_bytes(4, "big")
    tree = _tree(contracts.domain, contracts.merkle_tree_hook)
    return keccak(tree + root + leaf + keccak(hyperlane_message(dispatch)))


def _signer(checkpoint: bytes, signature: bytes) -> bytes:
    """The account that signed, 20 bytes. eth_account finds it, too, and takes three times as long.

    Raises:
        BadSignature, ValidationError: nobody did.
    """
    v = signature[-1]
    rsv = Signature(signature_bytes=signature[:-1] + bytes([v - _FIRST_V if v >= _FIRST_V else v]))
    return rsv.recover_public_key_from_msg_hash(keccak(_PREFIX + checkpoint)).to_canonical_address()


@lru_cache(maxsize=64)
def _tree(domain: int, hook: str) -> bytes:
    """How validators name a chain's tree of messages."""
    return keccak(domain.to_bytes(4, "big") + to_bytes32(hook) + b"HYPERLANE")


def create_attester(sources: AttestationSources) -> HyperlaneCheckpoints:
    """Validators of every chain that has Hyperlane.

    Raises:
        AttestationError: nothing says where those of a chain announce themselves.
    """
    with_hyperlane = [chain for chain in sources.deployment.chains if Gmp.HYPERLANE in chain.gmp_numbers]
    announced = {
        chain.name: address
        for chain in with_hyperlane
        if (address := sources.setting.get(chain.name) or HyperlaneContracts.of(chain).validator_announce)
    }
    missing = [chain.name for chain in with_hyperlane if chain.name not in announced]
    if missing:
        raise AttestationError(
            f"Hyperlane's validators of {', '.join(missing)} can't be found: name the ValidatorAnnounce contracts in"
            " [attestations.hyperlane] or the deployments file, or leave hyperlane out of `gmps`"
        )
    announcements = {chain.chain_id: announced[chain.name] for chain in with_hyperlane}
    return HyperlaneCheckpoints(sources.deployment, sources.chains, announcements, sources.web)
