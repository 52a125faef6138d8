"""The lake's tables: raw logs (bronze), events and messages (silver), aggregates and divergences (gold)."""
