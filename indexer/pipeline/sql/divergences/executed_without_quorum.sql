-- An execution with fewer receipts that counted than its recipient, or its sender, demanded then.
select 'EXECUTED_WITHOUT_QUORUM' as kind, message_id, source_chain, destination_chain,
  'receipts that counted at the execution: ' || cast(counted as $text) || ', quorum: ' || cast(needed as $text) as evidence
from (
  select
    message_id, source_chain, destination_chain,
    -- All receipts must reach the message's quorum, those that the recipient allows what it demanded.
    case when allowed < demanded then allowed else present end as counted,
    -- What was demanded then; where its rules are not known, the least that the router named. Never less than the sender asked for.
    case
      when allowed < demanded or coalesce(demanded, least_recorded) > asked_quorum then coalesce(demanded, least_recorded)
      else asked_quorum
    end as needed
  from (
    select
      m.message_id,
      min(m.source_chain) as source_chain,
      min(m.destination_chain) as destination_chain,
      min(coalesce(m.asked_quorum, m.quorum, 1)) as asked_quorum,
      count(distinct case when v.begins is null then r.gmp end) as present,
      count(distinct case when v.begins is null and (p.quorum is null or p.quorum = 0 or (p.gmps & g.bit) <> 0) then r.gmp end)
        as allowed,
      min(case when v.begins is null then r.quorum end) as least_recorded,
      min(case when p.quorum > 0 then p.quorum else coalesce(f.quorum, p.quorum) end) as demanded
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
