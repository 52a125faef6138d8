"""Mutation testing of the contracts: small faults, one at a time, each of which some test must notice."""
