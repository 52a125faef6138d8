"""The records that the store keeps, with their transitions as pure functions. Their SQL is in `bridge.store`."""
