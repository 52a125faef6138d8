-- The router has to have taken a delivery before an adapter can absorb the next.
select 'DUPLICATE_WITHOUT_RECEIPT' as kind, r.message_id, m.source_chain, m.destination_chain,
  'GMP ' || cast(r.gmp as $text) || ' repeated, at ' || cast(r.last_duplicate_time as $text)
    || ', a delivery that the router never told of' as evidence
from $receipts r
join $messages m on m.message_id = r.message_id
where r.duplicates > 0 and r.received_block is null
