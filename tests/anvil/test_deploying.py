"""Waybill's contracts come to the chains of a network once, and a repetition finds them there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from eth_abi.abi import encode
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from eth_utils.address import to_canonical_address, to_checksum_address

from bridge.client import transact as send_once
from bridge.dead_letters.parameters import OnChainParameters, Thresholds
from bridge.deploy.artifacts import CHECKOUT
from bridge.deploy.deploy import Deployed, deploy
from bridge.deploy.plan import NetworkPlan, PlannedChain
from bridge.deploy.transactions import DeployError
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, account, signer
from bridge.evm.chain import EvmChain
from bridge.evm.signing import LocalSigner
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ADAPTER, ROUTER, Contract
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Receipt, UnansweredError
from tests.anvil.rpc import rpc
from tests.anvil.traffic import DAPP, transact

pytestmark = pytest.mark.long

FACTORY = "0x4e59b44847b379578588920cA78FbF26c0B4956C"
SALT = keccak(text="waybill 1")
OWNER_KEY = ANVIL_KEYS[7]  # owns nothing yet: its routers have addresses of their own
OTHER_OWNER_KEY = ANVIL_KEYS[5]


def plan(devnet: Devnet, owner: LocalAccount | None = None) -> NetworkPlan:
    """The devnet's GMPs, with routers of another owner."""
    return NetworkPlan(
        version=1,
        network="second",
        owner=(owner or account(OWNER_KEY)).address,
        chains=tuple(
            PlannedChain(
                chain_id=chain.chain_id,
                name=chain.name,
                rpc_urls=chain.rpc_urls,
                confirmations=2,
                gmps=chain.gmps,
            )
            for chain in devnet.deployment.chains
        ),
    )


def creation_code(contract: str, types: Sequence[str], values: Sequence[object]) -> bytes:
    """The code that the script creates a contract with."""
    artifact = json.loads((CHECKOUT / "build" / "release" / "out" / f"{contract}.sol" / f"{contract}.json").read_text())
    return bytes.fromhex(artifact["bytecode"]["object"][2:]) + encode(types, values)


def create2_address(code: bytes) -> str:
    return to_checksum_address(keccak(b"\xff" + to_canonical_address(FACTORY) + SALT + keccak(code))[12:])


async def created_by_a_stranger(chain: EvmChain, code: bytes) -> None:
    receipt = await transact(chain, DAPP, Call(to=FACTORY, data=SALT + code), gas=12_000_000)
    assert receipt.succeeded
    assert await chain.code(create2_address(code))


def run(planned: NetworkPlan, target: Path, key: str = OWNER_KEY) -> Deployed:
    return asyncio.run(deploy(planned, LocalSigner.from_key(key), target))


def transactions_sent(devnet: Devnet) -> list[str]:
    """The owners' transactions on each chain. Anvil may mine an empty block for one that it receives twice."""
    owners = [account(key).address for key in (OWNER_KEY, OTHER_OWNER_KEY)]
    return [rpc(chain.url, "eth_getTransactionCount", owner, "pending") for chain in devnet.chains for owner in owners]


def read(devnet: Devnet, chain: int, address: str, contract: Contract, function: str, *arguments: object) -> object:
    call = {"to": address, "data": "0x" + contract.encode(function, *arguments).hex()}
    return contract.decode(function, bytes.fromhex(rpc(devnet.chains[chain].url, "eth_call", call, "latest")[2:]))


def test_deployment_connects_routers_and_adapters(devnet: Devnet, tmp_path: Path) -> None:
    done = run(plan(devnet), tmp_path / "second.json")
    assert done.changed
    assert Deployment.from_json(done.path.read_text(), "file") == done.deployment
    here, there = done.deployment.chains
    assert here.router != devnet.deployment.chains[0].router
    peer = to_bytes32(there.router)
    assert read(devnet, 0, here.router, ROUTER, "owner") == account(OWNER_KEY).address.lower()
    assert read(devnet, 0, here.router, ROUTER, "peerOf", there.chain_id) == peer
    assert read(devnet, 0, here.router, ROUTER, "floorOf", there.chain_id) == 2
    for gmp in (Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE):
        adapter = str(read(devnet, 0, here.router, ROUTER, "adapterOf", int(gmp)))
        assert adapter == here.adapter(gmp).lower()
        remote = read(devnet, 0, adapter, ADAPTER, "remoteAdapterOf", there.chain_id, peer)
        assert remote == to_bytes32(there.adapter(gmp))


def test_a_second_run_sends_nothing_and_leaves_the_file(devnet: Devnet, tmp_path: Path) -> None:
    target = tmp_path / "second.json"
    run(plan(devnet), target)
    sent, written = transactions_sent(devnet), target.stat().st_mtime_ns
    again = run(plan(devnet), target)
    assert not again.changed
    assert [outcome.done for outcome in again.outcomes] == [(), ()]
    assert transactions_sent(devnet) == sent
    assert target.stat().st_mtime_ns == written


def test_start_block_is_not_after_the_routers_creation(devnet: Devnet, tmp_path: Path) -> None:
    target = tmp_path / "second.json"
    first = run(plan(devnet), target)
    for chain, found in zip(devnet.chains, first.deployment.chains, strict=True):
        assert rpc(chain.url, "eth_getCode", found.router, hex(found.start_block)) == "0x"
        assert rpc(chain.url, "eth_getCode", found.router, "latest") != "0x"
    target.unlink()
    again = run(plan(devnet), target)
    assert again.file_changed
    for chain, found in zip(devnet.chains, again.deployment.chains, strict=True):
        events = rpc(chain.url, "eth_getLogs", {"address": found.router, "fromBlock": "0x0"})
        adapter_added = [event for event in events if int(event["blockNumber"], 16) >= found.start_block]
        assert len(adapter_added) >= len(events) - 1, "only the change of owner in its creation may lie before"


def test_interrupted_run_continues_without_repeating(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, left, send = tmp_path / "second.json", [7], send_once

    async def fails(chain: EvmChain, signer: LocalSigner, call: Call, *, nonce: int) -> Receipt:
        left[0] -= 1
        if left[0] < 0:
            raise UnansweredError("the machine is gone")
        return await send(chain, signer, call, nonce=nonce)

    with monkeypatch.context() as patch:
        patch.setattr("bridge.deploy.deploy.transact", fails)
        with pytest.raises(UnansweredError):
            run(plan(devnet), target)
    assert not target.exists()
    missing = [outcome.done for outcome in run(plan(devnet), target).outcomes]
    whole = [
        outcome.done
        for outcome in run(plan(devnet, account(ANVIL_KEYS[9])), tmp_path / "x.json", ANVIL_KEYS[9]).outcomes
    ]
    for some, all_of_it in zip(missing, whole, strict=True):
        assert some == all_of_it[len(all_of_it) - len(some) :], "what was done is not done again"
    assert sum(map(len, whole)) - sum(map(len, missing)) == 7
    assert not run(plan(devnet), target).changed


def test_owner_deploys_a_second_router_beside_the_first(devnet: Devnet, tmp_path: Path) -> None:
    first = run(plan(devnet), tmp_path / "second.json").deployment
    successor = plan(devnet).model_copy(update={"network": "successor", "router_number": 2})
    with pytest.raises(DeployError, match="routerNumber"):
        run(successor, tmp_path / "second.json")
    made = run(successor, tmp_path / "successor.json").deployment
    for place, (old, new) in enumerate(zip(first.chains, made.chains, strict=True)):
        mine = {old.router, old.parameters, *old.adapters.values()}
        assert not mine & {new.router, new.parameters, *new.adapters.values()}
        assert new.multicall == old.multicall, "it belongs to no router"
        assert read(devnet, place, new.router, ROUTER, "owner") == read(devnet, place, old.router, ROUTER, "owner")
        there = made.chains[1 - place]
        peer = read(devnet, place, new.router, ROUTER, "peerOf", there.chain_id)
        assert peer == to_bytes32(there.router), "it knows its like"
    assert not run(plan(devnet), tmp_path / "second.json").changed
    assert not run(successor, tmp_path / "successor.json").changed


def test_what_is_missing_on_one_chain_is_all_that_is_done(devnet: Devnet, tmp_path: Path) -> None:
    target = tmp_path / "second.json"
    full = plan(devnet)
    alpha, beta = full.chains
    without = alpha.model_copy(update={"gmps": {name: one for name, one in alpha.gmps.items() if name != "axelar"}})
    run(full.model_copy(update={"chains": (without, beta)}), target)
    again = run(full, target)
    assert [outcome.done for outcome in again.outcomes] == [
        ("axelar adapter", "axelar registered", "axelar to beta"),
        ("axelar to alpha",),
    ]


def test_plan_raises_a_floor_and_never_lowers_it(devnet: Devnet, tmp_path: Path) -> None:
    target = tmp_path / "second.json"
    run(plan(devnet), target)
    raised = run(plan(devnet).model_copy(update={"floor": 3}), target)
    assert [outcome.done for outcome in raised.outcomes] == [("floor to beta",), ("floor to alpha",)]
    assert not run(plan(devnet), target).changed
    here, there = raised.deployment.chains
    assert read(devnet, 0, here.router, ROUTER, "floorOf", there.chain_id) == 3


def test_missing_gmp_contract_is_named_before_sending(devnet: Devnet, tmp_path: Path) -> None:
    full = plan(devnet)
    nowhere = signer("nowhere", 0).address
    beta = full.chains[1].gmps
    gmps = beta | {"wormhole": beta["wormhole"] | {"core": nowhere}}
    broken = full.model_copy(update={"chains": (full.chains[0], full.chains[1].model_copy(update={"gmps": gmps}))})
    sent = transactions_sent(devnet)
    with pytest.raises(DeployError, match=rf"'beta' has no contract at gmps.wormhole.core \({nowhere}\)"):
        run(broken, tmp_path / "second.json")
    assert transactions_sent(devnet) == sent


def test_owner_without_funds_is_named_with_the_cost(devnet: Devnet, tmp_path: Path) -> None:
    poor = signer("poor", 0)
    key, wrong = (
        "0x" + bytes(poor.key).hex(),
        r"but the deployment costs about ([\d.]+) ether .* send it at least \1 ether",
    )
    with pytest.raises(DeployError) as refused:
        run(plan(devnet, poor), tmp_path / "second.json", key)
    lines = str(refused.value).splitlines()
    for line, chain in zip(lines, ("alpha", "beta"), strict=True):
        assert re.match(f"{poor.address} holds 0 ether on chain {chain!r}, {wrong}", line)
    with pytest.raises(DeployError, match=f"^the account is {poor.address}, but the plan's owner is .*") as refused:
        run(plan(devnet), tmp_path / "second.json", key)
    assert "holds" not in str(refused.value), "what an account has that may not deploy does not matter"


def test_registered_adapter_is_not_replaced_silently(devnet: Devnet, tmp_path: Path) -> None:
    target = tmp_path / "second.json"
    full = plan(devnet)
    run(full, target)
    alpha = full.chains[0]
    # Another gas service makes another adapter.
    other = alpha.gmps["axelar"] | {"gasService": alpha.gmps["axelar"]["gateway"]}
    changed = alpha.model_copy(update={"gmps": alpha.gmps | {"axelar": other}})
    before = target.read_text()
    with pytest.raises(DeployError, match=r"'alpha'.*a different adapter for axelar"):
        run(full.model_copy(update={"chains": (changed, full.chains[1])}), target)
    no_mailbox = alpha.gmps["hyperlane"] | {"mailbox": alpha.gmps["axelar"]["gateway"]}
    changed = alpha.model_copy(update={"gmps": alpha.gmps | {"hyperlane": no_mailbox}})
    with pytest.raises(DeployError, match=r"'alpha': gmps.hyperlane.mailbox: 0x.* has no localDomain"):
        run(full.model_copy(update={"chains": (changed, full.chains[1])}), target)
    assert target.read_text() == before


async def test_contracts_created_by_a_stranger_get_their_values(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    owner = account(ANVIL_KEYS[6])
    router = creation_code("Router", ["address"], [owner.address])
    alpha = devnet.deployment.chains[0].chain_id
    arguments = ("address", "address", "uint64", "address", "uint8", "uint16")
    for chain in chains.values():
        await created_by_a_stranger(chain, router)
        values = [owner.address, create2_address(router), alpha, owner.address, 2, 0xFFFF]
        await created_by_a_stranger(chain, creation_code("Parameters", arguments, values))
    done = await deploy(plan(devnet, owner), LocalSigner.from_key(ANVIL_KEYS[6]), tmp_path / "second.json")
    for deployed, outcome in zip(done.deployment.chains, done.outcomes, strict=True):
        assert deployed.parameters is not None
        assert "parameters" not in outcome.done, "the stranger's is another contract than ours"
        assert "parameters set" in outcome.done
        parameters = OnChainParameters(chains[deployed.chain_id], deployed.router, deployed.parameters)
        assert await parameters.is_operator(owner.address)
        assert await parameters.thresholds() == Thresholds(10, 100)


def test_second_network_does_not_overwrite_the_first(devnet: Devnet, tmp_path: Path) -> None:
    target = tmp_path / "second.json"
    first = run(plan(devnet), target)
    before, sent = target.read_text(), transactions_sent(devnet)
    # Another owner makes other code, as another version of the contracts would.
    other = plan(devnet, account(OTHER_OWNER_KEY))
    with pytest.raises(DeployError, match=r"give the new network a different name"):
        run(other, target, OTHER_OWNER_KEY)
    assert target.read_text() == before
    assert transactions_sent(devnet) == sent
    # A devnet that was started again: what the file names is gone.
    gone = first.deployment.model_copy(
        update={"chains": tuple(one.model_copy(update={"router": "0x" + "12" * 20}) for one in first.deployment.chains)}
    )
    target.write_text(gone.to_json())
    assert run(plan(devnet), target).file_changed
