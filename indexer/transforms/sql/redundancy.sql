-- One row per GMP: what it contributed. The columns are those of schemas.REDUNDANCY.
with ordered as (
  select
    d.*,
    row_number() over (partition by message_id order by received_time, gmp) as place,
    lead(received_time) over (partition by message_id order by received_time, gmp) as next_time
  from $deliveries d
)
select
  gmp,
  count(*) as receipts,
  count(case when place = 1 then 1 end) as came_first,
  median(case when place = 1 then next_time - received_time end) as lead_p50,
  count(case when was_late then 1 end) as late_receipts,
  percentile_disc(0.50) within group (order by received_time - dispatched_time) as latency_p50,
  percentile_disc(0.95) within group (order by received_time - dispatched_time) as latency_p95
from ordered
group by gmp
