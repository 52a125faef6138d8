"""What every public surface stands behind: a server that closes idle connections, and limits before anything is parsed."""
