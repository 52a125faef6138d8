"""CCIP on a devnet: routers, ramps and fee quoters of 1.6 and 2.0, the oracles of 1.6 and the committee of 2.0.

A lane to a chain with a higher number runs 1.6 and the lane back runs 2.0, so that two chains cover both versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eth_abi.abi import encode
from eth_account.signers.local import LocalAccount
from eth_utils import decode_hex, keccak
from pydantic import Field

from bridge.devnet.accounts import RELAYER_KEY, account, signer
from bridge.devnet.artifacts import Artifact
from bridge.devnet.attesting import confirm, sign_digest
from bridge.devnet.committee import Committee
from bridge.devnet.deployer import Deployer
from bridge.devnet.gmps import DevnetChain, GmpDevnet
from bridge.gmps.ccip.adapter import EXECUTION_PLUGIN, MESSAGE_SENT, OFF_RAMP, CcipContracts, CcipMessage, encode_proof
from bridge.gmps.ccip.proofs import leaf
from bridge.gmps.ccip.v2 import OFF_RAMP_V2, CcipMessageV2, encode_results, is_v2
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.ports import Call, Chain, Dispatch

_FIRST_SELECTOR: Final = 10_000_000_000_000_031_001  # as many digits as real selectors
ORACLES: Final = tuple(signer("ccip oracle", index) for index in range(4))
SIGNATURES: Final = 2  # one oracle may be faulty
_FAULTY: Final = 1

_TRANSMITTER: Final = signer("ccip transmitter", 0)  # submits the oracles' reports
_TRANSMITTER_FUNDS: Final = 1_000 * 10**18  # wei

_COMMIT_PLUGIN: Final = 0
_COMMIT_CONFIG: Final = keccak(text="waybill devnet ccip commit")
_EXECUTION_CONFIG: Final = keccak(text="waybill devnet ccip execution")
_ROOTS_PER_REPORT: Final = 8  # as many as fit in one transaction

_VERIFIER_VERSION: Final = keccak(text="waybill devnet ccip committee")[
    :4
]  # prefix of the payload that the 2.0 committee signs
_CURVE_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141  # of secp256k1

_NO_ADDRESS: Final = "0x" + "00" * 20
_USD: Final = 10**18  # units of prices
_GAS_FOR_CALL_EXACT_CHECK: Final = 5_000
_GAS_FOR_STATE: Final = 12_000  # reserved by a 2.0 off-ramp for recording a failure
_HIGHEST_FEE: Final = 100_000  # US cents for a 2.0 message
_MANUAL_EXECUTION_SECONDS: Final = 3600  # after which anyone may execute manually
_LONGEST_DATA: Final = 30_000  # bytes

_PRICE_UPDATES: Final = "((address,uint224)[],(uint64,uint224)[])"
_ROOT: Final = "(uint64,bytes,uint64,uint64,bytes32)"
_COMMIT_REPORT: Final = f"({_PRICE_UPDATES},{_ROOT}[],{_ROOT}[],(bytes32,bytes32)[])"

# Limits and fees of messages to a chain, in the order of the fee quoter's struct.
_DESTINATION: Final[Mapping[str, Any]] = {
    "isEnabled": True,
    "maxNumberOfTokensPerMsg": 1,
    "maxDataBytes": _LONGEST_DATA,
    "maxPerMsgGasLimit": 14_000_000,
    "destGasOverhead": 300_000,
    "destGasPerPayloadByteBase": 16,
    "destGasPerPayloadByteHigh": 40,
    "destGasPerPayloadByteThreshold": 3_000,
    "destDataAvailabilityOverheadGas": 0,
    "destGasPerDataAvailabilityByte": 0,
    "destDataAvailabilityMultiplierBps": 0,
    "chainFamilySelector": bytes.fromhex("2812d52c"),  # EVM
    "enforceOutOfOrder": False,
    "defaultTokenFeeUSDCents": 25,
    "defaultTokenDestGasOverhead": 90_000,
    "defaultTxGasLimit": 200_000,
    "gasMultiplierWeiPerEth": 11 * 10**17,
    "gasPriceStalenessThreshold": 0,  # prices never expire
    "networkFeeUSDCents": 10,
}


# The same for 2.0.
_DESTINATION_V2: Final[Mapping[str, Any]] = {
    "isEnabled": True,
    "maxDataBytes": _LONGEST_DATA,
    "maxPerMsgGasLimit": 14_000_000,
    "destGasOverhead": 300_000,
    "destGasPerPayloadByteBase": 16,
    "chainFamilySelector": bytes.fromhex("2812d52c"),  # EVM
    "defaultTokenFeeUSDCents": 25,
    "defaultTokenDestGasOverhead": 90_000,
    "defaultTxGasLimit": 200_000,
    "networkFeeUSDCents": 10,
    "linkFeeMultiplierPercent": 90,
}


class DevnetCcip(CcipContracts):
    """CCIP's contracts on a devnet, with those that only `connect` needs and the deployments file leaves out."""

    off_ramp_v2: str = Field(exclude=True)
    resolver: str = Field(exclude=True)  # represents the 2.0 committee to ramps and receivers
    executor: str = Field(exclude=True)


def _load(name: str) -> Artifact:
    return Artifact.load("ccip", name)


def _runs_v2(source: int, destination: int) -> bool:
    """Returns whether the lane between two selectors runs 2.0."""
    return source > destination


async def deploy(deployer: Deployer, here: DevnetChain, others: Sequence[DevnetChain]) -> DevnetCcip:
    """Deploys CCIP on a chain, able to send to the other chains; `connect` enables receiving.

    Raises:
        DevnetError: a transaction failed.
    """
    selector, remote_selectors = _FIRST_SELECTOR + here.position, [_FIRST_SELECTOR + other.position for other in others]
    # CCIP's fees are paid in tokens or in the native coin, which its router wraps.
    token = Artifact.load("wormhole", "MockWETH9")
    wrapped, link = deployer.create(token), deployer.create(token)
    rmn = deployer.create(_load("RMNRemote"), selector, _NO_ADDRESS)
    router = deployer.create(_load("Router"), wrapped, rmn)
    registry = deployer.create(_load("TokenAdminRegistry"))
    nonces = deployer.create(_load("NonceManager"), [])
    fee_quoter = _create_fee_quoter(deployer, wrapped, link, remote_selectors)
    on_ramp = deployer.create(
        _load("OnRamp"),
        (selector, rmn, nonces, registry),
        (fee_quoter, False, _NO_ADDRESS, deployer.address, _NO_ADDRESS),
        [(remote, router, False) for remote in remote_selectors],
    )
    off_ramp = deployer.create(
        _load("OffRamp"),
        (selector, _GAS_FOR_CALL_EXACT_CHECK, rmn, registry, nonces),
        (fee_quoter, _MANUAL_EXECUTION_SECONDS, _NO_ADDRESS),
        [],
    )
    deployer.call(_load("NonceManager"), nonces, "applyAuthorizedCallerUpdates", ([on_ramp, off_ramp], []))
    deployer.call(_load("OffRamp"), off_ramp, "setOCR3Configs", _oracle_configs())
    deployer.fund(_TRANSMITTER.address, _TRANSMITTER_FUNDS)
    on_ramp_v2 = deployer.create(
        _load("OnRampV2"),
        (selector, rmn, _HIGHEST_FEE, registry),
        (_create_fee_quoter_v2(deployer, wrapped, link, remote_selectors), False, deployer.address),
    )
    off_ramp_v2 = deployer.create(
        _load("OffRampV2"), (selector, _GAS_FOR_CALL_EXACT_CHECK, rmn, registry, _GAS_FOR_STATE)
    )
    resolver = create_committee(deployer, rmn, router, remote_selectors)
    executor = deployer.create(_load("CcipExecutor"), 10, (deployer.address, bytes(4), False))
    destinations = [(remote, (1, True)) for remote in remote_selectors]
    deployer.call(_load("CcipExecutor"), executor, "applyDestChainUpdates", [], destinations)
    await deployer.send()
    return DevnetCcip(
        selector=selector,
        router=router,
        on_ramp=on_ramp,
        off_ramp=off_ramp,
        on_ramp_v2=on_ramp_v2,
        off_ramp_v2=off_ramp_v2,
        resolver=resolver,
        executor=executor,
    )


async def connect(deployer: Deployer, here: DevnetCcip, others: Sequence[DevnetCcip]) -> None:
    """Enables receiving from the other chains, whose on-ramps must exist.

    Raises:
        DevnetError: a transaction failed.
    """
    # Each source is enabled, with RMN verification disabled, because a devnet has no risk management network.
    sources = [(here.router, other.selector, True, True, to_bytes32(other.on_ramp_v1)) for other in others]
    deployer.call(_load("OffRamp"), here.off_ramp_v1, "applySourceChainConfigUpdates", sources)
    destinations, sources_v2 = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    on_ramps, off_ramps = [], []
    for other in others:
        if _runs_v2(here.selector, other.selector):
            verifiers: tuple[Any, ...] = ([here.resolver], [], here.executor, decode_hex(other.off_ramp_v2))
            destinations.append((other.selector, here.router, 20, False, 10, 10, 300_000, *verifiers))
        if _runs_v2(other.selector, here.selector):
            known = [to_bytes32(str(other.on_ramp_v2))]
            sources_v2.append((here.router, other.selector, True, known, [here.resolver], []))
        on_ramp = here.on_ramp_v2 if _runs_v2(here.selector, other.selector) else here.on_ramp_v1
        off_ramp = here.off_ramp_v2 if _runs_v2(other.selector, here.selector) else here.off_ramp_v1
        on_ramps.append((other.selector, on_ramp))
        off_ramps.append((other.selector, off_ramp))
    deployer.call(_load("OnRampV2"), str(here.on_ramp_v2), "applyDestChainConfigUpdates", destinations)
    deployer.call(_load("OffRampV2"), here.off_ramp_v2, "applySourceChainConfigUpdates", sources_v2)
    deployer.call(_load("Router"), here.router, "applyRampUpdates", on_ramps, [], off_ramps)
    await deployer.send()


def create_committee(deployer: Deployer, rmn: str, router: str, remote_selectors: Sequence[int]) -> str:
    """Creates a 2.0 verifier with the oracles as its committee, and returns its resolver."""
    artifact, resolving = _load("CommitteeVerifier"), _load("VersionedVerifierResolver")
    settings = (deployer.address, deployer.address)  # fee recipient, allow-list admin
    verifier = deployer.create(
        artifact, settings, ["none: the devnet's committee signs on request"], rmn, _VERIFIER_VERSION
    )
    remotes = [(router, remote, False, 1, 100_000, 6 + 64 * SIGNATURES) for remote in remote_selectors]
    deployer.call(artifact, verifier, "applyRemoteChainConfigUpdates", remotes)
    signers = [oracle.address for oracle in ORACLES]
    committees = [(remote, SIGNATURES, signers) for remote in remote_selectors]
    deployer.call(artifact, verifier, "applySignatureConfigs", [], committees)
    resolver = deployer.create(resolving)
    deployer.call(resolving, resolver, "applyInboundImplementationUpdates", [(_VERIFIER_VERSION, verifier)])
    outbound = [(remote, verifier) for remote in remote_selectors]
    deployer.call(resolving, resolver, "applyOutboundImplementationUpdates", outbound)
    return resolver


def _create_fee_quoter_v2(deployer: Deployer, wrapped: str, link: str, remote_selectors: Sequence[int]) -> str:
    destinations = [(remote, tuple(_DESTINATION_V2.values())) for remote in remote_selectors]
    artifact = _load("FeeQuoterV2")
    fee_quoter = deployer.create(artifact, (200 * _USD, link), [deployer.address], [], destinations)
    deployer.call(artifact, fee_quoter, "updatePrices", _prices(wrapped, link, remote_selectors))
    return fee_quoter


def _prices(wrapped: str, link: str, remote_selectors: Sequence[int]) -> tuple[Any, ...]:
    token_prices = [(wrapped, 2000 * _USD), (link, 15 * _USD)]
    gas_prices = [(remote, 2000 * 10**9) for remote in remote_selectors]  # one gwei of a coin worth 2,000 dollars
    return token_prices, gas_prices


def _create_fee_quoter(deployer: Deployer, wrapped: str, link: str, remote_selectors: Sequence[int]) -> str:
    artifact = _load("FeeQuoter")
    destination = tuple(_DESTINATION.values())
    fee_quoter = deployer.create(
        artifact,
        (200 * _USD, link, 86_400),  # highest fee of a message, LINK, staleness threshold in seconds
        [deployer.address],
        [wrapped, link],
        [],
        [],
        [(wrapped, 10**18), (link, 10**18)],
        [(remote, destination) for remote in remote_selectors],
    )
    deployer.call(artifact, fee_quoter, "updatePrices", _prices(wrapped, link, remote_selectors))
    return fee_quoter


def _oracle_configs() -> list[tuple[Any, ...]]:
    signers = [oracle.address for oracle in ORACLES]
    relayer = account(RELAYER_KEY).address
    return [
        (_COMMIT_CONFIG, _COMMIT_PLUGIN, _FAULTY, True, signers, [_TRANSMITTER.address]),
        # Executing needs no signatures beyond the root's; the relayer executes as a transmitter.
        (_EXECUTION_CONFIG, EXECUTION_PLUGIN, _FAULTY, False, [], [relayer]),
    ]


class CcipOracles(Committee):
    """The oracles of 1.6 and the committee of 2.0.

    With 1.6 they commit one root per message to the destination, so that no message needs a proof. With 2.0 they return
    the
    committee's signatures.
    """

    ATTESTATION = encode_proof([], manually=False)

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        oracles: Sequence[LocalAccount] = ORACLES[:SIGNATURES],
    ) -> None:
        """Signs with the given oracles."""
        super().__init__(deployment, chains, _TRANSMITTER)
        self._oracles = oracles

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`."""
        if not is_v2(dispatch):
            return await super().attest(dispatch)
        await confirm(self._chains[dispatch.source_chain], dispatch)
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessageV2.of_dispatch(dispatch)
        required, optional, threshold = await self._read(
            destination, message.off_ramp, OFF_RAMP_V2, "getCCVsForMessage", message.packed
        )
        resolvers = (*required, *optional[:threshold])
        return encode_results(resolvers, [self._result(dispatch)] * len(resolvers))

    def _result(self, dispatch: Dispatch) -> bytes:
        """Returns the committee's signatures of a message, in ascending order of signer, all with v = 27."""
        digest = keccak(_VERIFIER_VERSION + decode_hex(dispatch.transport_id))
        signatures = b"".join(
            _with_v_27(sign_digest(oracle, digest))
            for oracle in sorted(self._oracles, key=lambda account_: int(account_.address, 16))
        )
        return _VERIFIER_VERSION + len(signatures).to_bytes(2, "big") + signatures

    async def _is_written(self, dispatch: Dispatch) -> bool:
        return await self._next_sequence(dispatch) > CcipMessage.of_dispatch(dispatch).sequence

    async def _next_sequence(self, dispatch: Dispatch) -> int:
        """Returns the next sequence number that the off-ramp expects to be committed."""
        destination = self._deployment.chain(dispatch.destination_chain)
        selector = CcipMessage.of_dispatch(dispatch).source_selector
        off_ramp = CcipContracts.of(destination).off_ramp_v1
        sequence: int = (await self._read(destination, off_ramp, OFF_RAMP, "getSourceChainConfig", selector))[2]
        return sequence

    async def _write(self, deployer: Deployer, dispatch: Dispatch, newest: int) -> None:
        source = self._deployment.chain(dispatch.source_chain)
        off_ramp = CcipContracts.of(self._deployment.chain(dispatch.destination_chain)).off_ramp_v1
        artifact = _load("OffRamp")
        waiting = await self._uncommitted(dispatch, newest)
        for start in range(0, len(waiting), _ROOTS_PER_REPORT):
            arguments = self._commit(source, waiting[start : start + _ROOTS_PER_REPORT])
            if start == 0:  # later reports depend on the first, so only it can be simulated
                call = Call(to=off_ramp, data=artifact.contract.encode("commit", *arguments))
                await deployer.chain.call(call, sender=deployer.address)
            deployer.call(artifact, off_ramp, "commit", *arguments)

    async def _uncommitted(self, dispatch: Dispatch, newest: int) -> list[CcipMessage]:
        """Returns the lane's messages from the first uncommitted one up to block `newest`, in order."""
        requested = CcipMessage.of_dispatch(dispatch)
        next_sequence = await self._next_sequence(dispatch)
        source = self._deployment.chain(dispatch.source_chain)
        first = dispatch.block_number if requested.sequence == next_sequence else source.start_block
        on_ramp = CcipContracts.of(source).on_ramp_v1
        logs = await self._logs(source, on_ramp, MESSAGE_SENT, first, newest)
        messages = (CcipMessage.of_log(log, on_ramp) for log in logs)
        return [
            message
            for message in messages
            if message is not None
            and message.destination_selector == requested.destination_selector
            and message.sequence >= next_sequence
        ]

    def _commit(self, source: ChainDeployment, messages: Sequence[CcipMessage]) -> tuple[Any, ...]:
        """Returns the arguments of `commit`: context, report and signatures."""
        report = encode(
            [_COMMIT_REPORT], [(([], []), [], self._roots(CcipContracts.of(source).on_ramp_v1, messages), [])]
        )
        context = (_COMMIT_CONFIG, messages[0].sequence.to_bytes(32, "big"))
        digest = keccak(keccak(report) + b"".join(context))
        signatures = [sign_digest(oracle, digest) for oracle in self._oracles]
        # Recovery ids start at 0 here and are packed into one word.
        recovery_ids = bytes(signature[64] - 27 for signature in signatures).ljust(32, b"\0")
        r_values, s_values = ([signature[at : at + 32] for signature in signatures] for at in (0, 32))
        return context, report, r_values, s_values, recovery_ids

    def _roots(self, on_ramp: str, messages: Sequence[CcipMessage]) -> list[tuple[Any, ...]]:
        """Returns the off-ramp's structs: source, on-ramp, first and last sequence number, root."""
        return [
            (message.source_selector, to_bytes32(on_ramp), message.sequence, message.sequence, leaf(message, on_ramp))
            for message in messages
        ]


def _with_v_27(signature: bytes) -> bytes:
    """Returns r and s, 64 bytes, of the equivalent signature with v = 27: negating s flips v."""
    r, s, v = signature[:32], int.from_bytes(signature[32:64], "big"), signature[64]
    return r + (s if v == 27 else _CURVE_ORDER - s).to_bytes(32, "big")


DEVNET: Final = GmpDevnet(deploy=deploy, attester=CcipOracles, connect=connect)
