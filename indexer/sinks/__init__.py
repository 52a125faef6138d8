"""Where the index is kept: the Delta lake and the operational store."""
