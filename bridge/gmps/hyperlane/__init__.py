"""Hyperlane, whose validators sign checkpoints of each chain's Merkle tree."""
