"""Looks into the contracts and accounts of one chain: what they answer, who owns them, and whether they can be upgraded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from eth_utils.address import to_checksum_address

from bridge.domain.ports import Call, CallRevertedError
from bridge.domain.trust import NOBODY, Account, AccountKind, ChainState, Control, NotReadableError
from bridge.protocol.contracts import Contract, contract, topic
from bridge.protocol.events import UNDECODABLE

# EIP-1967: where a proxy keeps the code that it runs, or the beacon that names it, and who may replace it.
_IMPLEMENTATION_SLOT: Final = 0x360894A13BA1A3210667C828492DB98DCA3E2076CC3735A920A3CA505D382BBC
_BEACON_SLOT: Final = 0xA3F0AD74E5423AEBFD80D3EF4346578335A9A72AEAEE59FF6CB3582B35133D50
_ADMIN_SLOT: Final = 0xB53127684A568B3173AE13B9F8A6016E243E63B6E8EE1178D6A717850B5D6103

_ACCOUNT: Final = contract(
    "owner() returns (address)",
    "pendingOwner() returns (address)",
    "getMinDelay() returns (uint256)",
    "getThreshold() returns (uint256)",
    "getOwners() returns (address[])",
    "getModulesPaginated(address,uint256) returns (address[],address)",
)
_DELEGATION: Final = bytes.fromhex("ef0100")  # EIP-7702: a key's account that runs a contract's code is a key's still
_DEEPEST: Final = 4  # owners of owners
_CODE: Final = "may replace the code"
_FIRST_MODULE, _MODULES = "0x" + "0" * 39 + "1", 32  # of a Safe: where its list begins, and how many are read

CHANGES: Final = tuple(
    map(topic, ("OwnershipTransferred(address,address)", "AdminChanged(address,address)", "Upgraded(address)"))
)
"""Events of contracts that get another owner, proxy admin or code."""


class Inspector:
    """Reads one chain at its newest block. Wrong contracts are told from a chain that gives no answer."""

    def __init__(self, chain: ChainState, name: str) -> None:
        """Asks nothing yet; `name` is the chain's, for people."""
        self.chain = chain
        self.name = name
        self._accounts: dict[str, Account] = {}

    async def read(self, abi: Contract, address: str, function: str, *arguments: Any) -> Any:
        """What a view function returns.

        Raises:
            NotReadableError: the contract is not there, or has no such function.
            UnansweredError: the chain gives no answer.
        """
        try:
            # Without types: a contract of another kind answers something else, and no endpoint is to blame for that.
            answer = await self.chain.call(Call(to=address, data=abi.encode(function, *arguments)))
            return abi.decode(function, answer)
        except (CallRevertedError, *UNDECODABLE) as error:
            raise NotReadableError(f"{address} on {self.name} does not answer {function}: {error}") from error

    async def maybe(self, abi: Contract, address: str, function: str, *arguments: Any) -> Any:
        """The same, or None if the contract has no such function."""
        try:
            return await self.read(abi, address, function, *arguments)
        except NotReadableError:
            return None

    async def account(self, address: str) -> Account:
        """Who stands at an address, by what its contract answers."""
        address = to_checksum_address(address)
        if address not in self._accounts:
            self._accounts[address] = await self._account(address, 0)
        return self._accounts[address]

    async def _account(self, address: str, depth: int) -> Account:
        if address == NOBODY:
            return Account(address=address, kind=AccountKind.NOBODY)
        code = await self.chain.code(address)
        if not code or code.startswith(_DELEGATION):
            return Account(address=address, kind=AccountKind.KEY)
        delay = await self.maybe(_ACCOUNT, address, "getMinDelay")
        if delay is not None:
            return Account(address=address, kind=AccountKind.TIMELOCK, delay=delay)
        threshold = await self.maybe(_ACCOUNT, address, "getThreshold")
        signers = await self.maybe(_ACCOUNT, address, "getOwners")
        if threshold and signers:
            found = await self.maybe(_ACCOUNT, address, "getModulesPaginated", _FIRST_MODULE, _MODULES)
            return Account(
                address=address,
                kind=AccountKind.SAFE,
                threshold=threshold,
                signers=_ordered(signers),
                modules=_ordered(found[0]) if found else (),
            )
        owner = await self.maybe(_ACCOUNT, address, "owner") if depth < _DEEPEST else None
        behind = await self._account(to_checksum_address(owner), depth + 1) if owner else None
        return Account(address=address, kind=AccountKind.CONTRACT, owner=behind)

    async def implementation(self, address: str) -> str | None:
        """The code that a proxy runs, or the beacon that names it; None: it is no proxy by EIP-1967."""
        slots = await asyncio.gather(
            *(self.chain.storage(address, slot) for slot in (_IMPLEMENTATION_SLOT, _BEACON_SLOT))
        )
        return next((found for word in slots if (found := _address_in(word)) is not None), None)

    async def control(
        self, contract_name: str, address: str, role: str, holder: str, power: str, *, forges: bool
    ) -> Control:
        """What an account may do with a contract."""
        return Control(
            chain=self.name,
            contract=contract_name,
            address=address,
            role=role,
            account=await self.account(holder),
            power=power,
            forges=forges,
        )

    async def owner_of(self, contract_name: str, address: str, power: str, *, forges: bool) -> list[Control]:
        """The contract's owner, if it has one."""
        owner = await self.maybe(_ACCOUNT, address, "owner")
        if owner is None:
            return []
        return [await self.control(contract_name, address, "owner", owner, power, forges=forges)]

    async def proxy_admin_of(self, contract_name: str, address: str) -> list[Control]:
        """Who may replace the code of a contract that is a proxy with an admin."""
        beacon = _address_in(await self.chain.storage(address, _BEACON_SLOT))
        owners = (
            [] if beacon is None else await self.owner_of(f"beacon of the {contract_name}", beacon, _CODE, forges=True)
        )
        admin = _address_in(await self.chain.storage(address, _ADMIN_SLOT))
        if admin is None:
            return owners
        return [*owners, await self.control(contract_name, address, "proxy admin", admin, _CODE, forges=True)]


def _ordered(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(map(to_checksum_address, addresses)))


def _address_in(word: bytes) -> str | None:
    return to_checksum_address(word[-20:]) if any(word) else None
