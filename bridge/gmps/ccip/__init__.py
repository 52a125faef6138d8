"""Chainlink CCIP 2.0. Verifiers sign messages, and anyone may execute them on the destination."""
