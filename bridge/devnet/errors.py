"""Errors of the devnet."""


class DevnetError(Exception):
    """A devnet operation failed; the message gives the reason and the remedy."""
