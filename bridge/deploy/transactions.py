"""What one chain of a network lacks, as transactions of the owner.

Every address follows from the plan (CREATE2), the other chains' too, so chains can be deployed in any order or at once. What is
on the chain already is left alone, so what an interrupted run did not do is all that the next one does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from eth_abi.abi import encode
from eth_utils import keccak
from eth_utils.abi import function_signature_to_4byte_selector
from eth_utils.address import to_checksum_address

from bridge.deploy.artifacts import Artifact
from bridge.deploy.plan import ROLES, NetworkPlan, PlannedChain
from bridge.evm.chain import EvmChain
from bridge.gmps.registry import adapter_class
from bridge.gmps.verification import ADAPTER as OUR_ADAPTER
from bridge.gmps.verification import Step
from bridge.protocol.addresses import create2_address, created_adapter, to_bytes32
from bridge.protocol.contracts import ADAPTER, ROUTER, Contract, contract, decode_revert, explain_revert
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, CallRevertedError, read_view

CREATE2_FACTORY: Final = "0x4e59b44847b379578588920cA78FbF26c0B4956C"
"""Creates contracts at addresses that their code determines; it is on nearly every chain, at this address."""

ROUTER_NAME: Final = "router"  # what the router's creation is called among the things done

_SALT: Final = "waybill {}"  # with the router's number; the other contracts' addresses follow from the router's
_GOVERNORS_QUORUM: Final = 2  # how many GMPs must agree on what the governor says
_ALL_GMPS: Final = 0xFFFF
_PARAMETERS: Final = contract("numberOf(bytes32) returns (uint64)", "set(uint64,bytes32[],uint256[])")
_OWNED: Final = contract("owner() returns (address)", "router() returns (address)")
_NOBODY: Final = "0x" + "00" * 20


class DeployError(Exception):
    """The network can't be deployed; the text names the chain and the reason."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One thing that is missing, and the call that does it. No transaction carries money."""

    name: str
    to: str
    data: bytes


@dataclass(frozen=True, slots=True)
class OwnContract:
    """One of Waybill's contracts on one chain, there or not."""

    name: str  # such as "axelar adapter"
    artifact: Artifact
    arguments: bytes  # of the constructor
    salt: bytes = field(default=keccak(text=_SALT.format(1)), kw_only=True)

    @property
    def creation_code(self) -> bytes:
        """What creates it."""
        return self.artifact.bytecode + self.arguments

    @property
    def creation(self) -> Transaction:
        """The call that creates it; anyone may make it."""
        return Transaction(self.name, CREATE2_FACTORY, self.salt + self.creation_code)

    @property
    def address(self) -> str:
        """Where its code and arguments put it, on every chain."""
        return create2_address(CREATE2_FACTORY, self.salt, self.creation_code)


@dataclass(frozen=True, slots=True)
class OwnAdapter(OwnContract):
    """An adapter. Its router creates it, and so knows its address without reading it: sends cost less."""

    router: str
    gmp: Gmp
    number: int

    @property
    def address(self) -> str:
        """Where its router, its GMP and its number put it, whatever its code (CREATE3)."""
        return created_adapter(self.router, int(self.gmp), self.number)

    @property
    def creation(self) -> Transaction:
        """The call that creates it; the router's owner makes it."""
        call = ROUTER.encode("createAdapter", int(self.gmp), self.number, self.creation_code)
        return Transaction(self.name, self.router, call)


@dataclass(frozen=True, slots=True)
class ChainContracts:
    """All of Waybill's contracts on one chain."""

    router: OwnContract
    adapters: dict[Gmp, OwnAdapter]
    parameters: OwnContract
    multicall: OwnContract
    examples: dict[str, OwnContract]

    @classmethod
    def of(cls, plan: NetworkPlan, planned: PlannedChain) -> ChainContracts:
        """The contracts that a plan has on one of its chains.

        Raises:
            ForgeError: they are not compiled.
        """
        # One owner on all chains makes one address on all chains.
        salt = keccak(text=_SALT.format(plan.router_number))
        router = OwnContract(ROUTER_NAME, Artifact.load("Router"), encode(["address"], [plan.owner]), salt=salt)
        adapters = {gmp: _adapter(planned, gmp, router.address) for gmp in Gmp if gmp.label in planned.gmps}
        # The owner is its timelock at first, and its governor from the plan's first chain.
        kinds = ["address", "address", "uint64", "address", "uint8", "uint16"]
        values = [plan.owner, router.address, plan.chains[0].chain_id, plan.owner, _GOVERNORS_QUORUM, _ALL_GMPS]
        return cls(
            router=router,
            adapters=adapters,
            parameters=OwnContract("parameters", Artifact.load("Parameters"), encode(kinds, values)),
            multicall=OwnContract("multicall", Artifact.load("BoundedMulticall"), b""),
            examples=_examples(router.address, plan.owner) if plan.examples else {},
        )

    def __iter__(self) -> Iterator[OwnContract]:
        """In the order in which they are created."""
        yield self.router
        yield from self.adapters.values()
        yield self.parameters
        yield self.multicall
        yield from self.examples.values()


def _examples(router: str, owner: str) -> dict[str, OwnContract]:
    arguments = {
        "Inbox": encode(["address", "address"], [router, owner]),
    }
    return {
        contract.lower(): OwnContract(contract.lower(), Artifact.load(contract), packed)
        for contract, packed in arguments.items()
    }


def _adapter(planned: PlannedChain, gmp: Gmp, router: str) -> OwnAdapter:
    described = adapter_class(gmp).CONTRACTS.read(planned.gmps[gmp.label])
    types, values = zip(*described.arguments, strict=True)
    arguments = encode(["address", *types], [router, *values])
    artifact = Artifact.load(described.ADAPTER)
    return OwnAdapter(f"{gmp.label} adapter", artifact, arguments, router, gmp, described.adapter_number)


Formers = Mapping[int, Mapping[Gmp, str]]
"""By chain id: the adapters that speak for GMPs, and whose place the plan's are to take."""

_NO_FORMERS: Final[Formers] = MappingProxyType({})


async def former_adapters(
    plan: NetworkPlan, planned: PlannedChain, chain: EvmChain, replacing: AbstractSet[Gmp]
) -> dict[Gmp, str]:
    """The adapters that one chain's router has, of those GMPs, where the plan has another.

    Raises:
        UnansweredError: no endpoint answers.
    """
    contracts = ChainContracts.of(plan, planned)
    router = contracts.router.address
    if not replacing or not await chain.code(router):
        return {}
    found = {gmp: str(await read_view(chain, ROUTER, router, "adapterOf", int(gmp))) for gmp in sorted(replacing)}
    return {
        gmp: to_checksum_address(present)
        for gmp, present in found.items()
        if gmp in contracts.adapters and present not in (_NOBODY, contracts.adapters[gmp].address.lower())
    }


@dataclass(frozen=True, slots=True)
class ChainWork:
    """A chain's contracts, and what has to be done until all is as the plan says.

    Attributes:
        planned: the chain.
        contracts: as the plan has them.
        owner: who has to do it: the router's owner, or the plan's while there is no router.
        missing: what can be done now.
        former: the adapters that still speak for GMPs until `switches`.
        switches: what puts the plan's adapters in their place, once every chain's senders address these.
    """

    planned: PlannedChain
    contracts: ChainContracts
    owner: str
    missing: tuple[Transaction, ...]
    former: Mapping[Gmp, str]
    switches: tuple[Transaction, ...]

    @classmethod
    async def find(
        cls, plan: NetworkPlan, planned: PlannedChain, chain: EvmChain, formers: Formers = _NO_FORMERS
    ) -> ChainWork:
        """Compares a chain with the plan; `formers` are those of all chains.

        Raises:
            DeployError: the owner has decided otherwise since, and only the owner can say which is meant.
            UnansweredError: no endpoint answers.
        """
        contracts = ChainContracts.of(plan, planned)
        router, former = contracts.router.address, formers.get(planned.chain_id, {})
        owner = plan.owner
        if await chain.code(router):
            owner = to_checksum_address(await read_view(chain, ROUTER, router, "owner"))
        here = _Here(plan, planned, chain, contracts, owner, formers)
        switches = [
            Transaction(
                f"{gmp.label} adapter replaced",
                router,
                ROUTER.encode("replaceAdapter", int(gmp), contracts.adapters[gmp].address),
            )
            for gmp in former
        ]
        return cls(planned, contracts, owner, tuple([one async for one in here.missing()]), former, tuple(switches))

    def switching(self) -> ChainWork:
        """The same, once nothing else is missing anywhere."""
        return replace(self, missing=self.switches, former={}, switches=())


@dataclass(frozen=True, slots=True)
class _Here:
    plan: NetworkPlan
    planned: PlannedChain
    chain: EvmChain
    contracts: ChainContracts
    owner: str
    formers: Formers
    _are_there: set[str] = field(default_factory=set)

    @property
    def _former(self) -> Mapping[Gmp, str]:
        return self.formers.get(self.planned.chain_id, {})

    async def missing(self) -> AsyncIterator[Transaction]:
        contracts = self.contracts
        creations = {own.name: own.creation for own in contracts}
        self._are_there.update(self._former.values())
        for own in contracts:
            # Anyone may have created a contract before: it has the same code, and what it says counts.
            if await self.chain.code(own.address):
                self._are_there.add(own.address)
                del creations[own.name]
        # The first that a router hears of are its adapters: by that a start block is found again.
        if contracts.router.name in creations:
            yield creations.pop(contracts.router.name)
        for gmp, adapter in contracts.adapters.items():
            if adapter.name in creations:
                yield creations.pop(adapter.name)
            if not await self._is_registered(gmp, adapter):
                call = ROUTER.encode("addAdapter", int(gmp), adapter.address)
                yield Transaction(f"{gmp.label} registered", contracts.router.address, call)
        for creation in creations.values():
            yield creation
        for step in (self._parameters_set, self._connected, self._verified, self._appointed):
            async for transaction in step():
                yield transaction

    async def _is_registered(self, gmp: Gmp, adapter: OwnAdapter) -> bool:
        registered = await self._read(adapter.router, ROUTER, "adapterOf", int(gmp))
        created = await self._read(adapter.router, ROUTER, "creationHashOf", adapter.address)
        if created not in (None, bytes(32), keccak(adapter.creation_code)):
            raise DeployError(
                f"chain {self.planned.name!r}: the router created another adapter for {gmp.label} under number"
                f" {adapter.number}, of other code or for other contracts of the GMP; name a number that is not used yet as"
                f" `adapterNumber` in the network file, and deploy with --replace-adapter {gmp.label}"
            )
        if gmp in self._former:
            return True  # another one is, until the switch
        if registered in (None, _NOBODY, adapter.address.lower()):
            return bool(registered == adapter.address.lower())
        # Replacing keeps receipts and revoking voids them: nobody but the owner can say which is meant.
        raise DeployError(
            f"chain {self.planned.name!r}: the router has another adapter for {gmp.label},"
            f" {to_checksum_address(registered)}, and the plan makes {adapter.address}; deploy with --replace-adapter"
            f" {gmp.label} to replace it, which keeps its receipts, or revoke it, which voids them, and deploy again"
        )

    async def _parameters_set(self) -> AsyncIterator[Transaction]:
        """What `bridge/dead_letters/parameters.py` reads: alarms by dead letters per hour, and the owner as an operator."""
        address = self.contracts.parameters.address
        operator = keccak(encode(["bytes32", "address"], [keccak(text="dlq.operator"), self.plan.owner]))
        values = {keccak(text="dlq.alertThreshold"): 10, keccak(text="dlq.criticalThreshold"): 100, operator: 1}
        # What governance has decided since stays.
        unset = [name for name in values if not await self._read(address, _PARAMETERS, "numberOf", name)]
        if unset:
            call = _PARAMETERS.encode("set", 1, unset, [values[name] for name in unset])
            yield Transaction("parameters set", address, call)

    async def _connected(self) -> AsyncIterator[Transaction]:
        router = self.contracts.router.address
        for there in self.plan.chains:
            if there is self.planned:
                continue
            peer, floor = to_bytes32(router), self.plan.floor
            if await self._read(router, ROUTER, "peerOf", there.chain_id) != peer:
                call = ROUTER.encode("setPeer", there.chain_id, peer, floor)
                yield Transaction(f"peer {there.name}", router, call)
            elif (await self._read(router, ROUTER, "floorOf", there.chain_id) or 0) < floor:
                yield Transaction(f"floor to {there.name}", router, ROUTER.encode("setFloor", there.chain_id, floor))
            async for transaction in self._adapters_connected(there, peer):
                yield transaction

    async def _adapters_connected(self, there: PlannedChain, peer: bytes) -> AsyncIterator[Transaction]:
        remotes, formers = ChainContracts.of(self.plan, there).adapters, self.formers.get(there.chain_id, {})
        for gmp, adapter in self.contracts.adapters.items():
            if gmp not in remotes:
                continue
            # What is connected last is sent to; what was connected before stays trusted, so that what it sent arrives.
            wanted = {remotes[gmp].address: ""}
            if gmp in formers:
                wanted = {formers[gmp]: "former of "} | wanted
            async for transaction in self._connected_with(gmp, adapter.address, there, peer, wanted):
                yield transaction
            if gmp in self._former:
                async for transaction in self._connected_with(gmp, self._former[gmp], there, peer, wanted):
                    yield transaction

    async def _connected_with(
        self, gmp: Gmp, adapter: str, there: PlannedChain, peer: bytes, wanted: Mapping[str, str]
    ) -> AsyncIterator[Transaction]:
        """Makes one adapter know those on another chain, in that order; `wanted` is what names have before the chain's."""
        is_former = adapter == self._former.get(gmp)
        described = adapter_class(gmp).CONTRACTS.read(there.gmps[gmp.label])
        getter, kind = described.NUMBER_OF
        known = await self._read(adapter, ADAPTER, "remoteAdapterOf", there.chain_id, peer)
        number = await self._read(adapter, contract(f"{getter}(uint64) returns ({kind})"), getter, there.chain_id)
        numbered = number if is_former and number else described.number  # an adapter's number for a chain never changes
        addresses = list(wanted)
        place = next((place for place, one in enumerate(addresses) if known == to_bytes32(one)), -1)
        if place == len(addresses) - 1 and number == numbered:
            return
        types = ["uint64", "bytes32", "bytes32", kind]
        selector = function_signature_to_4byte_selector(f"connect({','.join(types)})")
        for remote in addresses[place + 1 :] or addresses[-1:]:
            call = selector + encode(types, [there.chain_id, peer, to_bytes32(remote), numbered])
            name = f"{'former ' if is_former else ''}{gmp.label} to {wanted[remote]}{there.name}"
            yield Transaction(name, adapter, call)

    async def _verified(self) -> AsyncIterator[Transaction]:
        for gmp, adapter in self.contracts.adapters.items():
            chosen = self.planned.chosen(gmp)
            connections = self.plan.connections(self.planned, gmp, self.owner)
            steps = [step for _, connection in connections if chosen for step in chosen.steps(connection)]
            calls: set[tuple[str, bytes]] = set()
            for step in dict.fromkeys(steps):  # what it takes for two chains alike stands there once
                asked, question = _addressed(adapter.address, step.asked, step.question)
                to_call = _addressed(adapter.address, step.called, step.call)
                # Two steps may ask different questions about what one call sets; LayerZero refuses to set the same again.
                if to_call not in calls and not await self._is_set(step, asked, question):
                    calls.add(to_call)
                    yield Transaction(step.name, *to_call)

    async def _is_set(self, step: Step, asked: str, question: bytes) -> bool:
        try:
            return await self.chain.call(Call(to=asked, data=question)) == step.answer
        except CallRevertedError as error:
            raise DeployError(
                f"chain {self.planned.name!r}: {step.name}: {asked} refuses to say what is set: {explain_revert(error.data)}"
            ) from error

    async def _appointed(self) -> AsyncIterator[Transaction]:
        """Names guardian, revoker and tripwire. What the owner has decided since stays."""
        router = self.contracts.router.address
        for role in ROLES:
            account = self.plan.appointed(role, self.planned)
            if account is not None and await self._read(router, ROUTER, role) in (None, _NOBODY):
                yield Transaction(role, router, ROUTER.encode(f"set{role.capitalize()}", account))

    async def _read(self, address: str, of: Contract, function: str, *arguments: Any) -> Any:
        """What a view function of one of our contracts returns; None if the contract is not there yet."""
        if address not in self._are_there:
            return None
        call = Call(to=address, data=of.encode(function, *arguments), returns=of.outputs(function))
        return of.decode(function, await self.chain.call(call))


def _addressed(adapter: str, to: str, data: bytes) -> tuple[str, bytes]:
    """Whom a step calls, and with what: a contract other than the adapter takes the adapter as its first argument."""
    if to == OUR_ADAPTER:
        return adapter, data
    return to, data[:4] + to_bytes32(adapter) + data[36:]


async def why_refused(chain: EvmChain, transaction: Transaction, account: str, data: bytes) -> str:
    """Why a contract refused an account's transaction, by the revert data; if it is for the owner, who that is.

    Raises:
        UnansweredError: no endpoint answers.
    """
    revert = decode_revert(data)
    if revert is None:
        return explain_revert(data)
    if revert.name not in ("OwnableUnauthorizedAccount", "OnlyOwner"):
        hint = revert.advice or revert.meaning
        return explain_revert(data) + (f"; {hint}" if hint else "")
    owned = transaction.to
    if revert.name == "OnlyOwner":  # the adapters follow the router's owner
        owned = await read_view(chain, _OWNED, owned, "router")
    owner = to_checksum_address(await read_view(chain, _OWNED, owned, "owner"))
    return (
        f"{account} signed, and only the owner may do that: {owner}. Sign as that account (--signer NAME,"
        " --key or --safe); `waybill role transfer` hands ownership over"
    )


def refuse_another_network(planned_router: str, deployed: Sequence[str]) -> None:
    """Other code, another owner or another number makes another router: beside one that is deployed it would be a second network.

    Raises:
        DeployError: that would happen.
    """
    for router in deployed:
        if router.lower() != planned_router.lower():
            raise DeployError(
                f"the deployments file names the router {router}, which is deployed, and this version and plan would make"
                f" {planned_router} beside it; deploy with the version, the owner and the `routerNumber` that made it, or give"
                " the new network a name of its own"
            )
