"""Compares one chain with the plan and derives the missing transactions.

CREATE2 derives every address from the plan, identically on all chains, so chains can be deployed in any order
or in parallel. Existing state is kept, so a run after an interruption sends only the remaining transactions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from eth_abi.abi import encode
from eth_utils import keccak
from eth_utils.address import to_checksum_address

from bridge.deploy.artifacts import creation_code
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
"""Creates contracts at addresses that their code determines. Nearly every chain has it at this address."""

ROUTER_NAME: Final = "router"  # name of the router's creation among the transactions

_SALT: Final = (
    "waybill {}"  # formatted with the router's number; the other contracts' addresses follow from the router's
)
_GOVERNORS_QUORUM: Final = 2  # GMPs that must agree on a governance message
_ALL_GMPS: Final = 0xFFFF
_PARAMETERS: Final = contract("numberOf(bytes32) returns (uint64)", "set(uint64,bytes32[],uint256[])")
_OWNED: Final = contract("owner() returns (address)", "router() returns (address)")
_NOBODY: Final = "0x" + "00" * 20


class DeployError(Exception):
    """The network can't be deployed. The message states the chain and the reason."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A missing transaction. No transaction transfers value."""

    name: str
    to: str
    data: bytes


@dataclass(frozen=True, slots=True)
class OwnContract:
    """One of Waybill's contracts on one chain, which may not exist yet."""

    name: str  # such as "axelar adapter"
    bytecode: bytes
    arguments: bytes  # of the constructor
    salt: bytes = field(default=keccak(text=_SALT.format(1)), kw_only=True)

    @property
    def creation_code(self) -> bytes:
        """Returns the bytecode with constructor arguments."""
        return self.bytecode + self.arguments

    @property
    def creation(self) -> Transaction:
        """Returns the transaction that creates the contract. Anyone may send it."""
        return Transaction(self.name, CREATE2_FACTORY, self.salt + self.creation_code)

    @property
    def address(self) -> str:
        """Returns the contract's address, which is the same on every chain."""
        return create2_address(CREATE2_FACTORY, self.salt, self.creation_code)


@dataclass(frozen=True, slots=True)
class OwnAdapter(OwnContract):
    """An adapter that is created by its router.

    The router can compute the adapter's address, which saves a storage read per send.
    """

    router: str
    gmp: Gmp
    number: int

    @property
    def address(self) -> str:
        """Returns the adapter's address, which depends on router, GMP and number, but not on the code (CREATE3)."""
        return created_adapter(self.router, int(self.gmp), self.number)

    @property
    def creation(self) -> Transaction:
        """Returns the transaction that creates the adapter. The router's owner must send it."""
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
        """Returns the planned contracts of one chain.

        Raises:
            ForgeError: the contracts are not compiled.
        """
        # The same owner on all chains gives the same address on all chains.
        salt = keccak(text=_SALT.format(plan.router_number))
        router = OwnContract(ROUTER_NAME, creation_code("Router"), encode(["address"], [plan.owner]), salt=salt)
        adapters = {gmp: _adapter(planned, gmp, router.address) for gmp in Gmp if gmp.label in planned.gmps}
        # At first the owner is both the timelock and the governor, on the plan's first chain.
        kinds = ["address", "address", "uint64", "address", "uint8", "uint16"]
        values = [plan.owner, router.address, plan.chains[0].chain_id, plan.owner, _GOVERNORS_QUORUM, _ALL_GMPS]
        return cls(
            router=router,
            adapters=adapters,
            parameters=OwnContract("parameters", creation_code("Parameters"), encode(kinds, values)),
            multicall=OwnContract("multicall", creation_code("BoundedMulticall"), b""),
            examples=_examples(router.address, plan.owner) if plan.examples else {},
        )

    def __iter__(self) -> Iterator[OwnContract]:
        """Iterates in the order of creation."""
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
        contract.lower(): OwnContract(contract.lower(), creation_code(contract), packed)
        for contract, packed in arguments.items()
    }


def _adapter(planned: PlannedChain, gmp: Gmp, router: str) -> OwnAdapter:
    described = adapter_class(gmp).CONTRACTS.read(planned.gmps[gmp.label])
    types = ["address", *(kind for kind, _ in described.ARGUMENTS)]
    arguments = encode(types, [router, *(getattr(described, key) for _, key in described.ARGUMENTS)])
    return OwnAdapter(
        f"{gmp.label} adapter", creation_code(described.ADAPTER), arguments, router, gmp, described.adapter_number
    )


@dataclass(slots=True)
class ChainWork:
    """A chain's contracts, and the transactions that bring it to the planned state.

    Attributes:
        plan: The network's plan.
        planned: The chain in the plan.
        chain: Connection to the chain.
        contracts: The planned contracts.
        owner: Account that must send the transactions: the router's owner, or the plan's owner if there is no
            router yet.
        missing: The transactions to send.
    """

    plan: NetworkPlan
    planned: PlannedChain
    chain: EvmChain
    contracts: ChainContracts
    owner: str
    missing: tuple[Transaction, ...] = ()
    _existing: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """Returns the chain's name."""
        return self.planned.name

    @classmethod
    async def find(cls, plan: NetworkPlan, planned: PlannedChain, chain: EvmChain) -> ChainWork:
        """Compares a chain with the plan.

        Raises:
            DeployError: a change by the owner contradicts the plan, so the owner must decide which of the two applies.
            UnansweredError: no endpoint responded.
        """
        contracts = ChainContracts.of(plan, planned)
        router, owner = contracts.router.address, plan.owner
        if await chain.code(router):
            owner = to_checksum_address(await read_view(chain, ROUTER, router, "owner"))
        work = cls(plan, planned, chain, contracts, owner)
        work.missing = tuple([transaction async for transaction in work._compare()])
        return work

    async def _compare(self) -> AsyncIterator[Transaction]:
        """Yields the missing transactions, in order."""
        contracts = self.contracts
        creations = {own.name: own.creation for own in contracts}
        for own in contracts:
            # Anyone may have created the contract already. It has the same code, so its state counts.
            if await self.chain.code(own.address):
                self._existing.add(own.address)
                del creations[own.name]
        # Adapters come first, because their events locate the start block when the file is lost.
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
                f"chain {self.name!r}: the router created a different adapter for {gmp.label} under "
                f"number {adapter.number}, with other code or for other contracts of the GMP; replace it with "
                "an adapter that has an unused number, and write that number as `adapterNumber` in the "
                "network file"
            )
        if registered in (None, _NOBODY, adapter.address.lower()):
            return bool(registered == adapter.address.lower())
        # Replacing keeps receipts and revoking voids them, so the owner must choose.
        raise DeployError(
            f"chain {self.name!r}: the router has a different adapter for {gmp.label},"
            f" {to_checksum_address(registered)}, instead of {adapter.address}; write the number of that adapter as"
            " `adapterNumber` in the network file, replace it by the router's `replaceAdapter`, which keeps its receipts,"
            " or revoke it, which voids them, and deploy again"
        )

    async def _parameters_set(self) -> AsyncIterator[Transaction]:
        """Sets the parameters that `bridge/dead_letters/parameters.py` reads: alert thresholds in dead letters per hour, and operators."""
        address = self.contracts.parameters.address
        operator = keccak(encode(["bytes32", "address"], [keccak(text="dlq.operator"), self.plan.owner]))
        values = {keccak(text="dlq.alertThreshold"): 10, keccak(text="dlq.criticalThreshold"): 100, operator: 1}
        # Values that governance has changed since are kept.
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
        for gmp, adapter in self.contracts.adapters.items():
            if gmp.label not in there.gmps:
                continue
            section = adapter_class(gmp).CONTRACTS.read(there.gmps[gmp.label])
            getter, kind = section.NUMBER_OF
            number_view = contract(f"{getter}(uint64) returns ({kind})")
            wanted = to_bytes32(created_adapter(adapter.router, int(gmp), section.adapter_number))
            known = await self._read(adapter.address, ADAPTER, "remoteAdapterOf", there.chain_id, peer)
            number = await self._read(adapter.address, number_view, getter, there.chain_id)
            # An adapter sends to the one connected last. Adapters connected before stay trusted, so that their
            # messages arrive.
            if known != wanted or number != section.number:
                connecting = contract(f"connect(uint64,bytes32,bytes32,{kind})")
                call = connecting.encode("connect", there.chain_id, peer, wanted, section.number)
                yield Transaction(f"{gmp.label} to {there.name}", adapter.address, call)

    async def _verified(self) -> AsyncIterator[Transaction]:
        for gmp, adapter in self.contracts.adapters.items():
            chosen = self.planned.chosen(gmp)
            connections = self.plan.connections(self.planned, gmp, self.owner)
            steps = [step for _, connection in connections if chosen for step in chosen.steps(connection)]
            calls: set[tuple[str, bytes]] = set()
            for step in dict.fromkeys(steps):  # steps that two remote chains share occur once
                asked, question = _addressed(adapter.address, step.asked, step.question)
                to_call = _addressed(adapter.address, step.called, step.call)
                # Two steps may check different effects of one call, and LayerZero rejects setting the same value again.
                if to_call not in calls and not await self._is_set(step, asked, question):
                    calls.add(to_call)
                    yield Transaction(step.name, *to_call)

    async def _is_set(self, step: Step, asked: str, question: bytes) -> bool:
        try:
            return await self.chain.call(Call(to=asked, data=question)) == step.answer
        except CallRevertedError as error:
            raise DeployError(
                f"chain {self.name!r}: {step.name}: reading the setting from {asked} reverted: "
                f"{explain_revert(error.data)}"
            ) from error

    async def _appointed(self) -> AsyncIterator[Transaction]:
        """Assigns guardian, revoker and tripwire, unless the owner has assigned them since."""
        router = self.contracts.router.address
        for role in ROLES:
            account = self.plan.appointed(role, self.planned)
            if account is not None and await self._read(router, ROUTER, role) in (None, _NOBODY):
                yield Transaction(role, router, ROUTER.encode(f"set{role.capitalize()}", account))

    async def _read(self, address: str, of: Contract, function: str, *arguments: Any) -> Any:
        """Returns the result of a view function of Waybill's contracts, or None if the contract does not exist yet."""
        if address not in self._existing:
            return None
        call = Call(to=address, data=of.encode(function, *arguments), returns=of.outputs(function))
        return of.decode(function, await self.chain.call(call))


def _addressed(adapter: str, to: str, data: bytes) -> tuple[str, bytes]:
    """Returns the target and calldata of a step.

    Functions of other contracts take the adapter's address as their first argument.
    """
    if to == OUR_ADAPTER:
        return adapter, data
    return to, data[:4] + to_bytes32(adapter) + data[36:]


async def why_refused(chain: EvmChain, transaction: Transaction, account: str, data: bytes) -> str:
    """Explains a revert from its data. If only the owner may send the transaction, also states the owner.

    Raises:
        UnansweredError: no endpoint responded.
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
        f"only the owner {owner} may do that, but {account} signed. Sign as the owner (--signer NAME,"
        " --key or --safe); `waybill role transfer` transfers ownership"
    )


def refuse_another_network(planned_router: str, deployed: Sequence[str]) -> None:
    """Checks that the plan's router is the deployed one.

    Different code, or a different owner or number, would create a second network.

    Raises:
        DeployError: the plan would create a second router.
    """
    for router in deployed:
        if router.lower() != planned_router.lower():
            raise DeployError(
                f"the deployments file has the deployed router {router}, but this version and plan would "
                f"create {planned_router} as a second router; deploy with the version, owner and "
                "`routerNumber` of the existing router, or give the new network a different name"
            )
