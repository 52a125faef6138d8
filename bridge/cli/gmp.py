"""`waybill gmp`: pause a GMP by hand, and end its pause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bridge.cli import options
from bridge.cli.output import CliError, ExitCode, UsageError, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.devnet.accounts import DEPLOYER_KEY
from bridge.domain.ports import Call, CallRevertedError, Chain, TransientError, read_view
from bridge.evm.signing import LocalSigner, RemoteSigner, Signer, keystore_signer
from bridge.protocol.contracts import ROUTER, explain_revert
from bridge.protocol.deployment import ChainDeployment, DeploymentError
from bridge.protocol.gmps import Gmp
from bridge.service.connections import connected
from bridge.tripwire.pauser import RefusedPauseError, send

app = typer.Typer(help="Pause a GMP by hand, and end its pause.", no_args_is_help=True)

_GAS = 600_000

GmpName = Annotated[str, typer.Argument(help="The GMP, such as axelar.", metavar="GMP")]
Chains = Annotated[
    str | None,
    typer.Option(
        "--chains", help="Only on these chains, separated by commas; else on each that has it.", show_default=False
    ),
]
Keystore = Annotated[
    Path | None, typer.Option("--keystore", help="A version 3 keystore file, in place of --key.", show_default=False)
]
PasswordFile = Annotated[
    Path | None, typer.Option("--password-file", help="With the keystore's password.", show_default=False)
]
SignerUrl = Annotated[
    str | None,
    typer.Option("--signer-url", help="A remote signer's JSON-RPC, in place of --key.", show_default=False),
]
SignerAddress = Annotated[
    str | None, typer.Option("--signer-address", help="The remote signer's account.", show_default=False)
]


@app.command()
def pause(
    gmp: GmpName,
    *,
    chains: Chains = None,
    hours: Annotated[
        float, typer.Option("--for", help="Hours; the router allows 168 at most, and a tripwire 6.", min=0.01)
    ] = 6,
    key: options.Key = None,
    keystore: Keystore = None,
    password_file: PasswordFile = None,
    signer_url: SignerUrl = None,
    signer_address: SignerAddress = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Pause a GMP as guardian, tripwire or owner: nothing is sent or taken over it, and its receipts do not count.

    The GMP speaks again when the pause ends. Ends with 1 if a chain refused.

    Example: waybill gmp pause axelar --chains beta --for 6
    """
    signer = _Signing(key, keystore, password_file, signer_url, signer_address).signer(network)

    def call(here: ChainDeployment, number: Gmp, time: int) -> Call:
        data = ROUTER.encode("pauseGmp", int(number), time + int(hours * 3600))
        return Call(to=here.router, data=data, gas=_GAS)

    _act(gmp, chains, signer, call, workspace=Workspace.of(network, config), as_json=as_json)


@app.command()
def resume(
    gmp: GmpName,
    *,
    chains: Chains = None,
    key: options.Key = None,
    keystore: Keystore = None,
    password_file: PasswordFile = None,
    signer_url: SignerUrl = None,
    signer_address: SignerAddress = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """End a GMP's pause now, as guardian what guardian or tripwire began, or as owner.

    A GMP that lied lies again: revoke its adapter or raise the floors first.

    Example: waybill gmp resume axelar
    """
    signer = _Signing(key, keystore, password_file, signer_url, signer_address).signer(network)

    def call(here: ChainDeployment, number: Gmp, _time: int) -> Call:
        return Call(to=here.router, data=ROUTER.encode("endGmpPause", int(number)), gas=_GAS)

    _act(gmp, chains, signer, call, workspace=Workspace.of(network, config), as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Signing:
    """What the options say about the account to sign with."""

    key: str | None
    keystore: Path | None
    password_file: Path | None
    signer_url: str | None
    signer_address: str | None

    def signer(self, network: str) -> Signer:
        """The account; on the devnet the routers' owner by default.

        Raises:
            UsageError: none is named, or only half of one.
            InvalidKeyError: the key is none, or can't be opened.
        """
        if self.keystore is not None:
            if self.password_file is None:
                raise UsageError("--keystore needs --password-file, the file that holds its password")
            return keystore_signer(self.keystore, self.password_file)
        if self.signer_url is not None:
            if self.signer_address is None:
                raise UsageError("--signer-url needs --signer-address, the account that it signs for")
            return RemoteSigner(self.signer_url, self.signer_address)
        if self.key is None and network != DEVNET:
            next_step = "set WAYBILL_KEY, or give --key, --keystore or --signer-url"
            raise UsageError("no key to sign with", next_step=next_step)
        return LocalSigner.from_key(self.key or DEPLOYER_KEY)


def _act(
    name: str,
    chains: str | None,
    signer: Signer,
    call: Callable[[ChainDeployment, Gmp, int], Call],
    *,
    workspace: Workspace,
    as_json: bool,
) -> None:
    """Makes the call on each chain; one that refuses does not keep the others waiting."""
    (gmp,) = options.gmps(name)
    deployment = workspace.deployment()
    try:
        named = [deployment.chain(one.strip()) for one in chains.split(",")] if chains else list(deployment.chains)
    except DeploymentError as error:
        raise UsageError(str(error)) from error
    wanted = [one for one in named if gmp in one.gmp_numbers]
    if not wanted:
        raise UsageError(f"{gmp.label} has no adapter on {', '.join(one.name for one in named)}")

    async def work() -> list[dict[str, Any]]:
        ids = {one.chain_id for one in wanted}
        async with connected(deployment, workspace.settings(), ids) as opened:
            return await asyncio.gather(*(_on(opened[one.chain_id], one, gmp, signer, call) for one in wanted))

    value = asyncio.run(work())
    rows = [[row["chain"], row["pausedUntil"] or "not paused", row["error"] or row["transaction"]] for row in value]
    columns = ["chain", "paused until (Unix seconds)", "transaction"]
    result(
        {"gmp": gmp.label, "chains": value},
        as_json=as_json,
        render=lambda console: console.print(table(None, columns, [[str(cell) for cell in row] for row in rows])),
    )
    if failed := [row["chain"] for row in value if row["error"]]:
        raise CliError(
            f"refused on {', '.join(failed)}", code=ExitCode.FAILED, next_step="waybill trust LANE names the roles"
        )


async def _on(
    chain: Chain, here: ChainDeployment, gmp: Gmp, signer: Signer, call: Callable[[ChainDeployment, Gmp, int], Call]
) -> dict[str, Any]:
    outcome: dict[str, Any] = {"chain": here.name, "pausedUntil": None, "transaction": None, "error": None}
    try:
        head = await chain.head()
        made = call(here, gmp, head.timestamp)
        await chain.call(made, sender=signer.address)
        _, transaction = await send(chain, signer, made, nonce=await chain.transaction_count(signer.address))
        until = await read_view(chain, ROUTER, here.router, "gmpPausedUntil", int(gmp))
        outcome |= {
            "transaction": f"0x{transaction.hex()}",
            "pausedUntil": until if until > (await chain.head()).timestamp else None,
        }
    except CallRevertedError as error:
        outcome["error"] = explain_revert(error.data)
    except (RefusedPauseError, TransientError) as error:
        outcome["error"] = str(error)
    return outcome
