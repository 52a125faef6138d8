-- A router reports the end of a message only after it: both stand on the message's destination, in one order.
-- The plus keeps SQLite from going through all messages of a chain for the report of one: an index finds it by `replaces`.
select 'OUTCOME_DIFFERS' as kind, m.message_id, m.source_chain, m.destination_chain,
  'its destination reported its end in block ' || cast(min(report.source_block) as $text) || ', and '
    || coalesce('it ended in block ' || cast(m.ended_block as $text), 'it has not ended') as evidence
from $reports report
join (
  select ended.*, coalesce(ended.executed_block, ended.expired_block, ended.cancelled_block) as ended_block from $messages ended
) m on m.message_id = report.replaces and m.destination_chain = +report.source_chain
where report.source_block is not null and (m.ended_block is null or m.ended_block > report.source_block)
group by m.message_id, m.source_chain, m.destination_chain, m.ended_block
