-- One row per message and GMP that took, failed to take or delivered it. The columns are those of schemas.RECEIPTS.
with gmps as ($gmps),
touched as (
  select e.*, g.number as over_gmp
  from $events e
  join gmps g on e.gmp = g.number or (e.gmps & g.bit) <> 0
  -- An unfunded message names the GMPs that it is to go over; none has it yet.
  where e.message_id is not null and e.error is null and e.event <> 'MessageUnfunded'
),
ranked as (
  select
    touched.*,
    case
      when event = 'MessageReceived' then
        row_number() over (partition by message_id, over_gmp, event order by block_number, log_index, chain_id)
    end as nth_receipt,
    case
      when event = 'MessageReceived' then
        row_number() over (partition by message_id, over_gmp, event order by block_number desc, log_index desc, chain_id desc)
    end as nth_from_last
  from touched
)
select
  message_id,
  over_gmp as gmp,
  count(case when event in ('MessageRouted', 'MessageRetried') then 1 end) as dispatches,
  min(case when event in ('MessageRouted', 'MessageRetried') then block_time end) as dispatched_time,
  max(case event when 'MessageRouted' then 0 when 'MessageRetried' then attempt end) as last_attempt,
  count(case event when 'DispatchFailed' then 1 end) as dispatch_failures,
  max(case nth_receipt when 1 then chain_id end) as received_chain,
  max(case nth_receipt when 1 then block_number end) as received_block,
  max(case nth_receipt when 1 then log_index end) as received_log_index,
  max(case nth_receipt when 1 then block_time end) as received_time,
  max(case nth_receipt when 1 then transaction_hash end) as received_transaction,
  max(case nth_from_last when 1 then block_number end) as last_received_block,
  max(case nth_from_last when 1 then log_index end) as last_received_log_index,
  max(case nth_from_last when 1 then quorum end) as quorum,
  count(case event when 'DuplicateAbsorbed' then 1 end) as duplicates,
  max(case event when 'DuplicateAbsorbed' then block_time end) as last_duplicate_time
from ranked
group by message_id, over_gmp
