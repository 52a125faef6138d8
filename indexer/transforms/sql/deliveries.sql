-- One row per receipt of a message whose source is known, with what tells how soon it came. The columns are those of
-- schemas.DELIVERIES. For Spark and DuckDB, like all that is made of it.
select
  r.message_id, m.source_chain, m.destination_chain, r.gmp, m.quorum, m.source_time,
  -- A receipt of a GMP that no attempt names counts from the creation.
  coalesce(r.dispatched_time, m.source_time) as dispatched_time, r.received_time, m.executed_time,
  f.final_time,
  coalesce(r.received_block > m.executed_block
    or (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index), false) as was_late
from $receipts r
join $messages m on m.message_id = r.message_id
left join $final_times f on f.chain_id = m.destination_chain and f.block_number = m.executed_block
where r.received_time is not null and m.source_time is not null
