"""How JSON-RPC endpoints are asked, and what their answers mean. Relayer and index share it; it asks nobody by itself."""
