-- How many receipts the destination's router would count now, and how many it would ask for, of messages that are yet to be
-- executed: as `_countReceipts` of contracts/MessageReceiver.sol. A receipt counts unless its GMP's adapter was revoked
-- since (`voided`: the set of those), or the GMP is paused. All that count must reach the message's quorum, and those of the
-- GMPs that the recipient allows must reach what it demands. Stated is what the recipient demands if that does not hold.
select
  message_id, voided,
  case when allowed < demanded then allowed else present end as counted,
  case
    when demanded is null then quorum
    when allowed < demanded or demanded > asked_quorum then demanded
    else asked_quorum
  end as needed
from (
  select
    m.message_id,
    min(m.quorum) as quorum,
    min(coalesce(m.asked_quorum, m.quorum)) as asked_quorum,
    sum(case when v.begins is null and (z.until is null or z.until <= d.block_time) then 1 else 0 end) as present,
    sum(case
      when v.begins is null and (z.until is null or z.until <= d.block_time)
        and (p.quorum is null or p.quorum = 0 or (p.gmps & g.bit) <> 0) then 1
      else 0
    end) as allowed,
    sum(case when v.begins is null then 0 else g.bit end) as voided,
    min(case when p.quorum > 0 then p.quorum else coalesce(f.quorum, p.quorum) end) as demanded
  from $messages m
  join $receipts r on r.message_id = m.message_id
  join ($gmps) g on g.number = r.gmp
  left join $chains d on d.chain_id = m.destination_chain
  left join ($periods) v on v.event = 'AdapterRevoked' and v.chain_id = r.received_chain and v.gmp = r.gmp and v.ends is null
    and v.begins > r.last_received_block * 1000000 + r.last_received_log_index
  left join ($periods) z on z.event = 'GmpPauseSet' and z.chain_id = r.received_chain and z.gmp = r.gmp and z.ends is null
  -- Messages to the router itself, from kind 11 on, are judged by the account they are about, which the index does not know.
  left join ($periods) p on p.event = 'PolicySet' and p.chain_id = m.destination_chain and p.chain = m.source_chain
    and p.recipient = m.recipient and p.ends is null and m.kind < 11
  left join ($periods) f on f.event = 'FloorSet' and f.chain_id = m.destination_chain and f.chain = m.source_chain
    and f.ends is null and m.kind < 11
  where r.received_block is not null and m.status in ('RECEIVED', 'EXECUTION_FAILED', 'EXECUTION_DEFERRED')
  group by m.message_id
) counts
