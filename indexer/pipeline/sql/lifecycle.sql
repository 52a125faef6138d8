-- One row per message: what its events say, in whatever order they were read. The columns are those of schemas.MESSAGES.
with staged as (
  select
    e.*,
    case event
      when 'MessageIdCreated' then 'created'
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
      when 'LateReceipt' then 'late'
      when 'CancellationRequested' then 'cancelling'
      when 'OutcomeReported' then 'outcome'
      when 'OutcomeContradicted' then 'contradicted'
    end as stage,
    block_number * 1000000 + log_index as place
  from $events e
  where message_id is not null and error is null
),
$facts,
-- What no honest router's events say, whatever was not read yet: the bits are `queries.Conflict`.
judged as (
  select
    facts.*,
    case when executions + expirations + cancellations > 1 and executions < 2 then $ENDED_TWICE else 0 end
    + case
        when executed_chain <> coalesce(destination_chain, executed_chain)
          or executed_origin <> coalesce(created_chain, executed_origin)
          or executed_recipient <> coalesce(recipient, executed_recipient) then $EXECUTED_ELSEWHERE
        else 0
      end
    + case when most_receipts > $received_count then $RECEIPTS_MISCOUNTED else 0 end
    + case when executions > 0 and $received_count < coalesce(asked_quorum, 1) then $EXECUTED_WITHOUT_QUORUM else 0 end
    -- Of what was sent without a slot, or never, an honest source emits each report; anybody may send as many as they like.
    + case when reports > 1 and (retriable = 1 or lowest_outcome <> highest_outcome) then $REPORTED_TWICE else 0 end
    + case when expirations > 0 and (ttl = 0 or expired_time <= sent_at + ttl) then $EXPIRED_TOO_EARLY else 0 end
    + case when cancellations = 1 and requests = 1 and carried_out <> requested then $CANCELLED_WITHOUT_REQUEST else 0 end
    + case when least_quorum < asked_quorum then $QUORUM_LOWERED else 0 end
    -- The router calls the recipient with the receipt that reaches the quorum, and with each one after it.
    + case
        when failures > times_reached or first_failed < first_reached then $REFUSED_WITHOUT_QUORUM
        else 0
      end
    as conflicts
  from facts
)
select
  message_id,
  case
    when executions > 1 or contradictions > 0 or lowest_payload_hash <> highest_payload_hash or conflicts <> 0 then 'DIVERGED'
    -- An end without a creation: the source has not been read that far, or it never sent the message. What the destination
    -- reported to the source is not looked at here: how far the destination was read decides (`effective_status.sql`).
    when created_chain is null then 'UNKNOWN'
    when executions = 1 then 'EXECUTED'
    when expirations > 0 then 'EXPIRED'
    when cancellations > 0 then 'CANCELLED'
    when last_failure = 'ExecutionFailed' then 'EXECUTION_FAILED'
    when last_failure = 'ExecutionDeferred' then 'EXECUTION_DEFERRED'
    when received <> 0 then 'RECEIVED'
    when routed_chain is null then 'UNFUNDED'
    else 'ROUTED'
  end as status,
  coalesce(created_chain, received_source, lowest_origin) as source_chain,
  source_router,
  coalesce(routed_block, unfunded_block) as source_block,
  coalesce(routed_time, unfunded_time) as source_time,
  coalesce(routed_transaction, unfunded_transaction) as source_transaction,
  coalesce(destination_chain, received_chain, executed_chain, lowest_destination) as destination_chain,
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
  executed_chain,
  executed_block,
  executed_log_index,
  executed_time,
  executed_transaction,
  failures,
  failure_reason,
  failed_time,
  expired_block,
  expired_time,
  cancelled_block,
  cancelled_time,
  cancellations > 0 and requests = 0 as cancelled_unasked,
  duplicates,
  cancellation_id,
  arrived_late,
  outcome,
  outcome_time,
  contradictions > 0 as contradicted,
  conflicts
from judged
