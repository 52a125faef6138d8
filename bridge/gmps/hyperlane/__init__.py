"""Hyperlane: validators sign checkpoints of each chain's Merkle tree."""
