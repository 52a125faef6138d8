-- Facts that contradict one another on the two chains. None is to be expected. The columns are those of schemas.DIVERGENCES.
select 'EXECUTED_TWICE' as kind, message_id, source_chain, destination_chain,
  'executions on the destination: ' || cast(executions as $text) as evidence
from $messages where executions > 1
union all
select 'PAYLOAD_DIFFERS', message_id, source_chain, destination_chain,
  'source, receipts and execution do not all name the same payload hash'
from $messages where payload_differs
union all
select 'EXECUTED_WITHOUT_QUORUM', m.message_id, min(m.source_chain), min(m.destination_chain),
  'receipts before the execution: ' || cast(count(r.gmp) as $text) || ', quorum: ' || cast(min(m.quorum) as $text)
from $messages m
left join $receipts r on r.message_id = m.message_id
  and (r.received_block < m.executed_block
       or (r.received_block = m.executed_block and r.received_log_index < m.executed_log_index))
where m.executions > 0
group by m.message_id
having count(r.gmp) < min(m.quorum)
union all
select 'RECEIPT_WITHOUT_CREATION', m.message_id, m.source_chain, m.destination_chain,
  'received on the destination, but never routed on its source, which was read to a later time'
from $messages m
join $chains s on s.chain_id = m.source_chain
where m.source_block is null and s.block_time > m.received_time + :max_lag
union all
select 'NONCE_GAP', null, source_chain, destination_chain,
  'messages of the lane: ' || cast(count(*) as $text) || ', highest nonce: ' || cast(max(nonce) as $text)
from $messages
where source_block is not null
group by source_chain, source_router, destination_chain
having count(*) <> max(nonce) or count(distinct nonce) <> count(*)
