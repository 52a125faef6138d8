"""Decodes answers of `eth_getLogs` to typed Arrow columns, for the live store and for Spark alike."""
