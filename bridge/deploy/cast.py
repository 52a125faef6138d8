"""Shell scripts in which Foundry's `cast` sends what a chain lacks, for wallets that `cast` knows and Waybill does not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from bridge.deploy.preview import Estimate, simulated
from bridge.deploy.sending import gas_limit
from bridge.deploy.transactions import Transaction
from bridge.evm.chain import EvmChain


class CastWallet(StrEnum):
    """Where the owner's key is; each is an option of `cast send`."""

    LEDGER = "ledger"
    TREZOR = "trezor"
    AWS = "aws"
    GCP = "gcp"
    BROWSER = "browser"


@dataclass(frozen=True, slots=True)
class CastScript:
    """The transactions of one chain, in a file that `sh` runs."""

    chain: str
    file: Path
    estimates: tuple[Estimate, ...]
    text: str

    @property
    def gas(self) -> int:
        """All transactions' together."""
        return sum(estimate.gas for estimate in self.estimates)


_HEAD: Final = """\
#!/bin/sh
# {count} transactions of {owner} on {chain}, sent by Foundry's cast. Usage: sh {file} RPC_URL
# It ends at the first that fails. The command that wrote it writes a new one of what is left then.
# Another account of the wallet: WALLET="--{wallet} --mnemonic-derivation-path m/44'/60'/1'/0/0"
set -eu
rpc_url=${{1:?usage: sh {file} RPC_URL}}
CAST=${{CAST:-cast}}
WALLET=${{WALLET:---{wallet}}}

send() {{
  echo "$1" >&2
  # shellcheck disable=SC2086 # the wallet is several words
  receipt=$("$CAST" send $WALLET --from {owner} --chain {chain_id} --rpc-url "$rpc_url" --timeout 600 \\
    --nonce "$2" --gas-limit "$3" --json "$4" --data "$5")
  case $receipt in
    *'"status":"0x1"'*) ;;
    *) echo "it failed: $receipt" >&2; exit 1 ;;
  esac
}}

"""


async def make_scripts(
    name: str, transactions: Sequence[Transaction], chain: EvmChain, owner: str, folder: Path, *, wallet: CastWallet
) -> list[CastScript]:
    """The script of one chain, or none if nothing is missing there.

    Args:
        name: of the chain.
        transactions: what the owner is to send there.
        chain: where.
        owner: whose account signs.
        folder: where the file will be.
        wallet: where the owner's key is.

    Raises:
        DeployError: a transaction would be refused, or the endpoint can't simulate.
    """
    if not transactions:
        return []
    estimates = await simulated(name, chain, owner, transactions)
    first, file = await chain.transaction_count(owner), folder / f"{name}.sh"
    lines = [
        " ".join(
            (
                "send",
                shlex.quote(f"{number + 1} of {len(estimates)}: {one.transaction.name}"),
                *map(str, (first + number, gas_limit(one.gas), one.transaction.to, f"0x{one.transaction.data.hex()}")),
            )
        )
        for number, one in enumerate(estimates)
    ]
    head = _HEAD.format(
        count=len(estimates), owner=owner, chain=name, chain_id=chain.chain_id, file=file.name, wallet=wallet.value
    )
    return [CastScript(name, file, estimates, head + "\n".join(lines) + "\n")]


def save_scripts(scripts: Sequence[CastScript], folder: Path) -> None:
    """Writes the files, and removes those of an earlier run."""
    for old in folder.glob("*.sh"):
        old.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    for script in scripts:
        script.file.write_text(script.text)
