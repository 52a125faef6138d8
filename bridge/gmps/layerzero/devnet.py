"""LayerZero V2 on a devnet: endpoint, libraries, executor, and a DVN whose signers verify packets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from eth_utils.address import to_canonical_address, to_checksum_address

from bridge.devnet.accounts import signer
from bridge.devnet.artifacts import Artifact
from bridge.devnet.attesting import SigningAttester, confirm, sign_digest
from bridge.devnet.deployer import Deployer
from bridge.devnet.errors import DevnetError
from bridge.devnet.gmps import DevnetChain, GmpDevnet
from bridge.gmps.layerzero.adapter import ENDPOINT, PACKET_SENT, LayerZeroContracts, Packet
from bridge.protocol.contracts import contract
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import Chain, Dispatch, TerminalError, TransientError

# The DVN requires signatures in ascending order of address.
_FIRST_EID: Final = 31_001
SIGNERS: Final = tuple(
    sorted((signer("layerzero signer", index) for index in range(3)), key=lambda account: int(account.address, 16))
)
QUORUM: Final = 2

_NODE: Final = signer("layerzero node", 0)  # submits the signers' verifications
_NODE_FUNDS: Final = 1_000 * 10**18  # wei

_CONFIRMATIONS: Final = 1
_LONGEST_MESSAGE: Final = 10_000  # bytes, LayerZero's usual limit
_SIGNATURE_SECONDS: Final = 3600

# Price feeds and DVNs identify a chain by its eid modulo 30,000.
_SHORT_EID: Final = 30_000

_NO_ADDRESS: Final = "0x" + "00" * 20
_COIN: Final = 10**18  # units of the chains' coins
_USD: Final = 10**20  # units of prices
_PRICE: Final = (10**20, 10**9, 16)  # ratio of the coins' values (1), wei per gas on the other chain, gas per byte
_VERIFY_GAS: Final = 80_000
_RECEIVE_GAS: Final = 60_000
_COMPOSE_GAS: Final = 30_000
_MULTIPLIER: Final = 12_000  # fees are 120 % of costs

_ULN_CONFIG: Final = "(uint64,uint8,uint8,uint8,address[],address[])"
_RECEIVE_LIBRARIES: Final = contract("getReceiveLibrary(address,uint32) returns (address,bool)")
_RECEIVE_LIBRARY: Final = contract(
    f"getUlnConfig(address,uint32) returns ({_ULN_CONFIG})",
    "verify(bytes,bytes32,uint64)",
)
_DVN: Final = contract("vid() returns (uint32)", "verifySignatures(bytes32,bytes) returns (bool,uint8)")


def _load(name: str) -> Artifact:
    return Artifact.load("layerzero", name)


async def deploy(deployer: Deployer, here: DevnetChain, others: Sequence[DevnetChain]) -> LayerZeroContracts:
    """Deploys an endpoint on a chain, with libraries, a DVN and an executor, and opens its lanes to the other chains.

    Raises:
        DevnetError: a transaction failed.
    """
    eid, remote_eids = _FIRST_EID + here.position, [_FIRST_EID + other.position for other in others]
    endpoint = deployer.create(_load("EndpointV2"), eid, deployer.address)
    contracts = LayerZeroContracts(eid=eid, endpoint=endpoint)
    # The two numbers limit the treasury fee, which is zero here.
    send_library = deployer.create(_load("SendUln302"), endpoint, 200_000, _COIN)
    receive_library = deployer.create(_load("ReceiveUln302"), endpoint)
    deployer.call(_load("SendUln302"), send_library, "setTreasury", deployer.create(_load("Treasury")))
    for library in (send_library, receive_library):
        deployer.call(_load("EndpointV2"), endpoint, "registerLibrary", library)
    price_feed = _create_price_feed(deployer, remote_eids)
    dvn = _create_dvn(deployer, eid, send_library, price_feed, remote_eids)
    executor = _create_executor(deployer, contracts, send_library, price_feed, remote_eids)

    # A library must be configured for a chain before the endpoint accepts it as the default for that chain.
    uln_configs: list[tuple[Any, ...]] = [(remote, (_CONFIRMATIONS, 1, 0, 0, [dvn], [])) for remote in remote_eids]
    deployer.call(_load("SendUln302"), send_library, "setDefaultUlnConfigs", uln_configs)
    deployer.call(_load("ReceiveUln302"), receive_library, "setDefaultUlnConfigs", uln_configs)
    executor_configs = [(remote, (_LONGEST_MESSAGE, executor)) for remote in remote_eids]
    deployer.call(_load("SendUln302"), send_library, "setDefaultExecutorConfigs", executor_configs)
    for remote in remote_eids:
        deployer.call(_load("EndpointV2"), endpoint, "setDefaultSendLibrary", remote, send_library)
        deployer.call(_load("EndpointV2"), endpoint, "setDefaultReceiveLibrary", remote, receive_library, 0)
    deployer.fund(_NODE.address, _NODE_FUNDS)
    await deployer.send()
    return contracts


def _create_price_feed(deployer: Deployer, remote_eids: Sequence[int]) -> str:
    artifact = _load("PriceFeed")
    price_feed = deployer.create(artifact)
    deployer.call(artifact, price_feed, "initialize", deployer.address)
    deployer.call(artifact, price_feed, "setPrice", [(remote % _SHORT_EID, _PRICE) for remote in remote_eids])
    deployer.call(artifact, price_feed, "setNativeTokenPriceUSD", 2000 * _USD)
    return price_feed


def _create_dvn(deployer: Deployer, eid: int, library: str, price_feed: str, remote_eids: Sequence[int]) -> str:
    artifact = _load("DVN")
    signers = [account.address for account in SIGNERS]
    admins = [deployer.address, _NODE.address]
    dvn = deployer.create(artifact, eid, eid % _SHORT_EID, [library], price_feed, signers, QUORUM, admins)
    deployer.call(artifact, dvn, "setWorkerFeeLib", deployer.create(_load("DVNFeeLib"), eid, _COIN))
    deployer.call(artifact, dvn, "setDstConfig", [(remote, _VERIFY_GAS, _MULTIPLIER, 0) for remote in remote_eids])
    return dvn


def _create_executor(
    deployer: Deployer, contracts: LayerZeroContracts, library: str, price_feed: str, remote_eids: Sequence[int]
) -> str:
    artifact = _load("Executor")
    executor = deployer.create(artifact)
    arguments = (contracts.endpoint, _NO_ADDRESS, [library], price_feed, deployer.address, [deployer.address])
    deployer.call(artifact, executor, "initialize", *arguments)
    deployer.call(artifact, executor, "setWorkerFeeLib", deployer.create(_load("ExecutorFeeLib"), contracts.eid, _COIN))
    configs = [(remote, _RECEIVE_GAS, _COMPOSE_GAS, _MULTIPLIER, 0, _COIN) for remote in remote_eids]
    deployer.call(artifact, executor, "setDstConfig", configs)
    return executor


class LayerZeroVerifiers(SigningAttester):
    """The DVN: its signers verify packets, and its node submits and commits the verifications.

    LayerZero commits the packets of a path in order. Along with a requested verification, the node therefore
    also writes the missing verifications of earlier packets, and those requested since the last batch. It
    writes one batch at a time to each destination.
    """

    DEFAULT_SIGNERS = SIGNERS[:QUORUM]

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], signers: Sequence[LocalAccount] | None = None
    ) -> None:
        """See `SigningAttester`."""
        super().__init__(deployment, chains, signers)
        self._turns: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # by destination
        self._newest: dict[tuple[int, int], int] = defaultdict(int)  # highest requested block by lane

    async def attest(self, dispatch: Dispatch) -> bytes:
        """Ensures that the packet is committed on the destination, and returns empty bytes.

        Raises:
            TransientError: the dispatch's block is no longer on its chain, or the write failed.
        """
        await confirm(self._chains[dispatch.source_chain], dispatch)
        lane = (dispatch.source_chain, dispatch.destination_chain)
        self._newest[lane] = max(self._newest[lane], dispatch.block_number)
        async with self._turns[dispatch.destination_chain]:
            if await self._committed_to(dispatch) < Packet.of_dispatch(dispatch).nonce:
                deployer = await Deployer.on(self._chains[dispatch.destination_chain], _NODE)
                await self._write(deployer, dispatch, self._newest[lane])
                try:
                    await deployer.send()
                except (DevnetError, TerminalError) as error:
                    # Another process used the account first, or a reorg happened: the next attempt reads the new state.
                    raise TransientError(str(error)) from error
        return b""

    async def _committed_to(self, dispatch: Dispatch) -> int:
        """Returns the path's highest nonce up to which every packet is committed."""
        destination = self._deployment.chain(dispatch.destination_chain)
        endpoint, packet = LayerZeroContracts.of(destination).endpoint, Packet.of_dispatch(dispatch)
        nonce: int = await self._read(destination, endpoint, ENDPOINT, "inboundNonce", *packet.path)
        return nonce

    async def _write(self, deployer: Deployer, dispatch: Dispatch, newest: int) -> None:
        """Queues the verifications of a path up to block `newest`, including that of the dispatch."""
        destination = self._deployment.chain(dispatch.destination_chain)
        receiver, source_eid, _ = Packet.of_dispatch(dispatch).path
        endpoint = LayerZeroContracts.of(destination).endpoint
        answer = await self._read(destination, endpoint, _RECEIVE_LIBRARIES, "getReceiveLibrary", receiver, source_eid)
        library = to_checksum_address(answer[0])
        config = await self._read(destination, library, _RECEIVE_LIBRARY, "getUlnConfig", receiver, source_eid)
        dvn = to_checksum_address(config[4][0])  # the first required DVN
        vid = await self._read(destination, dvn, _DVN, "vid")
        expiration = (await deployer.chain.head()).timestamp + _SIGNATURE_SECONDS
        for packet in await self._uncommitted(dispatch, newest):
            call_data = _RECEIVE_LIBRARY.encode("verify", packet.header, packet.payload_hash, _CONFIRMATIONS)
            instruction = _instruction_hash(vid, library, expiration, call_data)
            digest = keccak(b"\x19Ethereum Signed Message:\n32" + instruction)
            signatures = b"".join(sign_digest(account, digest) for account in self._signers)
            accepted, _ = await self._read(destination, dvn, _DVN, "verifySignatures", instruction, signatures)
            if not accepted:  # the transaction would succeed without verifying anything
                raise TransientError(f"the DVN {dvn} on chain {destination.name!r} rejects its signers' signatures")
            parameters: tuple[Any, ...] = (vid, library, call_data, expiration, signatures)
            deployer.call(_load("DVN"), dvn, "execute", [parameters])
            deployer.call(_load("ReceiveUln302"), library, "commitVerification", packet.header, packet.payload_hash)

    async def _uncommitted(self, dispatch: Dispatch, newest: int) -> list[Packet]:
        """Returns the path's packets from the first uncommitted one up to block `newest`, in order."""
        requested = Packet.of_dispatch(dispatch)
        committed = await self._committed_to(dispatch)
        source = self._deployment.chain(dispatch.source_chain)
        first = dispatch.block_number if requested.nonce == committed + 1 else source.start_block
        endpoint = LayerZeroContracts.of(source).endpoint
        logs = await self._chains[source.chain_id].logs(first, newest, [endpoint], [PACKET_SENT])
        packets = (Packet.of_log(log, endpoint) for log in logs)
        return [
            packet
            for packet in packets
            if packet is not None and _is_on_path_of(packet, requested) and packet.nonce > committed
        ]


def _is_on_path_of(packet: Packet, other: Packet) -> bool:
    # Behind version and nonce, the header consists of the fields that make up a path.
    return packet.header[9:] == other.header[9:]


def _instruction_hash(vid: int, target: str, expiration: int, call_data: bytes) -> bytes:
    packed = vid.to_bytes(4, "big") + to_canonical_address(target) + expiration.to_bytes(32, "big") + call_data
    return keccak(packed)


DEVNET: Final = GmpDevnet(deploy=deploy, attester=LayerZeroVerifiers)
