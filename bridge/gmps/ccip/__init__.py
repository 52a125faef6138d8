"""Chainlink CCIP 2.0: verifiers sign messages, and anyone may execute them on the destination."""
