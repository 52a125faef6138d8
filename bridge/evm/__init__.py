"""The EVM client: transport, endpoints and their agreement, routers, and the sender and monitor of transactions."""
