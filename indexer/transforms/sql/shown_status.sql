-- Messages with what time adds to their status. A message is STALLED only if its destination was read to beyond the
-- deadline, and recently; where a chain is not indexed, or too far behind to judge by, it is UNKNOWN.
select
  m.*,
  m.attempted_time + :stall_after as deadline,
  case
    when m.status in ('EXECUTED', 'EXPIRED', 'CANCELLED', 'DIVERGED', 'UNKNOWN') then m.status
    when d.block_time is null or s.block_time is null then 'UNKNOWN'
    when m.ttl > 0 and d.block_time > m.sent_at + m.ttl then 'EXPIRED'
    when m.status in ('EXECUTION_FAILED', 'EXECUTION_DEFERRED') then m.status
    when :now - d.block_time > :max_lag or :now - s.block_time > :max_lag then 'UNKNOWN'
    when m.receipts >= m.quorum then m.status
    when d.block_time >= m.attempted_time + :stall_after then 'STALLED'
    else m.status
  end as shown_status
from $messages m
left join $chains d on d.chain_id = m.destination_chain
left join $chains s on s.chain_id = m.source_chain
