"""Atomic actions: two-phase commit over several chains, by a coordinator and its participants."""
