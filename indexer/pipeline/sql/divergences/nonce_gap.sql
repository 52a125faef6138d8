-- First by nonce: an index has them in that order, and nothing has to be sorted.
select 'NONCE_GAP' as kind, null as message_id, m.source_chain, m.destination_chain,
  'messages of the lane: ' || cast(sum(m.messages) + $pruned as $text) || ', different nonces: ' || cast(count(m.nonce) as $text)
    || ', highest nonce: ' || cast(max(m.nonce) as $text) as evidence
from (
  select created.source_chain, created.source_router, created.destination_chain, created.nonce, count(*) as messages
  from $messages created
  where created.source_block is not null and created.nonce is not null  -- a pruned message's late events don't name it
  group by created.source_chain, created.source_router, created.destination_chain, created.nonce
) m
group by m.source_chain, m.source_router, m.destination_chain
having sum(m.messages) + $pruned <> max(m.nonce) or count(m.nonce) <> sum(m.messages)
