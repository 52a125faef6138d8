"""What the relayer remembers and decides: frozen records with their transitions, policies, and the ports to chains, GMPs and time.

Nothing in here talks to a chain, a database or the network.
"""
