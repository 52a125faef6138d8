-- Messages with what time adds to their status. A message is STALLED only if its destination was read to beyond the
-- deadline, and recently; where a chain is not indexed, or too far behind to judge by, it is UNKNOWN. Pauses of
-- the lane put the deadline off, and never the expiry. Receipts count
-- by the rules of the destination's router as they are now (`counts.sql`), for ended messages as they were then; a message with fewer
-- receipts than any rule asks for is not looked up. A receipt or an end without a creation on a source that was read past it is
-- DIVERGED, but for an end that honest routers let anybody make. So is an outcome reported to the source that a destination
-- which was read past the report does not show. Until it was read so far, the report counts.
select
  m.*,
  m.attempted_time + coalesce(l.seconds, :stall_after) * $patience + $lane_paused as deadline,
  coalesce($counted, m.receipts) as counted,
  coalesce($needed, m.quorum) as needed,
  case
    when m.source_block is null and (m.received <> 0 or m.executions > 0 or m.cancelled_unasked)
      and s.block_time > coalesce(m.received_time, m.executed_time, m.cancelled_time) + :max_lag then 'DIVERGED'
    when m.status in ('EXECUTED', 'EXPIRED', 'CANCELLED', 'DIVERGED', 'UNKNOWN') then m.status
    when m.outcome is not null and d.block_time > m.outcome_time + :max_lag then 'DIVERGED'
    when m.outcome is not null then case m.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED' else 'DIVERGED' end
    when m.status = 'UNFUNDED' and s.block_time is not null then m.status
    when d.block_time is null or s.block_time is null then 'UNKNOWN'
    when m.ttl > 0 and d.block_time > m.sent_at + m.ttl then 'EXPIRED'
    when m.status in ('EXECUTION_FAILED', 'EXECUTION_DEFERRED') and (
      d.block_time < m.attempted_time + coalesce(l.seconds, :stall_after) * $patience + $lane_paused
      or $received_count >= case when m.asked_quorum < m.quorum then m.asked_quorum else m.quorum end
        and coalesce($counted, m.receipts) >= coalesce($needed, m.quorum)
    ) then m.status
    when :now - d.block_time > :max_lag or :now - s.block_time > :max_lag then 'UNKNOWN'
    when m.cancellation_id is not null or d.block_time < m.attempted_time + coalesce(l.seconds, :stall_after) * $patience + $lane_paused then m.status
    when $received_count >= case when m.asked_quorum < m.quorum then m.asked_quorum else m.quorum end
      and coalesce($counted, m.receipts) >= coalesce($needed, m.quorum) then m.status
    else 'STALLED'
  end as effective_status
from $messages m
left join $chains d on d.chain_id = m.destination_chain
left join $chains s on s.chain_id = m.source_chain
left join $limits l on l.source_chain = m.source_chain and l.destination_chain = m.destination_chain and l.kind = m.kind
