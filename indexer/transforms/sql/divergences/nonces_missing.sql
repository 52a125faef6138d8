-- The same as `nonce_gap.sql`, of tallies: a step says by how much more messages have each nonce after it, up to the next step.
select 'NONCE_GAP' as kind, null as message_id, source_chain, destination_chain,
  'messages of the lane: ' || cast(messages as $text) || ', different nonces: ' || cast(nonces as $text)
    || ', highest nonce: ' || cast(highest as $text) as evidence
from (
  select source_chain, destination_chain, sum(copies * width) as messages, sum(width) as nonces, max(until) as highest
  from (
    select
      t.source_chain, t.source_router, t.destination_chain,
      sum(t.number) over (partition by t.source_chain, t.source_router, t.destination_chain order by t.value) as copies,
      lead(t.value) over (partition by t.source_chain, t.source_router, t.destination_chain order by t.value) as until,
      lead(t.value) over (partition by t.source_chain, t.source_router, t.destination_chain order by t.value) - t.value as width
    from $tallies t
    where t.measure = 'nonce'
  ) steps
  where copies > 0
  group by source_chain, source_router, destination_chain
) lanes
where messages <> highest or nonces <> messages
