"""The command itself: its groups, and how every error ends."""

from __future__ import annotations

import logging
import signal
import sys
from importlib.metadata import version
from typing import Annotated, Never

import typer

from bridge.cli import (
    api,
    config,
    contracts,
    demo,
    deploy,
    devnet,
    dlq,
    doctor,
    index,
    lane,
    message,
    relayer,
    report,
    send,
    status,
    store,
    sync,
    web,
)
from bridge.cli.errors import as_cli_error
from bridge.cli.output import ExitCode, fail
from bridge.logs import configure_logging

app = typer.Typer(
    name="waybill",
    help="Send a message over several GMPs, retry it without executing it twice, relay it, and prove what arrived.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(devnet.app, name="devnet")
app.command("deploy")(deploy.deploy)
app.command("send")(send.send)
app.add_typer(message.app, name="message")
app.add_typer(relayer.app, name="relayer")
app.add_typer(index.app, name="index")
app.add_typer(lane.app, name="lane")
app.add_typer(dlq.app, name="dlq")
app.add_typer(sync.app, name="sync")
app.add_typer(config.app, name="config")
app.command("abi")(contracts.abi)
app.command("decode-error")(contracts.decode_error)
app.command("api")(api.api)
app.add_typer(store.app, name="store")
app.command("doctor")(doctor.doctor)
app.command("status")(status.status)
app.command("report")(report.report)
app.command("web")(web.web)
app.command("demo")(demo.demo)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  # typer calls it so
    if wanted:
        print(version("waybill"))
        raise typer.Exit


@app.callback()
def _options(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """See the group's help."""


def main() -> Never:
    """Runs the command; every end is an exit code of `ExitCode`, and 130 for Ctrl-C."""
    as_json = "--json" in sys.argv
    configure_logging(as_json=as_json, level=logging.WARNING)
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except Exception as error:
        foreseen = as_cli_error(error)
        if foreseen is None:
            raise
        fail(foreseen, as_json=as_json)
    raise SystemExit(code if isinstance(code, int) else ExitCode.OK)
