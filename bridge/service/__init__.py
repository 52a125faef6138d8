"""The composition root: puts a relayer together from settings, keys, chains, GMPs and a store."""
