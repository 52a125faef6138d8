"""Chainlink CCIP: its nodes commit messages to the destination and execute them."""
