"""Observe → outbox → claim → attest → deliver → confirm; retries, executions and re-propagation."""
