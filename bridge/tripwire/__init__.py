"""Pauses a GMP that delivered a message which its source never sent. Small on purpose; see docs/tripwire.md."""
