-- One row per lane and day (UTC) on which messages were created. The columns are those of schemas.LANES. Percentiles are of the
-- nearest rank, as `indexer.store.analytics.percentile` has them.
select
  source_chain,
  destination_chain,
  day,
  sum(case measure when 'messages' then number else 0 end) as messages,
  sum(case measure when 'executed' then number else 0 end) as executed,
  sum(case measure when 'expired' then number else 0 end) as expired,
  sum(case measure when 'cancelled' then number else 0 end) as cancelled,
  sum(case measure when 'diverged' then number else 0 end) as diverged,
  sum(case measure when 'retried' then number else 0 end) as retried,
  sum(case measure when 'retries' then number else 0 end) as retries,
  sum(case measure when 'failures' then number else 0 end) as failures,
  sum(case measure when 'receipts' then number else 0 end) as receipts,
  sum(case measure when 'late_receipts' then number else 0 end) as late_receipts,
  sum(case measure when 'duplicates' then number else 0 end) as duplicates,
  min(case when measure = 'delivered' and so_far * 100 >= total * 50 then value end) as delivered_p50,
  min(case when measure = 'delivered' and so_far * 100 >= total * 95 then value end) as delivered_p95,
  min(case when measure = 'delivered' and so_far * 100 >= total * 99 then value end) as delivered_p99,
  min(case when measure = 'executed_after' and so_far * 100 >= total * 50 then value end) as executed_p50,
  min(case when measure = 'executed_after' and so_far * 100 >= total * 95 then value end) as executed_p95,
  min(case when measure = 'executed_after' and so_far * 100 >= total * 99 then value end) as executed_p99
from (
  select
    t.*,
    sum(number) over (partition by source_chain, destination_chain, day, measure order by value) as so_far,
    sum(number) over (partition by source_chain, destination_chain, day, measure) as total
  from $tallies t
  where t.day is not null
) ranked
group by source_chain, destination_chain, day
