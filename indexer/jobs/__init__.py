"""Jobs behind the commands: the running index, a backfill, refreshes, verification and repair."""
