"""The jobs that commands run: the running index, backfills, refreshes, verification and repair."""
