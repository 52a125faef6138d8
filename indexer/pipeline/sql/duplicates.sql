-- One row per delivery that an adapter absorbed, because its GMP had delivered before. The columns are those of schemas.DUPLICATES.
select message_id, gmp, chain_id, block_number, log_index, block_time, transaction_hash
from $events e
where event = 'DuplicateAbsorbed' and error is null
