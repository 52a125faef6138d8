"""What every public surface stands behind: a server that closes idle connections, and limits before anything is parsed."""

from __future__ import annotations

from bridge.http_server.gate import Gate, Limits, Refusal, client_of
from bridge.http_server.server import ListeningError, listening_at, server_of, serving

__all__ = ["Gate", "Limits", "ListeningError", "Refusal", "client_of", "listening_at", "server_of", "serving"]
