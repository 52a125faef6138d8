-- By lane, when it was paused, as an array of structs: from each LanePauseSet to its end, or to the next one. For Spark.
select chain_id as destination_chain, chain as source_chain, collect_list(struct(begins, ends)) as pauses
from (
  select
    a.chain_id, a.chain, a.block_time as begins,
    least(a.until, lead(a.block_time) over (partition by a.chain_id, a.chain order by a.block_number, a.log_index)) as ends
  from $about_routers a
  where a.event = 'LanePauseSet'
) paused
where begins < ends
group by chain_id, chain
