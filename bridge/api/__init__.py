"""The relayer's HTTP API: health, metrics, messages, deliveries and lanes. What changes something asks for a token."""
