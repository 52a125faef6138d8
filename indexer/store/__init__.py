"""The operational store: written by the running index, read by commands, API and explorer."""
