-- One row per lane and stage: how long messages took from the route to it, in seconds of block time, nearest rank. The columns
-- are those of schemas.LATENCIES. `attested` is the proof of the delivery that came first, by the relayer's clock; `quorum` the
-- receipt with which there were as many as the message needed. `attested` is left out where no relayer was asked, and `final`
-- is there for every lane with executions, even if it is known of none.
with ordered as (
  select d.*, row_number() over (partition by message_id order by received_time, gmp) as place
  from $deliveries d
),
travelled as (
  select
    message_id, source_chain, destination_chain, source_time,
    max(case when place = 1 then gmp end) as first_gmp,
    min(received_time) - source_time as delivered,
    max(case when place = quorum then received_time end) - source_time as quorum,
    max(executed_time) - source_time as executed,
    case when max(executed_time) is not null then max(final_time) end - source_time as final
  from ordered
  group by message_id, source_chain, destination_chain, source_time
),
timed as (
  select
    t.*,
    -- Two clocks: the chain's may be ahead of the relayer's.
    case when a.attested_at < t.source_time then 0 else a.attested_at - t.source_time end as attested
  from travelled t
  left join $attested a on a.message_id = t.message_id and a.gmp = t.first_gmp
),
stages as (
  select 'attested' as stage, 1 as place union all select 'delivered', 2 union all select 'quorum', 3
  union all select 'executed', 4 union all select 'final', 5
),
long as (
  select
    t.source_chain, t.destination_chain, s.stage, t.executed,
    case s.stage
      when 'attested' then t.attested when 'delivered' then t.delivered when 'quorum' then t.quorum
      when 'executed' then t.executed else t.final
    end as seconds
  from timed t cross join stages s
)
select
  source_chain, destination_chain, stage,
  count(seconds) as messages,
  percentile_disc(0.50) within group (order by seconds) as p50,
  percentile_disc(0.95) within group (order by seconds) as p95,
  percentile_disc(0.99) within group (order by seconds) as p99
from long
group by source_chain, destination_chain, stage
having count(seconds) > 0 or (stage = 'final' and count(executed) > 0) or (stage = 'attested' and $asked)
