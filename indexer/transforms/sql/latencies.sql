-- One row per lane and stage: how long messages took from the route to it, in seconds of block time, nearest rank. The columns
-- are those of schemas.LATENCIES. `attested` is the attestation of the delivery that came first, by the relayer's clock. It is left
-- out where no relayer was asked, and `final` is there for every lane with executions, even if it is known of none. Neither
-- follows from events, so both are looked up each time.
with lasted as (
  select
    source_chain, destination_chain, case measure when 'executed_after' then 'executed' else measure end as stage,
    value as seconds, number
  from $tallies t
  where t.measure in ('delivered', 'quorum', 'executed_after')
  union all
  select distinct source_chain, destination_chain, 'final', cast(null as bigint), cast(0 as bigint)
  from $tallies t
  where t.measure = 'executed_after'
  union all
  select m.source_chain, m.destination_chain, 'final', f.final_time - m.source_time, count(*)
  from $final_times f
  join $messages m on m.destination_chain = f.chain_id and m.executed_block = f.block_number
  where m.source_time is not null
  group by m.source_chain, m.destination_chain, f.final_time - m.source_time
  union all
  select distinct source_chain, destination_chain, 'attested', cast(null as bigint), cast(0 as bigint)
  from $tallies t
  where t.measure = 'delivered' and $asked
  union all
  select
    m.source_chain, m.destination_chain, 'attested',
    -- Two clocks: the chain's may be ahead of the relayer's.
    case when a.attested_at < m.source_time then 0 else a.attested_at - m.source_time end, cast(1 as bigint)
  from (
    select r.message_id, r.gmp, row_number() over (partition by r.message_id order by r.received_time, r.gmp) as place
    from $receipts r
    where r.received_block is not null and r.message_id in (select message_id from $attested)
  ) first_receipts
  join $attested a on a.message_id = first_receipts.message_id and a.gmp = first_receipts.gmp
  join $messages m on m.message_id = first_receipts.message_id
  where first_receipts.place = 1 and m.source_time is not null
)
select
  source_chain, destination_chain, stage,
  sum(number) as messages,
  min(case when so_far * 100 >= total * 50 then seconds end) as p50,
  min(case when so_far * 100 >= total * 95 then seconds end) as p95,
  min(case when so_far * 100 >= total * 99 then seconds end) as p99
from (
  select
    l.*,
    sum(number) over (partition by source_chain, destination_chain, stage order by seconds) as so_far,
    sum(number) over (partition by source_chain, destination_chain, stage) as total
  from lasted l
) ranked
group by source_chain, destination_chain, stage
