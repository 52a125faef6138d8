-- What totals are made of: for each measure, how many messages or receipts have a value, or what they add up to. The columns
-- are those of schemas.TALLIES. A `sign` of -1 stands for rows that others replace: what they had counted is taken away, so a
-- run adds what is new to the tallies `before`. For Spark and DuckDB, like all that is made of it.
--
-- messages … duplicates   by lane and day: numbers
-- delivered, quorum, executed_after   by lane and day: messages by seconds from the route to it; `quorum` is the receipt with
--   which there were as many as the message needed
-- nonce    by lane and router: how many more messages have the next nonce than this one; with each nonce once, two rows
-- gmp_first, gmp_late, gmp_lead, gmp_latency   by GMP: receipts, the last two by seconds
with placed as (
  select
    m.sign, m.message_id, m.source_chain, m.source_router, m.destination_chain, m.nonce, m.status, m.quorum,
    m.executions, m.attempts, m.failures, m.duplicates,
    date '1970-01-01' + cast(floor(m.source_time / 86400) as int) as day,
    m.executed_time - m.source_time as executed_after,
    r.gmp,
    r.received_time - m.source_time as delivered,
    -- A receipt of a GMP that no attempt names counts from the creation.
    r.received_time - coalesce(r.dispatched_time, m.source_time) as latency,
    case when r.received_block > m.executed_block
      or (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index) then 1 else 0 end as late,
    row_number() over (partition by m.sign, m.message_id order by r.received_time, r.gmp) as place,
    lead(r.received_time) over (partition by m.sign, m.message_id order by r.received_time, r.gmp) - r.received_time as lead_time
  from $messages m
  left join (select * from $receipts one where one.received_block is not null) r
    on r.message_id = m.message_id and r.sign = m.sign
  where m.source_block is not null
),
summed as (
  select
    p.*,
    count(gmp) over (partition by sign, message_id) as receipts,
    sum(late) over (partition by sign, message_id) as late_receipts,
    max(case when place = quorum then delivered end) over (partition by sign, message_id) as quorum_after
  from placed p
),
measures as ($measures),
counted as (
  select
    x.measure,
    case when x.scope <> 'gmp' then s.source_chain end as source_chain,
    case when x.scope = 'router' then s.source_router end as source_router,
    case when x.scope <> 'gmp' then s.destination_chain end as destination_chain,
    case when x.scope = 'day' then s.day end as day,
    case when x.scope = 'gmp' then s.gmp end as gmp,
    case x.measure
      when 'delivered' then s.delivered
      when 'quorum' then s.quorum_after
      when 'executed_after' then s.executed_after
      when 'nonce' then s.nonce - 1 + x.step
      when 'gmp_lead' then s.lead_time
      when 'gmp_latency' then s.latency
    end as value,
    cast(s.sign * case x.measure
      when 'messages' then 1
      when 'executed' then case when s.executions > 0 then 1 else 0 end
      when 'expired' then case when s.status = 'EXPIRED' then 1 else 0 end
      when 'cancelled' then case when s.status = 'CANCELLED' then 1 else 0 end
      when 'diverged' then case when s.status = 'DIVERGED' then 1 else 0 end
      when 'retried' then case when s.attempts > 0 then 1 else 0 end
      when 'retries' then coalesce(s.attempts, 0)
      when 'failures' then s.failures
      when 'receipts' then s.receipts
      when 'late_receipts' then s.late_receipts
      when 'duplicates' then s.duplicates
      when 'delivered' then case when s.delivered is not null then 1 else 0 end
      when 'quorum' then case when s.quorum_after is not null then 1 else 0 end
      when 'executed_after' then case when s.executed_after is not null then 1 else 0 end
      when 'nonce' then case when s.nonce is null then 0 when x.step = 0 then 1 else -1 end
      when 'gmp_first' then case when s.place = 1 then 1 else 0 end
      when 'gmp_late' then s.late
      when 'gmp_lead' then case when s.place = 1 and s.lead_time is not null then 1 else 0 end
      when 'gmp_latency' then 1
    end as bigint) as number
  from summed s
  -- What is of a message counts with its first receipt, or with none.
  join measures x on (s.place = 1 and x.scope <> 'gmp') or (s.gmp is not null and x.scope = 'gmp')
)
select measure, source_chain, source_router, destination_chain, day, gmp, value, sum(number) as number
from (
  select * from counted where number <> 0
  union all
  select measure, source_chain, source_router, destination_chain, day, gmp, value, number from $before
) together
group by measure, source_chain, source_router, destination_chain, day, gmp, value
having sum(number) <> 0
