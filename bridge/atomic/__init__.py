"""Atomic actions: two-phase commit across chains, by a coordinator and its participants."""
