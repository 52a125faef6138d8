"""A network nobody could find anything wrong with, and each way in which a hand weakens it: for the tests and for `bench/trust.py`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from eth_abi.abi import encode
from eth_utils.address import to_checksum_address

from bridge.devnet.accounts import DEPLOYER_KEY, account, signer
from bridge.devnet.artifacts import Artifact
from bridge.evm.chain import open_chains
from bridge.gmps.axelar.devnet import SIGNERS
from bridge.gmps.hyperlane.devnet import VALIDATORS
from bridge.protocol.contracts import ROUTER, Contract, contract
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp
from bridge.queries.trust import Assessment, DirectionTrust, Operators, assess, read_lane
from tests.anvil.rpc import rpc
from tests.unit.docs.test_docs import ROOT

DEPLOYER: Final = account(DEPLOYER_KEY).address
GUARDIAN, REVOKER, KEY, RECIPIENT = (signer(role, 0).address for role in ("guardian", "revoker", "key", "recipient"))
TIMELOCK: Final = ROOT / "node_modules/@openzeppelin/contracts/build/contracts/TimelockController.json"
TWO_DAYS: Final = 2 * 24 * 3600
NOBODY: Final = "0x" + "00" * 20
NONE: Final = 255  # LayerZero: no DVN, instead of the default's number
NO_CONFIRMATIONS: Final = 2**64 - 1
ULN: Final = "(uint64,uint8,uint8,uint8,address[],address[])"
BEACON_SLOT: Final = "0xa3f0ad74e5423aebfd80d3ef4346578335a9a72aeaee59ff6cb3582b35133d50"
ADMIN_SLOT: Final = "0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103"

OWNABLE: Final = contract("transferOwnership(address)", "acceptOwnership()")
ADAPTER: Final = contract(
    "setDelegate(address)",
    "setInterchainSecurityModule(address)",
    "setVerifiers(uint64,address[],address[],uint8)",
)
ENDPOINT: Final = contract(
    "setReceiveLibrary(address,uint32,address,uint256)",
    "getReceiveLibrary(address,uint32) returns (address,bool)",
    "setConfig(address,address,(uint32,uint32,bytes)[])",
)
DEFAULTS: Final = contract(f"setDefaultUlnConfigs((uint32,{ULN})[])")
FACTORY: Final = contract("deploy(address[],uint8) returns (address)")
ROUTING: Final = contract("initialize(address,uint32[],address[])")
AGGREGATION: Final = contract("deploy(address[],uint8) returns (address)")
MAILBOX: Final = contract("setDefaultIsm(address)", "defaultIsm() returns (address)")

SAFE: Final = contract(
    "setup(address[],uint256,address,bytes,address,address,uint256,address)",
    "createProxyWithNonce(address,bytes,uint256)",
    "enableModule(address)",
)
CCIP = contract(
    "getOffRamps() returns ((uint64,address)[])",
    "getSourceChainConfig(uint64) returns ((address,bool,bytes[],address[],address[]))",
    "getAllInboundImplementations() returns ((bytes4,address)[])",
    "applySignatureConfigs(uint64[],(uint64,uint8,address[])[])",
)


@dataclass
class End:
    """One chain of the honest network, and its configuration to be changed by hand."""

    here: ChainDeployment
    there: ChainDeployment
    url: str
    timelock: str = NOBODY
    dvns: tuple[str, ...] = ()
    library: str = NOBODY

    def by(self, sender: str, to: str | None, data: bytes) -> dict[str, Any]:
        """The receipt of any account's transaction, made without its key."""
        rpc(self.url, "anvil_setBalance", sender, hex(10**20))
        rpc(self.url, "anvil_impersonateAccount", sender)
        fields = {"from": sender, "data": f"0x{data.hex()}", "gas": hex(6_000_000), **({"to": to} if to else {})}
        sent = rpc(self.url, "eth_sendTransaction", fields)
        receipt: dict[str, Any] | None = None
        while receipt is None:  # anvil answers before it has made the block
            receipt = rpc(self.url, "eth_getTransactionReceipt", sent)
        assert receipt["status"] == "0x1", (sender, to, data[:4].hex())
        return receipt

    def create(self, artifact: Artifact, *arguments: Any) -> str:
        return to_checksum_address(self.by(DEPLOYER, None, artifact.creation_code(*arguments))["contractAddress"])

    def ask(self, abi: Contract, to: str, function: str, *arguments: Any) -> Any:
        call = {"to": to, "data": f"0x{abi.encode(function, *arguments).hex()}"}
        return abi.decode(function, bytes.fromhex(rpc(self.url, "eth_call", call, "latest")[2:]))

    def decide(self, function: str, *arguments: Any) -> None:
        """What the router's owner decides, once the timelock's delay is over."""
        self.by(self.timelock, self.here.router, ROUTER.encode(function, *arguments))

    def gmp(self, name: str, field: str) -> str:
        return str(self.here.gmps[name][field])

    def hand_over(self, address: str, owner: str, *, from_owner: str, accepts: bool) -> None:
        self.by(from_owner, address, OWNABLE.encode("transferOwnership", owner))
        if accepts:
            self.by(owner, address, OWNABLE.encode("acceptOwnership"))

    def verify_by(self, dvns: tuple[str, ...], confirmations: int = 1) -> None:
        """Has LayerZero require those DVNs, whatever its defaults are."""
        ordered = sorted(dvns, key=lambda one: int(one, 16))
        uln = encode([ULN], [(confirmations, len(dvns), NONE, 0, ordered, [])])
        call = ENDPOINT.encode("setConfig", self.layerzero_app, self.library, [(self.remote_eid, 2, uln)])
        self.by(self.timelock, self.gmp("layerzero", "endpoint"), call)

    @property
    def layerzero_app(self) -> str:
        return self.here.adapter(Gmp.LAYERZERO)

    @property
    def remote_eid(self) -> int:
        return int(self.there.gmps["layerzero"]["eid"])

    def receive_by(self, library: str) -> None:
        arguments = (self.layerzero_app, self.remote_eid, library, 0)
        self.by(self.timelock, self.gmp("layerzero", "endpoint"), ENDPOINT.encode("setReceiveLibrary", *arguments))

    def static(self, factory: str, members: list[str], threshold: int) -> str:
        """The address of a static ISM with those members."""
        made = self.create(Artifact.load("hyperlane", factory))
        address = self.ask(FACTORY, made, "deploy", members, threshold)
        self.by(DEPLOYER, made, FACTORY.encode("deploy", members, threshold))
        return str(address)

    def multisig(self, validators: list[str], threshold: int) -> str:
        return self.static("StaticMessageIdMultisigIsmFactory", validators, threshold)

    def plant(self, ism: str) -> None:
        """Has Hyperlane's Mailbox verify by that ISM what comes to the adapter."""
        self.by(self.timelock, self.here.adapter(Gmp.HYPERLANE), ADAPTER.encode("setInterchainSecurityModule", ism))


@dataclass(frozen=True)
class Network:
    """A network nobody could find anything wrong with."""

    deployment: Deployment
    alpha: End
    beta: End

    @classmethod
    def hardened(cls, deployment: Deployment) -> Network:
        """The first two chains of a devnet, as a careful operator would have them."""
        here, there = deployment.chains[:2]
        alpha, beta = End(here, there, here.rpc_urls[0]), End(there, here, there.rpc_urls[0])
        harden(alpha)
        harden(beta)
        return cls(deployment, alpha, beta)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """What is changed inside is as before afterwards."""
        snapshots = {end.url: rpc(end.url, "evm_snapshot") for end in (self.alpha, self.beta)}
        yield
        for url, snapshot in snapshots.items():
            assert rpc(url, "evm_revert", snapshot)

    def read(self, recipient: str | None = None) -> tuple[DirectionTrust, DirectionTrust]:
        async def reading() -> tuple[DirectionTrust, DirectionTrust]:
            async with open_chains(self.deployment) as chains:
                return await read_lane(chains, (self.alpha.here, self.beta.here), recipient)

        return asyncio.run(reading())

    def judged(self, recipient: str | None = None, **operators: str) -> tuple[Assessment, Assessment]:
        there, back = (assess(one, Operators(operators)) for one in self.read(recipient))
        return there, back


def ccip_verification(end: End) -> list[str]:
    """Off-ramp, resolver and verifier of the lane of CCIP 2.0 that ends here; nothing where 1.6 does."""
    selector = int(end.there.gmps["ccip"]["selector"])
    ramps = [ramp for source, ramp in end.ask(CCIP, end.gmp("ccip", "router"), "getOffRamps") if source == selector]
    if ramps == [end.gmp("ccip", "offRamp").lower()]:
        return []
    (ramp,) = ramps
    (resolver,) = end.ask(CCIP, ramp, "getSourceChainConfig", selector)[3]
    ((_, verifier),) = end.ask(CCIP, resolver, "getAllInboundImplementations")
    return [to_checksum_address(one) for one in (ramp, resolver, verifier)]


def name_verifiers(end: End, owner: str, *resolvers: str) -> None:
    """Has the adapter require those resolvers of CCIP 2.0; none: the lane's default ones."""
    selector = int(end.there.gmps["ccip"]["selector"])
    end.by(owner, end.here.adapter(Gmp.CCIP), ADAPTER.encode("setVerifiers", selector, list(resolvers), [], 0))


def harden(end: End) -> None:
    """Has a devnet's chain as a careful operator would: a timelock owns, two DVNs, a floor of 2, guardian and revoker."""
    document = json.loads(TIMELOCK.read_text())
    code, abi = bytes.fromhex(document["bytecode"][2:]), document["abi"]
    timelock = Artifact("TimelockController", abi, code, Contract(abi))
    end.timelock = end.create(timelock, TWO_DAYS, [KEY], [KEY], NOBODY)
    other = end.there.chain_id
    for function, *arguments in (("setGuardian", GUARDIAN), ("setRevoker", REVOKER), ("setFloor", other, 2)):
        end.by(DEPLOYER, end.here.router, ROUTER.encode(function, *arguments))
    end.by(DEPLOYER, end.layerzero_app, ADAPTER.encode("setDelegate", end.timelock))
    ism = end.ask(MAILBOX, end.gmp("hyperlane", "mailbox"), "defaultIsm")
    end.by(DEPLOYER, end.here.adapter(Gmp.HYPERLANE), ADAPTER.encode("setInterchainSecurityModule", ism))
    if verification := ccip_verification(end):
        name_verifiers(end, DEPLOYER, verification[1])
    endpoint = end.gmp("layerzero", "endpoint")
    library, _ = end.ask(ENDPOINT, endpoint, "getReceiveLibrary", end.layerzero_app, end.remote_eid)
    end.library = to_checksum_address(library)
    dvn, keys = Artifact.load("layerzero", "DVN"), [signer("another dvn", index).address for index in range(3)]
    end.dvns = tuple(end.create(dvn, 1, vid, [library], DEPLOYER, keys, 2, [DEPLOYER]) for vid in (1, 2))
    end.receive_by(library)
    end.verify_by(end.dvns)
    for address, accepts in (
        (end.here.router, True),
        (end.gmp("hyperlane", "mailbox"), False),
        (end.gmp("axelar", "gateway"), False),
        (end.gmp("ccip", "router"), True),
        (end.gmp("ccip", "offRamp"), True),
        *((address, True) for address in ccip_verification(end)),
    ):
        end.hand_over(address, end.timelock, from_owner=DEPLOYER, accepts=accepts)


def one_dvn(end: End) -> None:
    end.verify_by(end.dvns[:1])


def finality_shortened(end: End) -> None:
    end.verify_by(end.dvns, NO_CONFIRMATIONS)


def default_library(end: End) -> None:
    end.receive_by(NOBODY)


def default_dvns(end: End) -> None:
    call = (end.layerzero_app, end.library, [(end.remote_eid, 2, encode([ULN], [(0, 0, 0, 0, [], [])]))])
    end.by(end.timelock, end.gmp("layerzero", "endpoint"), ENDPOINT.encode("setConfig", *call))
    end.by(
        DEPLOYER,
        end.library,
        DEFAULTS.encode(
            "setDefaultUlnConfigs", [(end.remote_eid, (1, 2, 0, 0, sorted(end.dvns, key=lambda one: int(one, 16)), []))]
        ),
    )


def ism_of_one(end: End) -> None:
    end.plant(end.multisig([one.address for one in VALIDATORS], 1))


def ism_of_a_third(end: End) -> None:
    end.plant(end.multisig([signer("many", index).address for index in range(6)], 2))


def default_ism(end: End) -> None:
    mailbox, ism = end.gmp("hyperlane", "mailbox"), end.multisig([KEY], 1)
    end.by(end.timelock, mailbox, MAILBOX.encode("setDefaultIsm", ism))  # changes nothing until the adapter follows it
    end.hand_over(mailbox, KEY, from_owner=end.timelock, accepts=False)
    end.plant(NOBODY)


def aggregation_of_one(end: End) -> None:
    keys = [end.multisig([signer(name, index).address for index in range(2)], 2) for name in "ab"]
    open_to_all = end.multisig([KEY], 1)
    end.plant(end.static("StaticAggregationIsmFactory", [*keys, open_to_all], 1))


def routing_by_a_key(end: End) -> None:
    routing = end.create(Artifact.load("hyperlane", "DomainRoutingIsm"))
    ism = end.ask(MAILBOX, end.gmp("hyperlane", "mailbox"), "defaultIsm")
    domain = end.there.gmps["hyperlane"]["domain"]
    end.by(DEPLOYER, routing, ROUTING.encode("initialize", KEY, [domain], [ism]))
    end.plant(routing)


def shared_operator(end: End) -> None:
    end.plant(end.multisig([one.address for one in SIGNERS], 2))


def no_guardian(end: End) -> None:
    end.decide("setGuardian", NOBODY)


def no_revoker(end: End) -> None:
    end.decide("setRevoker", NOBODY)


def guardian_is_owner(end: End) -> None:
    end.decide("setGuardian", end.timelock)


def no_tripwire(end: End) -> None:
    end.decide("setTripwire", NOBODY)


def tripwire_is_revoker(end: End) -> None:
    end.decide("setTripwire", REVOKER)


def floor_lowered(end: End) -> None:
    end.decide("setFloor", end.there.chain_id, 1)


def no_timelock(end: End) -> None:
    end.hand_over(end.here.router, KEY, from_owner=end.timelock, accepts=True)


def off_ramps_by_a_key(end: End) -> None:
    end.hand_over(end.gmp("ccip", "router"), KEY, from_owner=end.timelock, accepts=True)


def gateway_by_a_key(end: End) -> None:
    end.hand_over(end.gmp("axelar", "gateway"), KEY, from_owner=end.timelock, accepts=False)


def proxied_router(end: End) -> None:
    rpc(end.url, "anvil_setStorageAt", end.here.router, ADMIN_SLOT, f"0x{KEY[2:].lower():0>64}")


def foreign_adapter(end: End) -> None:
    address = signer("foreign adapter", 0).address
    rpc(end.url, "anvil_setCode", address, rpc(end.url, "eth_getCode", end.here.adapter(Gmp.HYPERLANE), "latest"))
    end.decide("replaceAdapter", int(Gmp.HYPERLANE), address)


def optional_dvns(end: End) -> None:
    ordered = sorted(end.dvns, key=lambda one: int(one, 16))
    uln = encode([ULN], [(1, NONE, len(ordered), 1, [], ordered)])
    call = ENDPOINT.encode("setConfig", end.layerzero_app, end.library, [(end.remote_eid, 2, uln)])
    end.by(end.timelock, end.gmp("layerzero", "endpoint"), call)


def delegate_is_a_key(end: End) -> None:
    end.by(end.timelock, end.layerzero_app, ADAPTER.encode("setDelegate", KEY))


def validator_twice(end: End) -> None:
    one, other = VALIDATORS[0].address, VALIDATORS[1].address
    end.plant(end.multisig([one, one, other], 2))


def ism_of_another_kind(end: End) -> None:
    end.plant(end.gmp("axelar", "gateway"))


def tripwire_is_guardian(end: End) -> None:
    end.decide("setTripwire", GUARDIAN)


def short_timelock(end: End) -> None:
    document = json.loads(TIMELOCK.read_text())
    artifact = Artifact(
        "TimelockController", document["abi"], bytes.fromhex(document["bytecode"][2:]), Contract(document["abi"])
    )
    hour = end.create(artifact, 3600, [KEY], [KEY], NOBODY)
    end.hand_over(end.here.router, hour, from_owner=end.timelock, accepts=True)


def safe_with_a_module(end: End) -> None:
    """Two of three sign, and a module acts without them."""
    singleton, factory = (
        end.create(Artifact.load("safe", "Safe")),
        end.create(Artifact.load("safe", "SafeProxyFactory")),
    )
    owners = [signer("safe", index).address for index in range(3)]
    setup = SAFE.encode("setup", owners, 2, NOBODY, b"", NOBODY, NOBODY, 0, NOBODY)
    made = end.by(DEPLOYER, factory, SAFE.encode("createProxyWithNonce", singleton, setup, 1))
    safe = to_checksum_address(made["logs"][-1]["topics"][1][-40:])
    end.hand_over(end.gmp("axelar", "gateway"), safe, from_owner=end.timelock, accepts=False)
    end.by(safe, safe, SAFE.encode("enableModule", KEY))


def adapter_with_a_beacon(end: End) -> None:
    beacon = end.create(Artifact.load("hyperlane", "DomainRoutingIsm"))
    end.by(DEPLOYER, beacon, ROUTING.encode("initialize", KEY, [], []))  # any contract that KEY owns
    adapter = end.here.adapter(Gmp.HYPERLANE)
    rpc(end.url, "anvil_setStorageAt", adapter, BEACON_SLOT, f"0x{beacon[2:].lower():0>64}")


class Weakened(NamedTuple):
    """A configuration with one weakness.

    Attributes:
        change: does it.
        codes: of all findings, with the GMP of each.
        grade: of the direction afterwards.
        least: operators that suffice to forge a message.
        back: findings of the other direction, whose source is changed too.
    """

    change: Callable[[End], None]
    codes: set[tuple[str, str]]
    grade: str
    least: int
    back: frozenset[tuple[str, str]] = frozenset()


WEAKENED: Final[list[Weakened]] = [
    Weakened(one_dvn, {("SINGLE_VERIFIER", "layerzero")}, "C", 3),
    Weakened(finality_shortened, {("FINALITY_SHALLOW", "layerzero")}, "C", 4),
    Weakened(default_library, {("DEFAULTS", "layerzero"), ("CONTROLLED_BY_ONE", "layerzero")}, "D", 3),
    Weakened(default_dvns, {("DEFAULTS", "layerzero"), ("CONTROLLED_BY_ONE", "layerzero")}, "D", 3),
    Weakened(ism_of_one, {("SINGLE_VERIFIER", "hyperlane")}, "C", 3),
    Weakened(ism_of_a_third, {("LOW_THRESHOLD", "hyperlane")}, "C", 4),
    Weakened(default_ism, {("DEFAULTS", "hyperlane"), ("SINGLE_VERIFIER", "hyperlane")}, "D", 3),
    Weakened(aggregation_of_one, {("SINGLE_VERIFIER", "hyperlane")}, "C", 3),
    Weakened(routing_by_a_key, {("CONTROLLED_BY_ONE", "hyperlane")}, "C", 3),
    Weakened(shared_operator, {("SHARED_OPERATOR", "")}, "D", 2),
    Weakened(no_guardian, {("GUARDIAN_MISSING", "")}, "C", 4),
    Weakened(no_revoker, {("REVOKER_MISSING", "")}, "C", 4),
    Weakened(guardian_is_owner, {("GUARDIAN_IS_OWNER", "")}, "B", 4),
    Weakened(no_tripwire, {("TRIPWIRE_MISSING", "")}, "B", 4),
    Weakened(tripwire_is_revoker, {("TRIPWIRE_SHARED", "")}, "C", 4),
    Weakened(floor_lowered, {("QUORUM_LOW", "")}, "F", 2),
    Weakened(no_timelock, {("OWNER_WITHOUT_TIMELOCK", ""), ("ONE_OPERATOR", "")}, "F", 1),
    Weakened(off_ramps_by_a_key, {("CONTROLLED_BY_ONE", "ccip")}, "C", 3),
    Weakened(gateway_by_a_key, {("CONTROLLED_BY_ONE", "axelar")}, "C", 3),
    Weakened(proxied_router, {("ONE_OPERATOR", "")}, "F", 1, frozenset({("ONE_OPERATOR", "")})),
    Weakened(
        foreign_adapter,
        {("ADAPTER_DIFFERS", "hyperlane"), ("REMOTE_DIFFERS", "hyperlane"), ("DEFAULTS", "hyperlane")},
        "F",
        4,
        frozenset({("REMOTE_DIFFERS", "hyperlane")}),
    ),
    Weakened(optional_dvns, {("SINGLE_VERIFIER", "layerzero")}, "C", 3),
    Weakened(delegate_is_a_key, {("CONTROLLED_BY_ONE", "layerzero")}, "C", 3),
    Weakened(validator_twice, {("SINGLE_VERIFIER", "hyperlane")}, "C", 3),
    Weakened(ism_of_another_kind, {("NOT_READ", "hyperlane")}, "C", 3),
    Weakened(tripwire_is_guardian, {("TRIPWIRE_SHARED", "")}, "C", 4),
    Weakened(short_timelock, {("OWNER_WITHOUT_TIMELOCK", ""), ("ONE_OPERATOR", "")}, "F", 1),
    Weakened(safe_with_a_module, {("CONTROLLED_BY_ONE", "axelar")}, "C", 3),
    Weakened(
        adapter_with_a_beacon,
        {("ONE_OPERATOR", ""), ("UPGRADEABLE", "hyperlane")},
        "F",
        1,
        frozenset({("ONE_OPERATOR", "")}),
    ),
]
