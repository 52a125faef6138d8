"""Axelar, whose network approves messages at the destination's Amplifier gateway."""
