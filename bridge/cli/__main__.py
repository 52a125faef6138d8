"""`python -m bridge.cli`, for processes that the command itself starts."""

from bridge.cli import main

main()
