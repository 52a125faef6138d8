-- Facts that contradict one another on the chains. None is to be expected. The columns are those of schemas.DIVERGENCES; what
-- each kind means, and what to do about it, stands in indexer/divergences.py.
select 'EXECUTED_TWICE' as kind, m.message_id, m.source_chain, m.destination_chain,
  'executions on the destination: ' || cast(m.executions as $text) as evidence
from $messages m where m.executions > 1
union all
select 'PAYLOAD_DIFFERS', m.message_id, m.source_chain, m.destination_chain,
  'source, receipts and execution do not all name the same payload hash'
from $messages m where m.payload_differs
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
select 'EXECUTED_AFTER_EXPIRY', m.message_id, m.source_chain, m.destination_chain,
  'executed at ' || cast(m.executed_time as $text) || ', sent at ' || cast(m.sent_at as $text) || ' with a ttl of '
    || cast(m.ttl as $text) || ' s, paused for ' || cast($executed_paused as $text) || ' s'
from $messages m
where m.ttl > 0 and m.executions > 0 and m.executed_time > m.sent_at + m.ttl
  and m.executed_time > m.sent_at + m.ttl + $executed_paused
union all
select 'RECEIPT_WITHOUT_CREATION', m.message_id, m.source_chain, m.destination_chain,
  'received on the destination, but never routed on its source, which was read to a later time'
from $messages m
join $chains s on s.chain_id = m.source_chain
where m.source_block is null and s.block_time > m.received_time + :max_lag
union all
-- A GMP can deliver only what it was given: one that the source never handed the message to has made it up.
select 'RECEIPT_OVER_UNUSED_GMP', m.message_id, m.source_chain, m.destination_chain,
  'GMPs that delivered: bits ' || cast(m.received as $text) || ', GMPs that took it: bits ' || cast(m.dispatched as $text)
from $messages m
join $chains s on s.chain_id = m.source_chain
-- The plus keeps SQLite from going through all that were created: the few that it looks for have an index of their own.
where (m.received & ~m.dispatched) <> 0 and +m.source_block is not null and s.block_time > m.received_time + :max_lag
union all
select 'RECEIPT_FROM_UNREGISTERED_ADAPTER', r.message_id, m.source_chain, r.received_chain,
  'GMP ' || cast(r.gmp as $text) || ' had no adapter at block ' || cast(r.received_block as $text)
from $receipts r
join $messages m on m.message_id = r.message_id
where r.received_block is not null and r.received_chain in (select known.chain_id from $adapters known)
  and not exists (
    -- From each registration to the next one of the same GMP; a revocation begins a time without an adapter.
    select 1
    from (
      select a.chain_id, a.gmp, a.event, a.block_number * 1000000 + a.log_index as begins,
        lead(a.block_number * 1000000 + a.log_index) over (
          partition by a.chain_id, a.gmp order by a.block_number, a.log_index
        ) as ends
      from $adapters a
    ) p
    where p.chain_id = r.received_chain and p.gmp = r.gmp and p.event <> 'AdapterRevoked'
      and p.begins < r.received_block * 1000000 + r.received_log_index
      and (p.ends is null or p.ends > r.received_block * 1000000 + r.received_log_index)
  )
union all
-- First by nonce: an index has them in that order, and nothing has to be sorted.
select 'NONCE_GAP', null, m.source_chain, m.destination_chain,
  'messages of the lane: ' || cast(sum(m.messages) + $pruned as $text) || ', different nonces: ' || cast(count(m.nonce) as $text)
    || ', highest nonce: ' || cast(max(m.nonce) as $text)
from (
  select created.source_chain, created.source_router, created.destination_chain, created.nonce, count(*) as messages
  from $messages created
  where created.source_block is not null
  group by created.source_chain, created.source_router, created.destination_chain, created.nonce
) m
group by m.source_chain, m.source_router, m.destination_chain
having sum(m.messages) + $pruned <> max(m.nonce) or count(m.nonce) <> sum(m.messages)
union all
select 'SILENT', m.message_id, m.source_chain, m.destination_chain,
  'final on the source, and no GMP has delivered it ' || cast(d.block_time - m.attempted_time as $text) || ' s after its last attempt'
from $messages m
join $chains s on s.chain_id = m.source_chain
join $chains d on d.chain_id = m.destination_chain
where m.status = 'ROUTED' and m.attempted_block <= s.final_block and m.cancellation_id is null
  and d.block_time - m.attempted_time > :silence_after and (m.ttl = 0 or d.block_time <= m.sent_at + m.ttl)
union all
-- One transaction that sends the same payload to several chains means the same state on all of them.
select 'FAN_OUT_DIFFERS', min(m.message_id), m.source_chain, null,
  'of ' || cast(count(*) as $text) || ' messages with the same payload ' || cast(sum(case m.status when 'EXECUTED' then 1 else 0 end) as $text)
    || ' were executed, and ' || cast(sum(case when m.status in ('EXPIRED', 'CANCELLED') then 1 else 0 end) as $text) || ' never will be'
from $fan_outs m
join (
  select source_chain, source_transaction from $fan_outs f group by source_chain, source_transaction having count(*) > 1
) several on several.source_chain = m.source_chain and several.source_transaction = m.source_transaction
where m.source_block is not null
group by m.source_chain, m.source_transaction, m.sender, m.payload_hash
having count(distinct m.destination_chain) > 1 and sum(case m.status when 'EXECUTED' then 1 else 0 end) > 0
  and sum(case when m.status in ('EXPIRED', 'CANCELLED') then 1 else 0 end) > 0
union all
select 'OUTCOME_DIFFERS', m.message_id, m.source_chain, m.destination_chain,
  'reported to the source: ' || case m.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED' else cast(m.outcome as $text) end
    || ', on the destination: ' || case when m.executions > 0 then 'EXECUTED' else m.status end
from $messages m
where m.contradicted
union all
select 'OUTCOME_DIFFERS', m.message_id, m.source_chain, m.destination_chain,
  'reported to the source: ' || case m.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED' else cast(m.outcome as $text) end
    || ', on the destination: ' || case when m.executions > 0 then 'EXECUTED' else m.status end
from $messages m
where not m.contradicted and m.outcome is not null and m.status <> 'DIVERGED'
  and m.status <> case m.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED' end
