"""Pauses a GMP whose receipt nobody's message explains. Small on purpose: docs/tripwire.md says what it believes and does."""
