"""A backup is whole, comes from and goes into any kind of database, and nonces go on where the chain is."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from bridge.evm.account import reconcile_nonces
from bridge.evm.sender import Sender
from bridge.protocol.errors import StoreError
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import Dead, Delivered, ObservedDelivery
from bridge.records.transactions import SlotRequest, SlotState
from bridge.store import Store, back_up, restore, working_on
from bridge.store.lock import replacing
from bridge.store.tables import METADATA
from tests.builders import BETA, block, message, observed_range, retry_request, word
from tests.postgresql import Server
from tests.support.simulation import RELAYER
from tests.unit.evm.sending_world import CHAIN, Account, call
from tests.virtual_time import in_virtual_time, until

NOW = 1_000.0


def fill(store: Store) -> None:
    """Something in every part of the store."""
    store.observations.record(observed_range(*(message(nonce) for nonce in range(1, 5)), now=100))
    first, second, *_ = store.outbox.claim(
        worker="w", destination_chain=BETA, gmps=set(Gmp), limit=2, now=NOW, lease=30
    )
    failure = Failure(at=NOW, kind=FailureKind.TERMINAL, code="X", message="never")
    store.outbox.finish(
        [
            Delivered(first.current_claim, ObservedDelivery(block(5, "beta"), word("tx"))),
            Dead(second.current_claim, failure),
        ],
        NOW,
    )
    store.transactions.reserve(
        BETA, "0xabc", [SlotRequest("a", call()), SlotRequest("b", call())], first_nonce=3, now=NOW
    )
    store.jobs.copy_requests([retry_request()], 1, NOW)


def content(store: Store) -> dict[str, list[tuple[object, ...]]]:
    with store._database.reading() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for table in METADATA.sorted_tables
        }


@pytest.fixture(params=["sqlite", "postgresql"])
def other_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/other.db"
    server: Server = request.getfixturevalue("postgresql")
    return server.new_url()


def test_restore_equals_backup_across_databases(url: str, other_url: str, tmp_path: Path) -> None:
    store = Store(url)
    fill(store)
    copied = back_up(url, tmp_path / "backup.db")
    assert copied.accounts == ((BETA, "0xabc"),)
    assert (copied.rows["messages"], copied.rows["outbox"], copied.rows["slots"]) == (4, 4, 2)
    assert restore(tmp_path / "backup.db", other_url) == copied
    restored = Store(other_url)
    assert content(restored) == content(store)
    # Keys go on where the restored rows end.
    restored.observations.record(observed_range(message(9), previous=block(10), position=block(11), now=200))
    restored.transactions.reserve(BETA, "0xabc", [SlotRequest("c", call())], first_nonce=0, now=NOW)
    assert [slot.nonce for slot in restored.transactions.slots(BETA, "0xabc")] == [3, 4, 5]
    store.close()
    restored.close()


def test_a_backup_is_of_one_moment_while_others_write(url: str, tmp_path: Path) -> None:
    store, other = Store(url), Store(url)
    store.observations.record(observed_range(message(1)))
    with other._database.transaction() as connection:
        connection.execute(METADATA.tables["messages"].update().values(observed_at=7))
        back_up(url, tmp_path / "backup.db")  # waits for nobody, and sees nothing half done
    with sqlite3.connect(tmp_path / "backup.db") as file:
        assert file.execute("SELECT observed_at FROM messages").fetchall() == [(100.0,)]
        assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    file.close()
    store.close()
    other.close()


def test_a_store_that_is_not_empty_is_given_up_only_on_request(url: str, tmp_path: Path) -> None:
    with closing(Store(url)) as store:
        fill(store)
        back_up(url, tmp_path / "backup.db")
        before = content(store)
        store.outbox.replay(store.outbox.entries(message(1).id)[0].event_id, "later", NOW)
    with pytest.raises(StoreError, match="--replace"):
        restore(tmp_path / "backup.db", url)
    with closing(Store(url)) as store:
        assert content(store) != before
    restore(tmp_path / "backup.db", url, replace=True)
    with closing(Store(url)) as store:
        assert content(store) == before


def test_a_store_that_a_relayer_works_on_is_not_replaced(url: str, tmp_path: Path) -> None:
    store = Store(url)
    fill(store)
    back_up(url, tmp_path / "backup.db")
    with working_on(url, "busy"), working_on(url, "busy"), pytest.raises(StoreError, match=r"busy is using .* stop it"):
        restore(tmp_path / "backup.db", url, replace=True)
    store.close()
    restore(tmp_path / "backup.db", url, replace=True)


@pytest.fixture
def backed_up(tmp_path: Path) -> Path:
    """A store in SQLite that somebody else's tools can name in many ways; its backup is beside it."""
    path = tmp_path / "bridge.db"
    Store(f"sqlite:///{path}").close()
    back_up(f"sqlite:///{path}", tmp_path / "backup.db")
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    return path


@pytest.mark.parametrize("relayer", ["bridge.db", "link.db"])
@pytest.mark.parametrize("name", ["bridge.db", "link.db", "folder/link.db", "folder/bridge.db", "bridge.db?timeout=3"])
def test_store_path_aliases_share_one_lock(
    backed_up: Path, monkeypatch: pytest.MonkeyPatch, relayer: str, name: str
) -> None:
    monkeypatch.chdir(backed_up.parent)
    with working_on(f"sqlite:///{relayer}", "busy"), pytest.raises(StoreError, match="busy is using"):
        restore(Path("backup.db"), f"sqlite:///{name}", replace=True)
    restore(Path("backup.db"), f"sqlite:///{name}", replace=True)


def test_a_relayer_whose_lock_file_was_deleted_keeps_its_store(backed_up: Path) -> None:
    url, lock_file = f"sqlite:///{backed_up}", backed_up.with_name("bridge.db.lock")
    with working_on(url, "busy"), closing(Store(url)):
        lock_file.unlink()
        with pytest.raises(StoreError, match="another process has the store"):
            restore(backed_up.with_name("backup.db"), url, replace=True)
    restore(backed_up.with_name("backup.db"), url, replace=True)


def test_no_relayer_starts_on_a_store_that_is_being_restored(url: str) -> None:
    with replacing(url), pytest.raises(StoreError, match="is being restored"), working_on(url, "busy"):
        pass


def test_bad_files_are_refused_by_name(tmp_path: Path) -> None:
    url, target = f"sqlite:///{tmp_path}/bridge.db", f"sqlite:///{tmp_path}/target.db"
    with pytest.raises(StoreError, match="start a relayer first"):
        back_up(url, tmp_path / "backup.db")
    store = Store(url)
    fill(store)
    store.close()
    back_up(url, tmp_path / "backup.db")
    with pytest.raises(StoreError, match="already exists"):
        back_up(url, tmp_path / "backup.db")
    with pytest.raises(StoreError, match="no backup"):
        restore(tmp_path / "nothing.db", target)
    (tmp_path / "text").write_text("not a database at all, not even close to one" * 50)
    with pytest.raises(StoreError, match="is not a store backup"):
        restore(tmp_path / "text", target)
    content = bytearray((tmp_path / "backup.db").read_bytes())
    content[4096 * 3 : 4096 * 5] = bytes(4096 * 2)
    (tmp_path / "damaged.db").write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged|is not a store backup"):
        restore(tmp_path / "damaged.db", target)
    assert list(tmp_path.glob(".*.part")) == []


@in_virtual_time
async def test_nonces_used_after_the_backup_are_not_reused(tmp_path: Path) -> None:
    world = Account()
    url = f"sqlite:///{tmp_path}/bridge.db"
    store = Store(url)
    sender = world.sender(store=store)
    async with world.looked_after(sender):
        await sender.send("before", call(1))
        back_up(url, tmp_path / "backup.db")
        await sender.send("after", call(2))
    late = world.sender(store=store)
    lost = await _leave_in_the_pool(late, world)
    store.close()
    restore(tmp_path / "backup.db", url, replace=True)
    restored = Store(url)
    assert await reconcile_nonces(world.chain, RELAYER.address, restored.transactions, world.clock) == 2
    assert await reconcile_nonces(world.chain, RELAYER.address, restored.transactions, world.clock) == 0
    slots = restored.transactions.slots(CHAIN, RELAYER.address)
    assert [(slot.nonce, slot.state) for slot in slots][1:] == [
        (1, SlotState.USED_EXTERNALLY),
        (2, SlotState.USED_EXTERNALLY),
    ]
    world.chain.pool.clear()  # what was in the pool is never included: its nonce is a gap
    again = world.sender(store=restored)
    async with world.looked_after(again):
        receipt = await again.send("new", call(3))
        assert receipt.succeeded
        await until(lambda: world.chain.state.nonces[RELAYER.address] == 4)
    assert lost == 2
    restored.close()


async def _leave_in_the_pool(sender: Sender, world: Account) -> int:
    """Sends something that no block includes; returns its nonce."""
    world.mining = False
    task = asyncio.create_task(sender.send("in the pool", call(9)))
    await until(lambda: len(world.chain.pool) == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    world.mining = True
    (waiting,) = world.chain.pool.values()
    return int(waiting.nonce)
