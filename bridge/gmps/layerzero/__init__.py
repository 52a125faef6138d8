"""LayerZero V2: DVNs verify packets at the destination's endpoint."""
