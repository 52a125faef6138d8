-- One row per GMP: what it contributed. The columns are those of schemas.REDUNDANCY.
select
  gmp,
  sum(case measure when 'gmp_latency' then number else 0 end) as receipts,
  sum(case measure when 'gmp_first' then number else 0 end) as came_first,
  -- The median: of an even number, the mean of the two in the middle.
  (cast(min(case when measure = 'gmp_lead' and so_far * 2 >= total then value end) as double)
    + min(case when measure = 'gmp_lead' and so_far * 2 > total then value end)) / 2 as lead_p50,
  sum(case measure when 'gmp_late' then number else 0 end) as late_receipts,
  min(case when measure = 'gmp_latency' and so_far * 100 >= total * 50 then value end) as latency_p50,
  min(case when measure = 'gmp_latency' and so_far * 100 >= total * 95 then value end) as latency_p95
from (
  select
    t.*,
    sum(number) over (partition by gmp, measure order by value) as so_far,
    sum(number) over (partition by gmp, measure) as total
  from $tallies t
  where t.gmp is not null
) ranked
group by gmp
