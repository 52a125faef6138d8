"""The records that the store keeps, and their transitions, in pure functions. Their SQL is in `bridge.store`."""
