"""Measures the index's speed against other tools on this machine."""
