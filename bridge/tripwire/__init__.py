"""Pauses a GMP that delivered a message that its source never sent. Intentionally small; see docs/tripwire.md."""
