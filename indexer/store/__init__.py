"""The operational store: what the running index writes, and how commands, API and explorer read it."""
