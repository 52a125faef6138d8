-- The router has to have taken a delivery before an adapter can absorb the next.
select 'DUPLICATE_WITHOUT_RECEIPT' as kind, r.message_id, m.source_chain, m.destination_chain,
  'GMP ' || cast(r.gmp as $text) || ' repeated, in block ' || cast(min(a.block_number) as $text)
    || ', a delivery that the router ' || case
      when r.received_block is null then 'never reported' else 'reported later, in block ' || cast(r.received_block as $text)
    end as evidence
from $duplicates a
join $receipts r on r.message_id = a.message_id and r.gmp = a.gmp
join $messages m on m.message_id = a.message_id
where r.received_block is null or a.block_number < r.received_block
  or (a.block_number = r.received_block and a.log_index < r.received_log_index)
group by r.message_id, m.source_chain, m.destination_chain, r.gmp, r.received_block
