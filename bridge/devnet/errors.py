"""What can go wrong with a devnet."""


class DevnetError(Exception):
    """The devnet can't do what was asked; the text says why, and what to do."""
