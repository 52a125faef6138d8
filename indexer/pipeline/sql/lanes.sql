-- One row per lane and day (UTC) on which messages were created. The columns are those of schemas.LANES. Percentiles are of the
-- nearest rank.
with days as (
  select
    m.source_chain, m.destination_chain, $created_day as day,
    count(*) as messages,
    count(case when m.executions > 0 then 1 end) as executed,
    count(case m.status when 'EXPIRED' then 1 end) as expired,
    count(case m.status when 'CANCELLED' then 1 end) as cancelled,
    count(case m.status when 'DIVERGED' then 1 end) as diverged,
    count(case when m.attempts > 0 then 1 end) as retried,
    sum(coalesce(m.attempts, 0)) as retries,
    sum(m.failures) as failures,
    sum(m.duplicates) as duplicates,
    percentile_disc(0.50) within group (order by m.executed_time - m.source_time) as executed_p50,
    percentile_disc(0.95) within group (order by m.executed_time - m.source_time) as executed_p95,
    percentile_disc(0.99) within group (order by m.executed_time - m.source_time) as executed_p99
  from $messages m
  where m.source_block is not null
  group by m.source_chain, m.destination_chain, $created_day
),
arrived as (
  select
    source_chain, destination_chain, day,
    count(*) as receipts,
    count(case when late then 1 end) as late_receipts,
    percentile_disc(0.50) within group (order by case place when 1 then delivered end) as delivered_p50,
    percentile_disc(0.95) within group (order by case place when 1 then delivered end) as delivered_p95,
    percentile_disc(0.99) within group (order by case place when 1 then delivered end) as delivered_p99
  from $deliveries
  group by source_chain, destination_chain, day
)
select
  d.source_chain, d.destination_chain, d.day, d.messages, d.executed, d.expired, d.cancelled, d.diverged, d.retried, d.retries,
  d.failures, coalesce(a.receipts, 0) as receipts, coalesce(a.late_receipts, 0) as late_receipts, d.duplicates,
  a.delivered_p50, a.delivered_p95, a.delivered_p99, d.executed_p50, d.executed_p95, d.executed_p99
from days d
left join arrived a on a.source_chain = d.source_chain and a.destination_chain = d.destination_chain and a.day = d.day
