"""The demonstration: traffic over every GMP, one of which is stalled, and an audit of the outcome."""
