"""Answers of `eth_getLogs` to typed Arrow columns."""
