-- One row per lane and stage: how long messages took from the route to it, in seconds of block time, nearest rank. The columns
-- are those of schemas.LATENCIES. `attested` is the attestation of the delivery that came first, by the relayer's clock. It is left
-- out where no relayer was asked.
select source_chain, destination_chain, stage, count(seconds) as messages,
  percentile_disc(0.50) within group (order by seconds) as p50,
  percentile_disc(0.95) within group (order by seconds) as p95,
  percentile_disc(0.99) within group (order by seconds) as p99
from (
  select source_chain, destination_chain, 'delivered' as stage, delivered as seconds from $deliveries where place = 1
  union all
  select source_chain, destination_chain, 'quorum', delivered from $deliveries where place = quorum
  union all
  select source_chain, destination_chain, 'executed', executed_time - source_time
  from $messages m
  where source_block is not null and executed_time is not null
  union all
  -- Two clocks: the chain's may be ahead of the relayer's.
  select d.source_chain, d.destination_chain, 'attested', greatest(a.attested_at - d.source_time, 0)
  from $deliveries d
  left join $attested a on a.message_id = d.message_id and a.gmp = d.gmp
  where d.place = 1 and $asked
) lasted
group by source_chain, destination_chain, stage
