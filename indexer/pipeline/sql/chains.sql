-- How far each chain was read, where only its events tell: no later block is known to be final. The columns are those of
-- schemas.CHAINS.
select chain_id, max(block_time) as block_time, max(block_number) as final_block
from $events e
group by chain_id
