"""The tables of the lake: raw logs (bronze), what became of each message (silver), what messages add up to (gold)."""
