"""Wormhole, whose guardians sign VAAs (verified action approvals)."""
