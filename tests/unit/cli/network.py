"""A deployments file of two chains behind which nobody is."""

from __future__ import annotations

from pathlib import Path

from bridge.protocol.deployment import ChainDeployment, Deployment


def write_network(home: Path, *urls: str) -> Deployment:
    """Writes the devnet's file with two chains at those URLs."""
    first, second = urls or ("http://127.0.0.1:1", "http://127.0.0.1:1")
    deployment = Deployment(
        version=1,
        network="devnet",
        chains=tuple(
            ChainDeployment(
                chain_id=chain_id,
                name=name,
                rpc_urls=(url,),
                start_block=0,
                confirmations=2,
                router="0x" + "0a" * 20,
                adapters={},
                gmps={},
            )
            for chain_id, name, url in ((31337, "alpha", first), (31338, "beta", second))
        ),
    )
    file = home / "deployments" / "devnet.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(deployment.to_json())
    return deployment
