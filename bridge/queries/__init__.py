"""Queries about a network, shared by the command line, the API and the explorer."""
