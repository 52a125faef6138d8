"""CCIP on a devnet: routers, ramps, fee quoters, and the committee of oracles that verifies messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eth_utils import decode_hex, keccak
from pydantic import Field

from bridge.devnet.accounts import signer
from bridge.devnet.artifacts import Artifact
from bridge.devnet.attesting import SigningAttester, confirm, sign_digest
from bridge.devnet.deployer import Deployer
from bridge.devnet.gmps import DevnetChain, GmpDevnet
from bridge.gmps.ccip.adapter import CcipContracts
from bridge.gmps.ccip.message import OFF_RAMP, CcipMessage, encode_results
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.ports import Dispatch

_FIRST_SELECTOR: Final = 10_000_000_000_000_031_001  # as many digits as real selectors
# The verifier requires signatures in ascending order of address.
ORACLES: Final = tuple(
    sorted((signer("ccip oracle", index) for index in range(4)), key=lambda account: int(account.address, 16))
)
SIGNATURES: Final = 2

_VERIFIER_VERSION: Final = keccak(text="waybill devnet ccip committee")[:4]  # prefix of the payload that oracles sign
_CURVE_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141  # of secp256k1

_NO_ADDRESS: Final = "0x" + "00" * 20
_USD: Final = 10**18  # units of prices
_GAS_FOR_CALL_EXACT_CHECK: Final = 5_000
_GAS_FOR_STATE: Final = 12_000  # reserved by an off-ramp for recording a failure
_HIGHEST_FEE: Final = 100_000  # US cents for a message
_VERIFICATION_GAS: Final = 100_000
_EXECUTION_GAS: Final = 300_000  # of the off-ramp, without the receiver
_MAX_VERIFIERS: Final = 10

# Limits and fees of messages to a chain, in the order of the fee quoter's struct.
_DESTINATION: Final[Mapping[str, Any]] = {
    "isEnabled": True,
    "maxDataBytes": 30_000,
    "maxPerMsgGasLimit": 16_000_000,  # CCIP adds its own gas to the message's
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

    off_ramp: str = Field(exclude=True)
    resolver: str = Field(exclude=True)  # represents the committee to ramps and receivers
    executor: str = Field(exclude=True)


def _load(name: str) -> Artifact:
    return Artifact.load("ccip", name)


async def deploy(deployer: Deployer, here: DevnetChain, others: Sequence[DevnetChain]) -> DevnetCcip:
    """Deploys CCIP on a chain. `connect` then opens its lanes.

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
    fee_quoter = _create_fee_quoter(deployer, wrapped, link, remote_selectors)
    on_ramp = deployer.create(
        _load("CcipOnRamp"), (selector, rmn, _HIGHEST_FEE, registry), (fee_quoter, False, deployer.address)
    )
    off_ramp = deployer.create(
        _load("CcipOffRamp"), (selector, _GAS_FOR_CALL_EXACT_CHECK, rmn, registry, _GAS_FOR_STATE)
    )
    resolver = create_committee(deployer, rmn, router, remote_selectors)
    executor = deployer.create(_load("CcipExecutor"), _MAX_VERIFIERS, (deployer.address, bytes(4), False))
    destinations = [(remote, (1, True)) for remote in remote_selectors]
    deployer.call(_load("CcipExecutor"), executor, "applyDestChainUpdates", [], destinations)
    await deployer.send()
    return DevnetCcip(
        selector=selector, router=router, on_ramp=on_ramp, off_ramp=off_ramp, resolver=resolver, executor=executor
    )


async def connect(deployer: Deployer, here: DevnetCcip, others: Sequence[DevnetCcip]) -> None:
    """Opens the lanes to and from the other chains, whose ramps must exist.

    Raises:
        DevnetError: a transaction failed.
    """
    verifiers: tuple[Any, ...] = ([here.resolver], [], here.executor)
    destinations = [
        (other.selector, here.router, 20, False, 10, 10, _EXECUTION_GAS, *verifiers, decode_hex(other.off_ramp))
        for other in others
    ]
    sources: list[tuple[Any, ...]] = [
        (here.router, other.selector, True, [to_bytes32(str(other.on_ramp))], [here.resolver], []) for other in others
    ]
    deployer.call(_load("CcipOnRamp"), str(here.on_ramp), "applyDestChainConfigUpdates", destinations)
    deployer.call(_load("CcipOffRamp"), here.off_ramp, "applySourceChainConfigUpdates", sources)
    on_ramps, off_ramps = ([(other.selector, ramp) for other in others] for ramp in (here.on_ramp, here.off_ramp))
    deployer.call(_load("Router"), here.router, "applyRampUpdates", on_ramps, [], off_ramps)
    await deployer.send()


def create_committee(deployer: Deployer, rmn: str, router: str, remote_selectors: Sequence[int]) -> str:
    """Creates a verifier with the oracles as its committee, and returns its resolver."""
    artifact, resolving = _load("CommitteeVerifier"), _load("VersionedVerifierResolver")
    settings = (deployer.address, deployer.address)  # fee recipient, allow-list admin
    verifier = deployer.create(
        artifact, settings, ["none: the devnet's committee signs on request"], rmn, _VERIFIER_VERSION
    )
    remotes = [(router, remote, False, 1, _VERIFICATION_GAS, 6 + 64 * SIGNATURES) for remote in remote_selectors]
    deployer.call(artifact, verifier, "applyRemoteChainConfigUpdates", remotes)
    signers = [oracle.address for oracle in ORACLES]
    committees = [(remote, SIGNATURES, signers) for remote in remote_selectors]
    deployer.call(artifact, verifier, "applySignatureConfigs", [], committees)
    resolver = deployer.create(resolving)
    deployer.call(resolving, resolver, "applyInboundImplementationUpdates", [(_VERIFIER_VERSION, verifier)])
    outbound = [(remote, verifier) for remote in remote_selectors]
    deployer.call(resolving, resolver, "applyOutboundImplementationUpdates", outbound)
    return resolver


def _create_fee_quoter(deployer: Deployer, wrapped: str, link: str, remote_selectors: Sequence[int]) -> str:
    destinations = [(remote, tuple(_DESTINATION.values())) for remote in remote_selectors]
    artifact = _load("CcipFeeQuoter")
    fee_quoter = deployer.create(artifact, (200 * _USD, link), [deployer.address], [], destinations)
    token_prices = [(wrapped, 2000 * _USD), (link, 15 * _USD)]
    gas_prices = [(remote, 2000 * 10**9) for remote in remote_selectors]  # one gwei of a coin worth 2,000 dollars
    deployer.call(artifact, fee_quoter, "updatePrices", (token_prices, gas_prices))
    return fee_quoter


class CcipOracles(SigningAttester):
    """The committee, which signs the ids of messages."""

    DEFAULT_SIGNERS = ORACLES[:SIGNATURES]

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. Returns the committee's result for every verifier that the destination requires."""
        await confirm(self._chains[dispatch.source_chain], dispatch)
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessage.of_dispatch(dispatch)
        required, optional, threshold = await self._read(
            destination, message.off_ramp, OFF_RAMP, "getCCVsForMessage", message.packed
        )
        resolvers = (*required, *optional[:threshold])
        return encode_results(resolvers, [self._result(dispatch)] * len(resolvers))

    def _result(self, dispatch: Dispatch) -> bytes:
        """Returns the committee's signatures of a message, all with v = 27."""
        digest = keccak(_VERIFIER_VERSION + decode_hex(dispatch.transport_id))
        signatures = b"".join(_with_v_27(sign_digest(oracle, digest)) for oracle in self._signers)
        return _VERIFIER_VERSION + len(signatures).to_bytes(2, "big") + signatures


def _with_v_27(signature: bytes) -> bytes:
    """Returns r and s (64 bytes) of the equivalent signature with v = 27. Negating s flips v."""
    r, s, v = signature[:32], int.from_bytes(signature[32:64], "big"), signature[64]
    return r + (s if v == 27 else _CURVE_ORDER - s).to_bytes(32, "big")


DEVNET: Final = GmpDevnet(deploy=deploy, attester=CcipOracles, connect=connect)
