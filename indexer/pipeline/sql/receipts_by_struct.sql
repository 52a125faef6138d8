-- One row per message and GMP, as `receipts.sql` has it: by one aggregate, without a sort of all events. For Spark. A struct
-- compares by its first fields, the event's place.
select
  message_id, gmp, dispatches, dispatched_time, last_attempt, dispatch_failures,
  first.chain_id as received_chain,
  first.block_number as received_block,
  first.log_index as received_log_index,
  first.block_time as received_time,
  first.transaction_hash as received_transaction,
  last.block_number as last_received_block,
  last.log_index as last_received_log_index,
  last.quorum as quorum,
  duplicates, last_duplicate_time
from (
  select
    message_id,
    over_gmp as gmp,
    count(case when event in ('MessageRouted', 'MessageRetried') then 1 end) as dispatches,
    min(case when event in ('MessageRouted', 'MessageRetried') then block_time end) as dispatched_time,
    max(case event when 'MessageRouted' then 0 when 'MessageRetried' then attempt end) as last_attempt,
    count(case event when 'DispatchFailed' then 1 end) as dispatch_failures,
    min(case event when 'MessageReceived' then struct(block_number, log_index, chain_id, block_time, transaction_hash) end) as first,
    max(case event when 'MessageReceived' then struct(block_number, log_index, chain_id, quorum) end) as last,
    count(case event when 'DuplicateAbsorbed' then 1 end) as duplicates,
    max(case event when 'DuplicateAbsorbed' then block_time end) as last_duplicate_time
  from (
    select *, explode(filter(sequence(1, 16), number -> gmp = number or (gmps & shiftleft(1, number - 1)) <> 0)) as over_gmp
    from $events
    -- An unfunded message names the GMPs that it is to go over; none has it yet.
    where message_id is not null and error is null and event <> 'MessageUnfunded' and (gmp is not null or gmps is not null)
  )
  group by message_id, over_gmp
)
