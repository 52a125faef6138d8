"""Axelar: Amplifier gateways whose network approves messages on the destination."""
