-- One row per GMP: what it contributed. The columns are those of schemas.REDUNDANCY.
select
  gmp,
  count(*) as receipts,
  count(case place when 1 then 1 end) as came_first,
  percentile(case place when 1 then lead_time end, 0.5) as lead_p50,
  count(case when late then 1 end) as late_receipts,
  percentile_disc(0.50) within group (order by latency) as latency_p50,
  percentile_disc(0.95) within group (order by latency) as latency_p95
from $deliveries
group by gmp
