"""The vocabulary that contracts, bridge, indexer and dApps share: messages, ids, events, states, shared tables, and the relayer's ports.

Pure: nothing in here talks to a chain, a database or the network. The formats are those of `docs/formats.md`.
"""
