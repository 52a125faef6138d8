"""What one call, one signer or one stuck nonce does to the other calls of an account: it delays them, and charges none."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bridge.evm.signing import SignatureRefusedError, SignedTransaction, UnsignedTransaction
from bridge.protocol.ports import Call, Receipt, TransientError, UnansweredError
from tests.support.settings import tuned
from tests.support.simulation import RELAYER
from tests.unit.evm.sending_world import SETTINGS, Account, call
from tests.virtual_time import in_virtual_time, until

BAD = replace(call(), data=b"what the signing service's policy forbids")


class Policed:
    """A signing service that refuses some calls, or answers nothing at all."""

    address = RELAYER.address

    def __init__(self) -> None:
        self.is_silent = False

    async def sign(self, transaction: UnsignedTransaction) -> SignedTransaction:
        if self.is_silent:
            raise UnansweredError("the remote signer does not answer")
        if transaction.data == BAD.data:
            raise SignatureRefusedError("the remote signer refuses: policy")
        return await RELAYER.sign(transaction)


def is_charged(outcome: Receipt | BaseException) -> bool:
    return isinstance(outcome, TransientError) and not isinstance(outcome, UnansweredError)


@in_virtual_time
async def test_call_that_the_signer_refuses_is_charged_alone() -> None:
    """Its nonce was reserved for ever, the monitor failed at it each time, and all that followed waited behind it."""
    account = Account()
    sender = account.sender(signer=Policed())
    async with account.looked_after(sender):
        sent = [sender.send("bad", BAD), *(sender.send(f"p{number}", call(number)) for number in range(3))]
        refused, *others = await asyncio.gather(*sent, return_exceptions=True)
    assert is_charged(refused)
    assert all(isinstance(one, Receipt) and one.succeeded for one in others)
    assert [slot.ended_as_noop for slot in account.slots] == [True, False, False, False]


@in_virtual_time
async def test_silent_signer_charges_no_call() -> None:
    account, signer = Account(), Policed()
    signer.is_silent = True
    sender = account.sender(signer=signer)
    refused = await asyncio.gather(*(sender.send(f"p{n}", call(n)) for n in range(3)), return_exceptions=True)
    assert not any(is_charged(one) for one in refused)
    signer.is_silent = False
    async with account.looked_after(sender):
        receipts = await asyncio.gather(*(sender.send(f"p{n}", call(n)) for n in range(3)))
    assert all(receipt.succeeded for receipt in receipts)
    assert [slot.ended_as_noop for slot in account.slots] == [False] * 3


@in_virtual_time
async def test_call_that_can_not_be_packed_fails_alone() -> None:
    """An error that nobody foresaw fails the call that it comes from, and not the hundred that travelled with it."""
    account = Account()
    bad = Call(to=RELAYER.address, data=b"", value=1 << 300, gas=60_000)  # more than the store's columns hold
    sender = account.sender()
    async with account.looked_after(sender):
        sent = [sender.send("bad", bad), *(sender.send(f"p{number}", call(number)) for number in range(3))]
        failed, *others = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(failed, OverflowError)
    assert all(isinstance(one, Receipt) and one.succeeded for one in others)


@in_virtual_time
async def test_call_that_became_next_late_is_not_charged() -> None:
    """The nonce before it was closed just before its time ran out: it has had no time of its own."""
    account = Account()
    account.mining = False
    settings = tuned(SETTINGS, INCLUSION_TIMEOUT=10, fee_bump_after=1_000)
    sender = account.sender(settings=settings)
    async with account.looked_after(sender):
        first = asyncio.create_task(sender.send("first", call(0)))
        await until(lambda: len(account.chain.pool) == 1)
        behind = asyncio.create_task(sender.send("behind", call(1)))
        await until(lambda: len(account.chain.pool) == 2)
        await asyncio.sleep(7)
        (second_hash,) = (key for key, one in account.chain.pool.items() if one.nonce == 1)
        del account.chain.pool[second_hash]  # nobody sends it again in this test
        account.chain.mine()
        assert (await first).succeeded
        outcome = (await asyncio.gather(behind, return_exceptions=True))[0]
        assert isinstance(outcome, UnansweredError), "it was next for three of ten seconds"
        again = (await asyncio.gather(sender.send("behind", call(1)), return_exceptions=True))[0]
        assert is_charged(again), "by now it has been next for all of them"
