"""Pauses a GMP that delivered a message which the source never sent. Intentionally small; see docs/tripwire.md."""
