"""What the guard refuses before anything is parsed."""

from __future__ import annotations

import pytest

from bridge.web.guard import BODY_BYTES
from tests.unit.web.explorer import World, patient


def test_guard_limits_requests_of_one_client(world: World) -> None:
    client = world.explorer(patient(requests_per_minute=10))
    statuses = [client.get("/lanes").status_code for _ in range(11)]
    assert statuses == [200] * 10 + [429]
    refused = client.get("/v1/status")
    assert (refused.status_code, refused.headers["retry-after"], refused.json()["error"]["code"]) == (
        429,
        "10",
        "UNAVAILABLE",
    )
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("length", [str(BODY_BYTES + 1), "9" * 5_000, "-1", "x"])
def test_guard_refuses_large_bodies_by_their_length(world: World, length: str) -> None:
    client = world.explorer()
    assert client.post("/v1/messages/a/retry", headers={"content-length": length}).status_code == 413


def test_guard_refuses_changes_from_other_sites(world: World) -> None:
    client = world.explorer()
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert client.post("/dead-letters/decisions", headers=headers, json={}).status_code == 403


def test_guard_refuses_zero_bytes_and_adds_headers(world: World) -> None:
    client = world.explorer()
    assert client.get("/v1/dead-letters/a%00b").status_code == 400
    for path in ("/", "/v1/status", "/nowhere", "/static/style.css"):
        found = client.get(path).headers
        assert found["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in found["content-security-policy"]
