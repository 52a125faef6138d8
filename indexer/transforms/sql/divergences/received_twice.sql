-- A router takes a GMP's delivery of a message once; again only after it has revoked the GMP's adapter.
select 'RECEIVED_TWICE' as kind, r.message_id, m.source_chain, r.received_chain as destination_chain,
  'GMP ' || cast(r.gmp as $text) || ' delivered in block ' || cast(r.received_block as $text) || ' and in block '
    || cast(r.last_received_block as $text) || ', and its adapter was not revoked in between' as evidence
from $receipts r
join $messages m on m.message_id = r.message_id
where (r.last_received_block > r.received_block
       or (r.last_received_block = r.received_block and r.last_received_log_index > r.received_log_index))
  and not exists (
    select 1 from ($periods) v
    where v.event = 'AdapterRevoked' and v.chain_id = r.received_chain and v.gmp = r.gmp
      and v.begins > r.received_block * 1000000 + r.received_log_index
      and v.begins < r.last_received_block * 1000000 + r.last_received_log_index
  )
