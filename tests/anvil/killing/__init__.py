"""Killing the relayer's own code at every system call that matters."""
