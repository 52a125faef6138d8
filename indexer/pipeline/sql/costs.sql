-- One row per lane and GMP: what the relayer paid for deliveries. The columns are those of schemas.COSTS. For Spark and DuckDB.
select
  m.source_chain, m.destination_chain, p.gmp,
  count(*) as messages,
  sum(p.gwei) as gwei,
  percentile_disc(0.50) within group (order by p.gwei) as gwei_p50,
  percentile_disc(0.95) within group (order by p.gwei) as gwei_p95,
  sum(case
    when r.received_block > m.executed_block
      or (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index) then p.gwei
    else 0
  end) as late_gwei
from $paid p
join $messages m on m.message_id = p.message_id
left join $receipts r on r.message_id = p.message_id and r.gmp = p.gmp
group by m.source_chain, m.destination_chain, p.gmp
