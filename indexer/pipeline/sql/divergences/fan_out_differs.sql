-- One transaction that sends the same payload to several chains means the same state on all of them.
select 'FAN_OUT_DIFFERS' as kind, min(m.message_id) as message_id, m.source_chain, null as destination_chain,
  'of ' || cast(count(*) as $text) || ' messages with the same payload ' || cast(sum(m.succeeded) as $text)
    || ' were executed, and ' || cast(sum(m.failed) as $text) || ' never will be' as evidence
from $fan_outs m
group by m.source_chain, m.source_transaction, m.sender, m.payload_hash
having min(m.destination_chain) <> max(m.destination_chain) and sum(m.succeeded) > 0 and sum(m.failed) > 0
