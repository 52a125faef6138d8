"""What the commands, the API and the explorer say about a network, computed once."""
