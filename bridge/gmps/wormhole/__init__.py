"""Wormhole: guardians sign VAAs."""
