"""Who makes a call that only a role of the router may make: a key, a keystore, a remote signer, or the owners of a Safe."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bridge.cli.output import UsageError, result
from bridge.cli.workspace import DEVNET
from bridge.deploy.safe import Batch
from bridge.devnet.accounts import DEPLOYER_KEY
from bridge.evm.signing import LocalSigner, RemoteSigner, Signer, keystore_signer


@dataclass(frozen=True, slots=True)
class Decider:
    """What the options say about the account that decides."""

    key: str | None
    keystore: Path | None
    password_file: Path | None
    signer_url: str | None
    signer_address: str | None
    safe: str | None

    def signer(self, network: str) -> Signer:
        """The account that signs; on the devnet the routers' owner by default.

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
            next_step = "set WAYBILL_KEY, or give --key, --keystore, --signer-url or --safe"
            raise UsageError("no key to sign with", next_step=next_step)
        return LocalSigner.from_key(self.key or DEPLOYER_KEY)


def _options(
    *,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="WAYBILL_KEY",
            help="Private key to sign with. On the devnet the routers' owner's by default.",
            show_default=False,
        ),
    ] = None,
    keystore: Annotated[
        Path | None, typer.Option(help="A version 3 keystore file, in place of --key.", show_default=False)
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option(help="With the keystore's password.", show_default=False)
    ] = None,
    signer_url: Annotated[
        str | None, typer.Option(help="A remote signer's JSON-RPC, in place of --key.", show_default=False)
    ] = None,
    signer_address: Annotated[str | None, typer.Option(help="The remote signer's account.", show_default=False)] = None,
    safe: Annotated[
        str | None,
        typer.Option(
            help="A Safe at this address decides: write batches for its app instead of sending.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None,
) -> Decider:
    return Decider(key, keystore, password_file, signer_url, signer_address, safe)


def with_decider(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command these options; it takes them as `decider`."""
    added = inspect.signature(_options, eval_str=True).parameters

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        command(decider=_options(**{name: given.pop(name) for name in added}), **given)

    own = inspect.signature(command, eval_str=True)
    kept = [one for one in own.parameters.values() if one.name != "decider"]
    parameters = [*kept, *added.values()]
    with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options


def print_batches(batches: Sequence[Batch], *, then: str, as_json: bool) -> None:
    """Prints the files for a Safe's app, with the hashes that its owners compare.

    Args:
        batches: in the order of their execution.
        then: what is to be done when all are executed.
        as_json: as the option says.
    """
    value = [
        {
            "chain": batch.chain,
            "file": str(batch.file),
            "transactions": [one.transaction.name for one in batch.estimates],
            "gas": batch.gas,
            "nonce": batch.signed.nonce,
            "safeTxHash": f"0x{batch.signed.hash.hex()}",
            "domainHash": f"0x{batch.signed.domain_hash.hex()}",
            "messageHash": f"0x{batch.signed.message_hash.hex()}",
        }
        for batch in batches
    ]
    lines = [
        f"{batch.file}: {batch.gas:,} gas, nonce {batch.signed.nonce}:"
        f" {', '.join(one.transaction.name for one in batch.estimates)}\n"
        f"  Safe transaction hash 0x{batch.signed.hash.hex()}\n"
        f"  domain hash           0x{batch.signed.domain_hash.hex()}\n"
        f"  message hash          0x{batch.signed.message_hash.hex()}"
        for batch in batches
    ]
    lines.append(
        "next: import each file in the Safe's transaction builder, in this order; compare the hashes before you sign; once all"
        f" are executed, {then}"
    )
    result(value, as_json=as_json, render=lambda console: console.print("\n".join(lines), markup=False, soft_wrap=True))
