"""Chainlink CCIP: oracles commit messages and execute them on the destination."""
