-- A receipt of a GMP that had no adapter then, of a router whose registrations are known.
select 'RECEIPT_FROM_UNREGISTERED_ADAPTER' as kind, r.message_id, m.source_chain, r.received_chain as destination_chain,
  'GMP ' || cast(r.gmp as $text) || ' had no adapter at block ' || cast(r.received_block as $text) as evidence
from $receipts r
join $messages m on m.message_id = r.message_id
where r.received_block is not null and r.received_chain in (select known.chain_id from ($registrations) known)
  and not exists (
    select 1 from ($registrations) p
    where p.chain_id = r.received_chain and p.gmp = r.gmp and p.event <> 'AdapterRevoked'
      and p.begins < r.received_block * 1000000 + r.received_log_index
      and (p.ends is null or p.ends > r.received_block * 1000000 + r.received_log_index)
  )
