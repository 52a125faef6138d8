-- One row per message: what its events say, in whatever order they were read. The columns are those of schemas.MESSAGES.
with staged as (
  select
    e.*,
    case event
      when 'MessageUnfunded' then 'unfunded'
      when 'MessageRouted' then 'routed'
      when 'MessageRetried' then 'retried'
      when 'MessageReceived' then 'received'
      when 'MessageExecuted' then 'executed'
      when 'ExecutionFailed' then 'failed'
      when 'ExecutionDeferred' then 'failed'
      when 'MessageExpired' then 'expired'
      when 'MessageCancelled' then 'cancelled'
      when 'DuplicateAbsorbed' then 'duplicate'
      when 'ArrivedAfterEnd' then 'late'
      when 'CancellationRequested' then 'cancelling'
      when 'OutcomeReported' then 'outcome'
      when 'OutcomeContradicted' then 'contradicted'
    end as stage
  from $events e
  where message_id is not null and error is null
),
ranked as (
  select
    staged.*,
    row_number() over (
      partition by message_id, stage order by direction * block_number, direction * log_index, direction * chain_id
    ) as nth
  from (select staged.*, case when stage in ('retried', 'received', 'failed') then -1 else 1 end as direction from staged) staged
),
-- `pick` marks the one event per message and stage whose details are shown: the first route and execution, the last retry,
-- receipt and failure, of which `nth` counts from the end. One order for both, since each is a sort of all events.
picked as (
  select
    ranked.*,
    case when stage in ('unfunded', 'routed', 'received', 'executed', 'outcome', 'retried', 'failed') and nth = 1 then stage end
      as pick,
    -- The creation of a message and its first dispatch carry the same envelope; most messages have the second alone.
    nth = 1 and stage in ('unfunded', 'routed') as describes
  from ranked
),
facts as (
  select
    message_id,
    max(case pick when 'routed' then chain_id end) as routed_chain,
    max(case when describes then chain_id end) as created_chain,
    max(case pick when 'received' then source_chain end) as received_source,
    max(case pick when 'received' then chain_id end) as received_chain,
    max(case pick when 'executed' then chain_id end) as executed_chain,
    max(case pick when 'failed' then event end) as last_failure,
    max(case when describes then source_router end) as source_router,
    max(case pick when 'routed' then block_number end) as routed_block,
    max(case pick when 'routed' then block_hash end) as routed_hash,
    max(case pick when 'routed' then block_time end) as routed_time,
    max(case pick when 'routed' then transaction_hash end) as routed_transaction,
    max(case pick when 'unfunded' then block_number end) as unfunded_block,
    max(case pick when 'unfunded' then block_time end) as unfunded_time,
    max(case pick when 'unfunded' then transaction_hash end) as unfunded_transaction,
    max(case when describes then destination_chain end) as destination_chain,
    max(case when describes then destination_router end) as destination_router,
    max(case when describes then sender end) as sender,
    max(case when describes then recipient end) as recipient,
    max(case when describes then nonce end) as nonce,
    max(case when describes then gas_limit end) as gas_limit,
    max(case when describes then sent_at end) as sent_at,
    max(case when describes then ttl end) as ttl,
    max(case when describes then kind end) as kind,
    max(case when describes then quorum end) as asked_quorum,
    -- With its last receipt the router itself says how many counted, and how many it needed.
    max(case pick when 'received' then receipts end) as receipts,
    max(case pick when 'received' then quorum end) as applied_quorum,
    max(case when describes then replaces end) as replaces,
    max(case when describes then payload_hash end) as payload_hash,
    min(payload_hash) as lowest_payload_hash,
    max(payload_hash) as highest_payload_hash,
    max(case when describes and retriable then 1 else 0 end) as retriable,
    max(case stage when 'routed' then 0 when 'retried' then attempt end) as attempts,
    max(case pick when 'retried' then block_number end) as retried_block,
    max(case pick when 'retried' then block_hash end) as retried_hash,
    max(case pick when 'retried' then block_time end) as retried_time,
    $dispatched_bits as dispatched,
    $received_bits as received,
    min(case stage when 'received' then block_time end) as received_time,
    count(case stage when 'executed' then 1 end) as executions,
    max(case pick when 'executed' then block_number end) as executed_block,
    max(case pick when 'executed' then log_index end) as executed_log_index,
    max(case pick when 'executed' then block_time end) as executed_time,
    max(case pick when 'executed' then transaction_hash end) as executed_transaction,
    count(case stage when 'failed' then 1 end) as failures,
    max(case pick when 'failed' then reason end) as failure_reason,
    max(case pick when 'failed' then block_time end) as failed_time,
    count(case stage when 'expired' then 1 end) as expirations,
    count(case stage when 'cancelled' then 1 end) as cancellations,
    count(case stage when 'duplicate' then 1 end) as duplicates,
    max(case when stage in ('cancelling', 'cancelled') then cancellation_id end) as cancellation_id,
    count(case stage when 'late' then 1 end) as arrived_late,
    max(case pick when 'outcome' then outcome end) as outcome,
    count(case stage when 'contradicted' then 1 end) as contradictions
  from picked
  group by message_id
)
select
  message_id,
  case
    when executions > 1 or contradictions > 0 or lowest_payload_hash <> highest_payload_hash then 'DIVERGED'
    when executions = 1 then 'EXECUTED'
    when expirations > 0 then 'EXPIRED'
    when cancellations > 0 then 'CANCELLED'
    -- What its destination reported counts where the destination itself has not been read, or not that far.
    when outcome = 1 then 'EXECUTED'
    when outcome = 2 then 'EXPIRED'
    when outcome = 3 then 'CANCELLED'
    when created_chain is null then 'UNKNOWN'
    when last_failure = 'ExecutionFailed' then 'EXECUTION_FAILED'
    when last_failure = 'ExecutionDeferred' then 'EXECUTION_DEFERRED'
    when received <> 0 then 'RECEIVED'
    when routed_chain is null then 'UNFUNDED'
    else 'ROUTED'
  end as status,
  coalesce(created_chain, received_source) as source_chain,
  source_router,
  coalesce(routed_block, unfunded_block) as source_block,
  coalesce(routed_time, unfunded_time) as source_time,
  coalesce(routed_transaction, unfunded_transaction) as source_transaction,
  coalesce(destination_chain, received_chain, executed_chain) as destination_chain,
  destination_router,
  sender,
  recipient,
  nonce,
  gas_limit,
  sent_at,
  ttl,
  kind,
  coalesce(applied_quorum, asked_quorum) as quorum,
  asked_quorum,
  replaces,
  payload_hash,
  coalesce(lowest_payload_hash <> highest_payload_hash, false) as payload_differs,
  retriable = 1 as retriable,
  attempts,
  coalesce(retried_block, routed_block) as attempted_block,
  coalesce(retried_hash, routed_hash) as attempted_hash,
  coalesce(retried_time, routed_time) as attempted_time,
  dispatched,
  received,
  coalesce(receipts, 0) as receipts,
  received_time,
  executions,
  executed_block,
  executed_log_index,
  executed_time,
  executed_transaction,
  failures,
  failure_reason,
  failed_time,
  duplicates,
  cancellation_id,
  arrived_late,
  outcome,
  contradictions > 0 as contradicted
from facts
