-- One row per lane and day (UTC) on which messages were created. The columns are those of schemas.LANES. For Spark and DuckDB,
-- which have percentiles: `percentile_disc` takes the nearest rank, as `indexer.store.analytics.percentile` does.
with arrived as (
  select
    r.message_id,
    count(*) as receipts,
    count(case when m.executions > 0 and (
      r.received_block > m.executed_block
      or (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index)
    ) then 1 end) as late
  from $receipts r
  join $messages m on m.message_id = r.message_id
  where r.received_block is not null
  group by r.message_id
)
select
  m.source_chain,
  m.destination_chain,
  date '1970-01-01' + cast(floor(m.source_time / 86400) as int) as day,
  count(*) as messages,
  count(case when m.executions > 0 then 1 end) as executed,
  count(case when m.status = 'EXPIRED' then 1 end) as expired,
  count(case when m.status = 'CANCELLED' then 1 end) as cancelled,
  count(case when m.status = 'DIVERGED' then 1 end) as diverged,
  count(case when m.attempts > 0 then 1 end) as retried,
  sum(coalesce(m.attempts, 0)) as retries,
  sum(m.failures) as failures,
  sum(coalesce(a.receipts, 0)) as receipts,
  sum(coalesce(a.late, 0)) as late_receipts,
  sum(m.duplicates) as duplicates,
  percentile_disc(0.50) within group (order by m.received_time - m.source_time) as delivered_p50,
  percentile_disc(0.95) within group (order by m.received_time - m.source_time) as delivered_p95,
  percentile_disc(0.99) within group (order by m.received_time - m.source_time) as delivered_p99,
  percentile_disc(0.50) within group (order by m.executed_time - m.source_time) as executed_p50,
  percentile_disc(0.95) within group (order by m.executed_time - m.source_time) as executed_p95,
  percentile_disc(0.99) within group (order by m.executed_time - m.source_time) as executed_p99
from $messages m
left join arrived a on a.message_id = m.message_id
where m.source_block is not null
group by 1, 2, 3
order by 1, 2, 3
