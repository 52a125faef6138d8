"""Reads the chains: the streaming source `evm`, the backfill task, and the client that both use."""
