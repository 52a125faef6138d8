"""The `evm` data source: logs of many chains, as a stream and as a batch, with offsets that know a reorg."""
