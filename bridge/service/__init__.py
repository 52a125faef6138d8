"""The composition root: assembles relayer, tripwire and dead-letter handling from settings, keys, chains and stores."""
