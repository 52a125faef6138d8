"""One EVM client: transport, endpoints and their agreement, routers, the nonce ledger's sender and monitor."""
