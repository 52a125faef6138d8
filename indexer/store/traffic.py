"""Tallies of messages by the time of their creation: what histories are drawn from, however many messages there are.

The store's transactions keep them: code that changes rows of `messages` or `receipts` takes their part out before and puts
it in after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, text

from indexer.store import tables

WIDTHS: Final = (86_400, 3_600, 150)
"""Seconds of the stretches of time that are tallied; a longer one is as many of them as it takes."""

NOT_ARRIVED: Final = -1
"""Stands in the tally for the seconds of what has not arrived."""

_EXACT: Final = 32
"""Seconds below which each second is tallied apart; above, a sixteenth is rounded down: a history has few rows then."""

_ROUNDED: Final = " ".join(f"when seconds < {_EXACT << n} then seconds - seconds % {1 << n}" for n in range(1, 24))


def _tally(chosen: str) -> str:
    return f"""
        with m as materialized (
          select message_id, source_chain, destination_chain, source_time, executed_time from messages
          where source_time is not null and destination_chain is not null {chosen}
        ), o as (
          select source_chain, destination_chain, 0 as gmp, source_time, executed_time - source_time as seconds from m
          union all
          select m.source_chain, m.destination_chain, r.gmp, m.source_time,
            r.received_time - coalesce(r.dispatched_time, m.source_time)
          from m join receipts r on r.message_id = m.message_id where r.dispatches > 0
        ), t as (
          select source_chain, destination_chain, gmp, source_time, count(*) as messages, case
            when seconds is null then {NOT_ARRIVED} when seconds < 0 then 0 when seconds < {_EXACT} then seconds {_ROUNDED}
            else {_EXACT << 23} end as seconds
          from o group by 1, 2, 3, 4, 6
        )
        insert into traffic (width, since, source_chain, destination_chain, gmp, seconds, messages)
        select w.width, t.source_time - t.source_time % w.width, t.source_chain, t.destination_chain, t.gmp, t.seconds,
          cast(:step * sum(t.messages) as bigint)
        from t cross join ({" union all ".join(f"select {width} as width" for width in WIDTHS)}) w
        where true
        group by 1, 2, 3, 4, 5, 6
        on conflict (width, since, source_chain, destination_chain, gmp, seconds)
          do update set messages = traffic.messages + excluded.messages
    """


_SOME: Final = text(_tally("and message_id in :ids")).bindparams(bindparam("ids", expanding=True))
_ALL: Final = text(_tally(""))
_DROP_EMPTY: Final = text("delete from traffic where messages = 0")


def take_out(connection: Connection, ids: Sequence[bytes]) -> None:
    """Takes messages out of the tallies, as their rows are now; `put_in` comes after."""
    if ids:
        connection.execute(_SOME, {"ids": ids, "step": -1})


def put_in(connection: Connection, ids: Sequence[bytes]) -> None:
    """Adds messages to the tallies, as their rows are now."""
    connection.execute(_SOME, {"ids": ids, "step": 1})
    connection.execute(_DROP_EMPTY)


def tally_all(connection: Connection) -> None:
    """Makes the tallies of all messages in a store whose rows were written past it."""
    connection.execute(tables.traffic.delete())
    connection.execute(_ALL, {"step": 1})


def width_for(since: int, step: int) -> int:
    """The longest tallied stretch of time of which stretches from `since` on, `step` seconds each, are made up.

    Raises:
        ValueError: they are made up of none.
    """
    for width in WIDTHS:
        if since % width == 0 and step % width == 0:
            return width
    raise ValueError(f"stretches of {step} s from {since} on are not made up of {WIDTHS[-1]} s")


def history_of(group: str, chosen: str) -> str:
    """Messages by group and stretch of time, with percentiles of nearest rank; takes `:width`, `:since`, `:until`, `:step`.

    Args:
        group: columns of the tallies.
        chosen: which of their rows.
    """
    return f"""
        with timed as (
          select {group}, (since - :since) / :step as slot, seconds, cast(sum(messages) as bigint) as number
          from traffic
          where width = :width and since >= :since and since < :until and {chosen}
          group by {group}, (since - :since) / :step, seconds
        ), ranked as (
          select t.*, sum(case when seconds >= 0 then number else 0 end) over (partition by {group}, slot) as arrived,
            sum(case when seconds >= 0 then number else 0 end) over (partition by {group}, slot order by seconds) as place
          from timed t
        )
        select {group}, slot, cast(sum(number) as bigint) as messages, cast(max(arrived) as bigint) as arrived,
          min(case when seconds >= 0 and place * 100 >= arrived * 50 then seconds end) as p50,
          min(case when seconds >= 0 and place * 100 >= arrived * 95 then seconds end) as p95
        from ranked group by {group}, slot order by {group}, slot
    """


def tally_of(group: str, chosen: str) -> str:
    """Messages by group and seconds over all stretches of time; takes `:width`, `:since` and `:until`. See `history_of`."""
    return f"""
        select {group}, seconds, cast(sum(messages) as bigint) as messages from traffic
        where width = :width and since >= :since and since < :until and {chosen}
        group by {group}, seconds order by {group}, seconds
    """
