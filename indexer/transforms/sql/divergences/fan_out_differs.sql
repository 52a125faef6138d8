-- One transaction that sends the same payload to several chains means the same state on all of them.
select 'FAN_OUT_DIFFERS' as kind, min(m.message_id) as message_id, m.source_chain, null as destination_chain,
  'of ' || cast(count(*) as $text) || ' messages with the same payload ' || cast(sum(m.succeeded) as $text)
    || ' were executed, and ' || cast(sum(m.failed) as $text) || ' never will be' as evidence
from (
  -- How a message ended on a chain that is not indexed, only the report says.
  select f.*,
    case when f.status = 'EXECUTED' or (f.status in ('ROUTED', 'UNFUNDED') and f.outcome = 1) then 1 else 0 end as succeeded,
    case when f.status in ('EXPIRED', 'CANCELLED') or (f.status in ('ROUTED', 'UNFUNDED') and f.outcome in (2, 3)) then 1 else 0 end as failed
  from $fan_outs f
) m
where m.source_block is not null
group by m.source_chain, m.source_transaction, m.sender, m.payload_hash
having min(m.destination_chain) <> max(m.destination_chain) and sum(m.succeeded) > 0 and sum(m.failed) > 0
