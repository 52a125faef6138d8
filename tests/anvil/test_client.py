"""The Python kit against real chains and real GMPs: blocking and not, it quotes, caps, routes, retries, follows and finds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bridge.client import (
    BlockingClient,
    Client,
    FeeCapError,
    NoRecipientError,
    NothingToRetryError,
    RefusedError,
    RouteRequest,
    TtlTooShortError,
    UnknownMessageError,
)
from bridge.devnet import Devnet
from bridge.devnet.accounts import DAPP_KEY
from bridge.evm.chain import EvmChain, open_chains
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import TransientError
from tests.anvil import recipes
from tests.anvil.rpc import mine, rpc
from tests.anvil.traffic import DAPP, RELAYER, World
from tests.waiting import PATIENCE


def deliver(devnet: Devnet, gmp: Gmp) -> None:
    """Delivers what a GMP took on alpha, as a relayer would."""

    async def work() -> None:
        async with open_chains(devnet.deployment) as chains:
            world = World(devnet.deployment, chains)
            for dispatch in await world.dispatches(gmp):
                await world.deliver(gmp, dispatch)

    asyncio.run(work())


def test_blocking_client_respects_its_cap_and_follows_to_the_end(devnet: Devnet) -> None:
    inbox = devnet.deployment.chain("beta").examples["inbox"]
    with BlockingClient(devnet.deployment, DAPP) as client:
        gmps = (Gmp.HYPERLANE, Gmp.LAYERZERO)
        fees = client.quote_route(
            "alpha", RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=gmps)
        )
        total = sum(fees.values())
        assert set(fees) == set(gmps)
        with pytest.raises(
            FeeCapError, match=f"charge {total} wei .* above the cap of {total - 1} wei; nothing was sent"
        ):
            recipes.send_for_at_most(client, inbox, total - 1)
        sent = recipes.send_for_at_most(client, inbox, total)
        assert (sent.fee, sent.gmps, sent.message.nonce) == (total, frozenset(gmps), 1)
        assert client.find(sent.message.id) == sent.message
        with pytest.raises(UnknownMessageError):
            client.find(bytes(32))
        steps = client.watch(sent.message, timeout=PATIENCE)
        assert next(steps).receipts == frozenset()
        deliver(devnet, Gmp.HYPERLANE)
        assert next(steps).receipts == {Gmp.HYPERLANE}
        assert sum(client.quote_retry(sent.message, [Gmp.WORMHOLE]).values()) >= 0
        assert client.retry(sent.message, [Gmp.WORMHOLE]).attempt == 1
        deliver(devnet, Gmp.WORMHOLE)
        assert [step.executed for step in steps] == [True]
        assert recipes.follow(client, sent.message)
        with pytest.raises(RefusedError, match="AlreadyExecuted"):
            client.execute(sent.message)
        short = RouteRequest(destination="beta", recipient=inbox, payload=b"late", gmps=gmps, ttl=5)
        with pytest.raises(
            TtlTooShortError, match=r"a TTL of 5 s is too short to arrive: finality on alpha takes \d+ s"
        ):
            client.route("alpha", short)
    with pytest.raises(RuntimeError, match="context manager"):
        client.progress(sent.message)


async def test_send_behind_a_pending_transaction_is_reported_unsent(
    devnet: Devnet, chains: dict[int, EvmChain]
) -> None:
    alpha = devnet.chains[0]
    client = Client(devnet.deployment, chains, DAPP)
    inbox = devnet.deployment.chain("beta").examples["inbox"]
    first, second = (
        RouteRequest(destination="beta", recipient=inbox, payload=payload, gmps=(Gmp.WORMHOLE,))
        for payload in (b"first", b"second")
    )
    rpc(alpha.url, "evm_setAutomine", False)
    try:
        sending = asyncio.create_task(client.route("alpha", first))
        while rpc(alpha.url, "txpool_status")["pending"] != hex(1):
            await asyncio.sleep(0.01)
        with pytest.raises(
            RefusedError, match=rf"{DAPP.address} sent other transactions .*1 still pending.* not sent: wait"
        ):
            await client.route("alpha", second)
    finally:
        rpc(alpha.url, "evm_setAutomine", True)
        mine(alpha.url)
    assert (await sending).message.payload == b"first"
    assert (await client.route("alpha", second)).message.nonce == 2


def test_a_retry_of_an_executed_message_is_refused(devnet: Devnet) -> None:
    inbox = devnet.deployment.chain("beta").examples["inbox"]
    request = RouteRequest(destination="beta", recipient=inbox, payload=b"once", gmps=(Gmp.HYPERLANE,))
    with BlockingClient(devnet.deployment, DAPP) as client:
        sent = asyncio.run(recipes.send(devnet.deployment, DAPP_KEY, request))
        deliver(devnet, Gmp.HYPERLANE)
        assert client.wait(sent.message, PATIENCE).executed
        before = client.quote_retry(sent.message, [Gmp.WORMHOLE])
        with pytest.raises(NothingToRetryError, match="was executed on beta: a retry would cost a fee without effect"):
            client.retry(sent.message, [Gmp.WORMHOLE])
        again = client.retry(sent.message, [Gmp.WORMHOLE], even_if_ended=True)
        assert (again.attempt, again.fee) == (1, sum(before.values()))


def test_a_blocking_client_cancels_and_names_who_may_retry(devnet: Devnet) -> None:
    inbox = devnet.deployment.chain("beta").examples["inbox"]
    request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=(Gmp.AXELAR,))
    with BlockingClient(devnet.deployment, DAPP) as client:
        sent = client.route("alpha", request)
        assert client.appoint_retrier("alpha", RELAYER.address).succeeded
        with BlockingClient(devnet.deployment, RELAYER) as other:
            assert other.retry(sent.message, [Gmp.WORMHOLE]).attempt == 1
        cancellation = client.cancel(sent.message, [Gmp.HYPERLANE])
        with pytest.raises(RefusedError):
            client.expire(sent.message)
        deliver(devnet, Gmp.HYPERLANE)
        ended = client.wait(cancellation.message, PATIENCE)
        assert ended.executed
        assert client.progress(sent.message).ended
        assert not client.wait(sent.message, PATIENCE).executed
    with BlockingClient(devnet.deployment) as reader:
        assert reader.find(sent.message.id) == sent.message
        with pytest.raises(RefusedError, match="requires an account"):
            reader.execute(sent.message)


async def test_deployment_of_another_network_is_named_by_address(devnet: Devnet, chains: dict[int, EvmChain]) -> None:
    elsewhere = "0x" + "12" * 20
    alpha, beta = devnet.deployment.chains
    deployment = devnet.deployment.model_copy(update={"chains": (alpha.model_copy(update={"router": elsewhere}), beta)})
    request = RouteRequest(
        destination="beta", recipient=DAPP.address, payload=b"", gmps=(Gmp.AXELAR,), check_recipient=False
    )
    with pytest.raises(
        TransientError, match=f"{elsewhere} to a call is empty.*Check that the deployments file is for this network"
    ):
        await Client(deployment, chains, DAPP).route("alpha", request)


async def test_message_to_no_contract_is_not_sent(devnet: Devnet, chains: dict[int, EvmChain]) -> None:
    client, inbox = Client(devnet.deployment, chains, DAPP), devnet.deployment.chain("beta").examples["inbox"]
    usual = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=(Gmp.AXELAR,))
    with pytest.raises(NoRecipientError, match=f"{DAPP.address} has no contract on beta"):
        await client.route("alpha", replace(usual, recipient=DAPP.address))
    assert (await client.route("alpha", usual)).gmps == {Gmp.AXELAR}


async def test_readme_script_and_insisting_recipe_work(devnet: Devnet, chains: dict[int, EvmChain]) -> None:
    world = World(devnet.deployment, chains)

    async def bring(gmp: Gmp, dispatches: int) -> None:
        while len(found := await world.dispatches(gmp)) < dispatches:
            await asyncio.sleep(0.05)
        await world.deliver(gmp, found[-1])

    said, _ = await asyncio.gather(
        asyncio.to_thread(recipes.hello, devnet.deployment, DAPP_KEY), bring(Gmp.WORMHOLE, 1)
    )
    assert said
    sent = await world.send(Gmp.AXELAR)
    insisting = recipes.retry_over_others(Client(devnet.deployment, chains, DAPP), sent.message, 5)
    executed, _ = await asyncio.gather(insisting, bring(Gmp.WORMHOLE, 2))
    assert executed
