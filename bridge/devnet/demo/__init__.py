"""The demonstration: traffic over every GMP with one of them stalled, and an audit of what became of it."""
