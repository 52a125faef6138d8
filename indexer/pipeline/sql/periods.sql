-- Rules that a router was given about GMPs, recipients and lanes, and their end: the next such event, null if there
-- is none. A place in a chain is its block's number times a million plus the index of the log.
select
  e.chain_id, e.event, e.gmp, e.chain, e.recipient, e.quorum, e.gmps, e.until,
  e.block_number * 1000000 + e.log_index as begins,
  lead(e.block_number * 1000000 + e.log_index) over (
    partition by e.chain_id, e.event, e.gmp, e.chain, e.recipient order by e.block_number, e.log_index
  ) as ends
from $about_routers e
where e.event in ('AdapterRevoked', 'GmpPauseSet', 'LanePauseSet', 'PolicySet', 'FloorSet')
