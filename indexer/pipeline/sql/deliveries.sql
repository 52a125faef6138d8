-- One row per receipt of a message whose creation is known: how long it took, and which place it took among those of its message.
select
  m.message_id, m.source_chain, m.destination_chain, $created_day as day, m.quorum, m.source_time, r.gmp,
  r.received_time - m.source_time as delivered,
  -- A receipt of a GMP that no attempt names counts from the creation.
  r.received_time - coalesce(r.dispatched_time, m.source_time) as latency,
  coalesce(
    r.received_block > m.executed_block or (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index),
    false
  ) as late,
  row_number() over (partition by m.message_id order by r.received_time, r.gmp) as place,
  lead(r.received_time) over (partition by m.message_id order by r.received_time, r.gmp) - r.received_time as lead_time
from $messages m
join $receipts r on r.message_id = m.message_id
where m.source_block is not null and r.received_block is not null
