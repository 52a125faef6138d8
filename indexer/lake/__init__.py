"""The Delta lake: final events, append-only, and the tables that are made of them."""
