"""What tests share and production does not have: the simulated world and reference models."""
