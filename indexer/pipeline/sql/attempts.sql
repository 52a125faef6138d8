-- One row per message and attempt: the route is attempt 0, retries are 1, 2, …. The columns are those of schemas.ATTEMPTS.
with dispatches as (
  select e.*, case event when 'MessageRouted' then 0 else attempt end as number
  from $events e
  where message_id is not null and error is null and event in ('MessageRouted', 'MessageRetried', 'DispatchFailed')
)
select
  d.message_id,
  d.number as attempt,
  max(d.chain_id) as source_chain,
  max(d.destination_chain) as destination_chain,
  max(case when d.event <> 'DispatchFailed' then d.block_number end) as block_number,
  max(case when d.event <> 'DispatchFailed' then d.log_index end) as log_index,
  max(case when d.event <> 'DispatchFailed' then d.block_time end) as block_time,
  max(case when d.event <> 'DispatchFailed' then d.transaction_hash end) as transaction_hash,
  max(case when d.event <> 'DispatchFailed' then d.gmps end) as dispatched,
  coalesce(bit_or(case when d.event = 'DispatchFailed' then shiftleft(1, d.gmp - 1) end), 0) as refused
from dispatches d
group by d.message_id, d.number
