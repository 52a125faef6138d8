"""Decodes `eth_getLogs` responses to typed Arrow columns. Used for both the live store and Spark."""
