"""The demonstration: traffic over every GMP with one GMP stalled, and an audit of the outcome."""
