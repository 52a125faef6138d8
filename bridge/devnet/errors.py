"""Errors of the devnet."""


class DevnetError(Exception):
    """A devnet operation failed. The message states the reason and the remedy."""
