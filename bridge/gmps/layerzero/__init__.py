"""LayerZero V2, whose DVNs verify packets at the destination's endpoint."""
