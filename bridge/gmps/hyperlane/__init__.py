"""Hyperlane: validators sign checkpoints of each chain's merkle tree."""
