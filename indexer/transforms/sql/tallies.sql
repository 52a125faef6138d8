-- What totals are made of: for each measure, how many messages or receipts have a value, or what they add up to. The columns
-- are those of schemas.TALLIES. A `sign` of -1 stands for rows that others replace: what they had counted is taken away, so a
-- run adds what is new to the tallies `before`. For Spark and DuckDB, like all that is made of it.
--
-- messages … duplicates   by lane and day: numbers
-- delivered, quorum, executed_after   by lane and day: messages by seconds from the route to it; `quorum` is the receipt with
--   which there were as many as the message needed
-- nonce    by lane and router: how many more messages have the next nonce than this one; with each nonce once, two rows
-- gmp_first, gmp_late, gmp_lead, gmp_latency   by GMP: receipts, the last two by seconds
--
-- Each part reads the messages itself: DuckDB would hold a common table expression of them that several parts use in memory.
with received as (
  select
    m.sign, m.source_chain, m.destination_chain, $created_day as day, m.quorum, r.gmp,
    r.received_time - m.source_time as delivered,
    -- A receipt of a GMP that no attempt names counts from the creation.
    r.received_time - coalesce(r.dispatched_time, m.source_time) as latency,
    r.received_block > m.executed_block
      or (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index) as late,
    row_number() over (partition by m.sign, m.message_id order by r.received_time, r.gmp) as place,
    lead(r.received_time) over (partition by m.sign, m.message_id order by r.received_time, r.gmp) - r.received_time as lead_time
  from $messages m
  join (select * from $receipts one where one.received_block is not null) r
    on r.message_id = m.message_id and r.sign = m.sign
  where m.source_block is not null
),
-- Numbers of messages are added up first: a row of each measure for each message would be most of the work.
days as (
  select
    m.source_chain, m.destination_chain, $created_day as day,
    sum(sign) as messages,
    sum(case when executions > 0 then sign else 0 end) as executed,
    sum(case status when 'EXPIRED' then sign else 0 end) as expired,
    sum(case status when 'CANCELLED' then sign else 0 end) as cancelled,
    sum(case status when 'DIVERGED' then sign else 0 end) as diverged,
    sum(case when attempts > 0 then sign else 0 end) as retried,
    sum(sign * coalesce(attempts, 0)) as retries,
    sum(sign * failures) as failures,
    sum(sign * duplicates) as duplicates
  from $messages m
  where m.source_block is not null
  group by m.source_chain, m.destination_chain, $created_day
),
-- Nearly all steps between nonces cancel each other. With the other measures they would not fit into DuckDB's memory.
steps as (
  select
    m.source_chain, m.source_router, m.destination_chain, m.nonce - 1 + x.step as value, sum(m.sign * x.number) as number
  from $messages m
  cross join (values (0, 1), (1, -1)) as x(step, number)
  where m.source_block is not null and m.nonce is not null
  group by m.source_chain, m.source_router, m.destination_chain, m.nonce - 1 + x.step
  having sum(m.sign * x.number) <> 0
),
counted as (
  select
    x.measure, d.source_chain, null as source_router, d.destination_chain, d.day, null as gmp, null as value,
    case x.measure
      when 'messages' then d.messages
      when 'executed' then d.executed
      when 'expired' then d.expired
      when 'cancelled' then d.cancelled
      when 'diverged' then d.diverged
      when 'retried' then d.retried
      when 'retries' then d.retries
      when 'failures' then d.failures
      when 'duplicates' then d.duplicates
    end as number
  from days d
  cross join (
    values ('messages'), ('executed'), ('expired'), ('cancelled'), ('diverged'), ('retried'), ('retries'), ('failures'), ('duplicates')
  ) as x(measure)
  union all
  select 'executed_after', source_chain, null, destination_chain, $created_day, null, executed_time - source_time, sign
  from $messages m
  where m.source_block is not null and executed_time is not null
  union all
  select 'nonce', source_chain, source_router, destination_chain, null, null, value, number from steps
  union all
  select
    x.measure,
    case x.scope when 'day' then r.source_chain end,
    null,
    case x.scope when 'day' then r.destination_chain end,
    case x.scope when 'day' then r.day end,
    case x.scope when 'gmp' then r.gmp end,
    case x.measure
      when 'delivered' then r.delivered
      when 'quorum' then r.delivered
      when 'gmp_lead' then r.lead_time
      when 'gmp_latency' then r.latency
    end,
    r.sign
  from received r
  cross join (
    values ('receipts', 'day'), ('late_receipts', 'day'), ('delivered', 'day'), ('quorum', 'day'),
      ('gmp_first', 'gmp'), ('gmp_late', 'gmp'), ('gmp_lead', 'gmp'), ('gmp_latency', 'gmp')
  ) as x(measure, scope)
  where
    case x.measure
      when 'delivered' then r.place = 1
      when 'quorum' then r.place = r.quorum
      when 'gmp_first' then r.place = 1
      when 'gmp_lead' then r.place = 1 and r.lead_time is not null
      when 'late_receipts' then r.late
      when 'gmp_late' then r.late
      else true
    end
)
select measure, source_chain, source_router, destination_chain, day, gmp, value, sum(number) as number
from (
  select * from counted where number <> 0
  union all
  select measure, source_chain, source_router, destination_chain, day, gmp, value, number from $before
) together
group by measure, source_chain, source_router, destination_chain, day, gmp, value
having sum(number) <> 0
