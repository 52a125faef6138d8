-- When a GMP's adapter was registered, from each registration to the next one of the same GMP; a revocation begins a time
-- without an adapter. Places as in `periods.sql`.
select
  a.chain_id, a.gmp, a.event,
  a.block_number * 1000000 + a.log_index as begins,
  lead(a.block_number * 1000000 + a.log_index) over (
    partition by a.chain_id, a.gmp order by a.block_number, a.log_index
  ) as ends
from $about_routers a
where a.event in ('AdapterAdded', 'AdapterReplaced', 'AdapterRevoked')
