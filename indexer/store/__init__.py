"""The operational store. The running index writes it; commands, the API and the explorer read it."""
