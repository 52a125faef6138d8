-- Facts that contradict one another on the chains. None is to be expected. The columns are those of schemas.DIVERGENCES; what
-- each kind means, and what to do about it, stands in indexer/model/divergences.py.
select 'EXECUTED_TWICE' as kind, m.message_id, m.source_chain, m.destination_chain,
  'executions on the destination: ' || cast(m.executions as $text) as evidence
from $messages m where m.executions > 1
union all
select k.kind, m.message_id, m.source_chain, m.destination_chain,
  k.evidence || coalesce('; created in block ' || cast(m.source_block as $text), '; never created')
    || coalesce('; receipts of ' || cast($received_count as $text) || ' GMPs, the router counts ' || cast(m.receipts as $text), '')
    || coalesce('; executed on chain ' || cast(m.executed_chain as $text) || ' in block ' || cast(m.executed_block as $text), '')
    || coalesce('; expired in block ' || cast(m.expired_block as $text) || ' at ' || cast(m.expired_time as $text), '')
    || coalesce('; sent at ' || cast(m.sent_at as $text) || ' with a ttl of ' || cast(m.ttl as $text) || ' s', '')
    || coalesce('; cancelled in block ' || cast(m.cancelled_block as $text), '')
    || coalesce('; reported at ' || cast(m.outcome_time as $text), '')
from $messages m
join ($conflict_kinds) k on (m.conflicts & k.bit) <> 0
where m.conflicts <> 0
union all
select 'PAYLOAD_DIFFERS', m.message_id, m.source_chain, m.destination_chain,
  'source, receipts and execution do not all name the same payload hash'
from $messages m where m.payload_differs
union all
select 'EXECUTED_WITHOUT_QUORUM', message_id, source_chain, destination_chain,
  'receipts that counted at the execution: ' || cast(counted as $text) || ', quorum: ' || cast(needed as $text)
from (
  select
    message_id, source_chain, destination_chain, counted,
    -- What was demanded then; where its rules are not known, the least that the router named. Never less than the sender asked for.
    case
      when coalesce(told, least_recorded) > asked_quorum then coalesce(told, least_recorded)
      else asked_quorum
    end as needed
  from (
    select
      m.message_id,
      min(m.source_chain) as source_chain,
      min(m.destination_chain) as destination_chain,
      min(coalesce(m.asked_quorum, m.quorum, 1)) as asked_quorum,
      count(distinct case when v.begins is null and (p.quorum is null or p.quorum = 0 or (p.gmps & g.bit) <> 0) then r.gmp end)
        as counted,
      min(case when v.begins is null then r.quorum end) as least_recorded,
      min(case when p.quorum > 0 then p.quorum else coalesce(f.quorum, p.quorum) end) as told
    from (
      -- Most executions are above suspicion by what an index alone tells: as many receipts before as were ever asked for.
      select few.message_id
      from $messages few
      left join $receipts before on before.message_id = few.message_id
        and (before.received_block < few.executed_block
             or (before.received_block = few.executed_block and before.received_log_index < few.executed_log_index))
      where few.executions > 0
      group by few.message_id
      having count(before.gmp) < min(coalesce(few.quorum, 1)) or count(before.gmp) < min(few.asked_quorum)
      union
      -- The others: those with receipts that a revocation voided, and those whose recipient has rules of its own.
      select voided.message_id
      from ($periods) revoked
      join $receipts voided on voided.received_chain = revoked.chain_id and voided.gmp = revoked.gmp
      where revoked.event = 'AdapterRevoked' and voided.received_block * 1000000 + voided.received_log_index < revoked.begins
      union
      select governed.message_id
      from (select distinct chain_id, chain, recipient from ($periods) rule where event = 'PolicySet') policy
      join $messages governed on governed.recipient = policy.recipient and governed.source_chain = policy.chain
        and governed.destination_chain = policy.chain_id
    ) suspects
    join $messages m on m.message_id = suspects.message_id
    left join $receipts r on r.message_id = m.message_id
      and (r.received_block < m.executed_block
           or (r.received_block = m.executed_block and r.received_log_index < m.executed_log_index))
    left join ($gmps) g on g.number = r.gmp
    -- Voided before the execution, unless the GMP has delivered again before it, too.
    left join ($periods) v on v.event = 'AdapterRevoked' and v.chain_id = r.received_chain and v.gmp = r.gmp
      and v.begins < m.executed_block * 1000000 + m.executed_log_index
      and v.begins > case
        when r.last_received_block * 1000000 + r.last_received_log_index < m.executed_block * 1000000 + m.executed_log_index
        then r.last_received_block * 1000000 + r.last_received_log_index
        else r.received_block * 1000000 + r.received_log_index
      end
    left join ($periods) p on p.event = 'PolicySet' and p.chain_id = m.destination_chain and p.chain = m.source_chain
      and p.recipient = m.recipient and m.kind < 11 and p.begins < m.executed_block * 1000000 + m.executed_log_index
      and (p.ends is null or p.ends > m.executed_block * 1000000 + m.executed_log_index)
    left join ($periods) f on f.event = 'FloorSet' and f.chain_id = m.destination_chain and f.chain = m.source_chain
      and m.kind < 11 and f.begins < m.executed_block * 1000000 + m.executed_log_index
      and (f.ends is null or f.ends > m.executed_block * 1000000 + m.executed_log_index)
    where m.executions > 0
    group by m.message_id
  ) judged
) weighed
where counted < needed
union all
select 'EXECUTED_AFTER_EXPIRY', m.message_id, m.source_chain, m.destination_chain,
  'executed at ' || cast(m.executed_time as $text) || ', sent at ' || cast(m.sent_at as $text) || ' with a ttl of '
    || cast(m.ttl as $text) || ' s, paused for ' || cast($executed_paused as $text) || ' s'
from $messages m
where m.ttl > 0 and m.executions > 0 and m.executed_time > m.sent_at + m.ttl
  and m.executed_time > m.sent_at + m.ttl + $executed_paused
union all
-- Without pauses its time would have been over; that it expired before even then is among the conflicts above.
select 'EXPIRED_TOO_EARLY', m.message_id, m.source_chain, m.destination_chain,
  'expired at ' || cast(m.expired_time as $text) || ', sent at ' || cast(m.sent_at as $text) || ' with a ttl of '
    || cast(m.ttl as $text) || ' s, paused for ' || cast($expired_paused as $text) || ' s'
from $messages m
where m.expired_time is not null and m.ttl > 0 and m.expired_time > m.sent_at + m.ttl
  and m.expired_time <= m.sent_at + m.ttl + $expired_paused
union all
select 'CANCELLED_WITHOUT_REQUEST', m.message_id, m.source_chain, m.destination_chain,
  'cancelled in block ' || cast(m.cancelled_block as $text) || ', and its source, which was read to a later time, has no request for that'
from $messages m
join $chains s on s.chain_id = m.source_chain
where m.cancelled_unasked and m.source_block is not null and s.block_time > m.cancelled_time + :max_lag
union all
select 'END_WITHOUT_CREATION', m.message_id, m.source_chain, m.destination_chain,
  'never created on its source, which was read to a later time'
    || coalesce('; executed on chain ' || cast(m.executed_chain as $text) || ' in block ' || cast(m.executed_block as $text), '')
    || coalesce('; expired in block ' || cast(m.expired_block as $text), '')
    || coalesce('; cancelled in block ' || cast(m.cancelled_block as $text), '')
from $messages m
join $chains s on s.chain_id = m.source_chain
where m.source_block is null and s.block_time > coalesce(m.executed_time, m.expired_time, m.cancelled_time) + :max_lag
union all
-- The router has to have taken a delivery before an adapter can absorb the next.
select 'DUPLICATE_WITHOUT_RECEIPT', r.message_id, m.source_chain, m.destination_chain,
  'GMP ' || cast(r.gmp as $text) || ' repeated, at ' || cast(r.last_duplicate_time as $text) || ', a delivery that the router never told of'
from $receipts r
join $messages m on m.message_id = r.message_id
where r.duplicates > 0 and r.received_block is null
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
where r.received_block is not null and r.received_chain in (
    select known.chain_id from $rules known where known.event in ('AdapterAdded', 'AdapterReplaced', 'AdapterRevoked')
  )
  and not exists (
    -- From each registration to the next one of the same GMP; a revocation begins a time without an adapter.
    select 1
    from (
      select a.chain_id, a.gmp, a.event, a.block_number * 1000000 + a.log_index as begins,
        lead(a.block_number * 1000000 + a.log_index) over (
          partition by a.chain_id, a.gmp order by a.block_number, a.log_index
        ) as ends
      from $rules a
      where a.event in ('AdapterAdded', 'AdapterReplaced', 'AdapterRevoked')
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
  'final on the source, and no GMP has delivered it ' || cast(d.block_time - m.attempted_time - $lane_paused as $text)
    || ' s after its last attempt, pauses of the lane left out'
from $messages m
join $chains s on s.chain_id = m.source_chain
join $chains d on d.chain_id = m.destination_chain
left join $limits l on l.source_chain = m.source_chain and l.destination_chain = m.destination_chain and l.kind = m.kind
where m.status = 'ROUTED' and m.outcome is null and m.attempted_block <= s.final_block and m.cancellation_id is null
  and d.block_time - m.attempted_time > :silence_after and d.block_time - m.attempted_time > coalesce(l.seconds, 0)
  -- Nothing can arrive while the lane is paused.
  and d.block_time - m.attempted_time - $lane_paused > :silence_after
  and d.block_time - m.attempted_time - $lane_paused > coalesce(l.seconds, 0) and (m.ttl = 0 or d.block_time <= m.sent_at + m.ttl)
union all
-- One transaction that sends the same payload to several chains means the same state on all of them.
select 'FAN_OUT_DIFFERS', min(m.message_id), m.source_chain, null,
  'of ' || cast(count(*) as $text) || ' messages with the same payload ' || cast(sum(m.succeeded) as $text)
    || ' were executed, and ' || cast(sum(m.failed) as $text) || ' never will be'
from (
  -- How a message ended on a chain that is not indexed, only the report says.
  select f.*,
    case when f.status = 'EXECUTED' or (f.status in ('ROUTED', 'UNFUNDED') and f.outcome = 1) then 1 else 0 end as succeeded,
    case when f.status in ('EXPIRED', 'CANCELLED') or (f.status in ('ROUTED', 'UNFUNDED') and f.outcome in (2, 3)) then 1 else 0 end as failed
  from $fan_outs f
) m
join (
  select source_chain, source_transaction from $fan_outs f group by source_chain, source_transaction having count(*) > 1
) several on several.source_chain = m.source_chain and several.source_transaction = m.source_transaction
where m.source_block is not null
group by m.source_chain, m.source_transaction, m.sender, m.payload_hash
having count(distinct m.destination_chain) > 1 and sum(m.succeeded) > 0 and sum(m.failed) > 0
union all
-- Parts, each of which an index answers: an `or` of all would have all messages gone through.
select 'OUTCOME_DIFFERS', m.message_id, m.source_chain, m.destination_chain,
  'reported to the source: ' || case m.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED' else cast(m.outcome as $text) end
    || ', on the destination: ' || case when m.executions > 0 then 'EXECUTED' else m.status end
    || coalesce(', which was read to ' || cast(differing.later as $text) || ' s after the report', '')
from (
  select c.message_id, cast(null as bigint) as later from $messages c where c.contradicted
  union all
  select o.message_id, cast(null as bigint) from $messages o
  where o.outcome is not null and not o.contradicted and o.status in ('EXECUTED', 'EXPIRED', 'CANCELLED')
    and o.status <> case o.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED' else '' end
  union all
  select u.message_id, d.block_time - u.outcome_time from $messages u
  join $chains d on d.chain_id = u.destination_chain
  where u.outcome is not null and not u.contradicted and u.executions = 0 and u.expired_block is null and u.cancelled_block is null
    and d.block_time > u.outcome_time + :max_lag
) differing
join $messages m on m.message_id = differing.message_id
