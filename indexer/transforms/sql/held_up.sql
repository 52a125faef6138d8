-- Messages with the seconds for which pauses held them up: since the last attempt, until execution, until expiry. For Spark;
-- `indexer.transforms.queries.paused` is the same for engines that look up one message at a time.
select m.*,
  coalesce(h.lane_paused, 0) as lane_paused,
  coalesce(h.executed_paused, 0) as executed_paused,
  coalesce(h.expired_paused, 0) as expired_paused
from $messages m
left join (
  select
    m.message_id,
    sum(case when p.kind = 'lane' and p.ends > m.attempted_time and p.begins < d.block_time
      then least(p.ends, d.block_time) - greatest(p.begins, m.attempted_time) end) as lane_paused,
    sum(case when p.kind = 'clock' and p.ends > m.sent_at and p.begins < m.executed_time
      then least(p.ends, m.executed_time) - greatest(p.begins, m.sent_at) end) as executed_paused,
    sum(case when p.kind = 'clock' and p.ends > m.sent_at and p.begins < m.expired_time
      then least(p.ends, m.expired_time) - greatest(p.begins, m.sent_at) end) as expired_paused
  from $messages m
  join $pauses p on p.chain_id = m.destination_chain and p.other_chain in (0, m.source_chain)
  left join $chains d on d.chain_id = m.destination_chain
  group by m.message_id
) h on h.message_id = m.message_id
