"""Wormhole: guardians sign VAAs (verified action approvals)."""
