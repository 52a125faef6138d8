-- One row per message of a transaction that created several. The columns are those of schemas.FAN_OUTS. All messages of a
-- transaction come with one block, or are there `before`. For Spark and DuckDB.
select message_id, source_chain, source_transaction, sender, payload_hash, destination_chain, succeeded, failed
from (
  select one.*, count(*) over (partition by source_chain, source_transaction) as together
  from (
    select
      m.message_id, m.source_chain, m.source_transaction, m.sender, m.payload_hash, m.destination_chain,
      $succeeded as succeeded, $failed as failed
    from $messages m
    where m.source_block is not null
    union all
    select message_id, source_chain, source_transaction, sender, payload_hash, destination_chain, succeeded, failed
    from $before b
  ) one
) several
where together > 1
