"""The store's records, with their transitions as pure functions. `bridge.store` contains their SQL."""
