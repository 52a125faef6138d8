"""Reads the chains: the streaming source `evm`, the task of a backfill, and the client below both."""
