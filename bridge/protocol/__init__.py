"""The vocabulary that contracts, bridge, indexer and dApps share.

It consists of messages, ids, events, states, shared tables, and the relayer's ports. Nothing here talks to a
chain, a database or the network. `docs/formats.md` specifies the formats.
"""
