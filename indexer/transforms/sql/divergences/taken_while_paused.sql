-- A router takes no delivery over a lane or GMP that it has paused, and executes nothing that came over such a lane.
select 'TAKEN_WHILE_PAUSED' as kind, t.message_id, t.source_chain, t.chain_id as destination_chain,
  t.what || ' in block ' || cast(t.block_number as $text) || ' at ' || cast(t.block_time as $text) || ', while '
    || case p.event when 'GmpPauseSet' then 'the GMP' else 'the lane' end || ' was paused until ' || cast(p.until as $text)
    as evidence
from (
  select m.message_id, m.source_chain, r.gmp, 'received from GMP ' || cast(r.gmp as $text) as what, r.received_chain as chain_id,
    r.received_block as block_number, r.received_log_index as log_index, r.received_time as block_time
  from $receipts r
  join $messages m on m.message_id = r.message_id
  where r.received_block is not null and exists (select 1 from ($periods) any_pause where any_pause.until is not null)
  union all
  select m.message_id, m.source_chain, null, 'executed', m.executed_chain, m.executed_block, m.executed_log_index, m.executed_time
  from $messages m
  where m.executions > 0 and exists (select 1 from ($periods) any_pause where any_pause.until is not null)
) t
join ($periods) p on p.chain_id = t.chain_id
  and ((p.event = 'GmpPauseSet' and p.gmp = t.gmp) or (p.event = 'LanePauseSet' and p.chain = t.source_chain))
  and p.begins < t.block_number * 1000000 + t.log_index
  and (p.ends is null or p.ends > t.block_number * 1000000 + t.log_index)
  and p.until > t.block_time
