"""The root command: its subcommands, global options, and exit codes."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, Never

import typer
from rich.markup import escape
from typer._click.exceptions import NoArgsIsHelpError  # typer keeps its click to itself

from bridge.cli.extras import extra_of
from bridge.cli.logs import configure_logging
from bridge.cli.root import DEVNET, RootOptions, current, hoisted, use

_COMMANDS: Final = (
    "devnet",
    "network",
    "deploy",
    "send",
    "message",
    "action",
    "relayer",
    "index",
    "lane",
    "gmp",
    "role",
    "tripwire",
    "dlq",
    "decode-error",
    "store",
    "doctor",
    "status",
    "report",
    "web",
    "demo",
)
"""Each is a module of this package, with an `app` if it is a group of commands, else with a function of its name."""


class _Commands(typer.core.TyperGroup):
    """Imports a command's module on first use, since importing them all takes two seconds of processor time."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # what the base class is called with
        """Returns the names in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  # as above
        """Returns the command with that name, or None."""
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        try:
            module = import_module(f"bridge.cli.{name}")
        except ModuleNotFoundError as error:
            return _missing(cmd_name, error)
        if group := getattr(module, "app", None):
            command: Any = typer.main.get_group(group)
        else:
            single = typer.Typer(add_completion=False)
            single.command()(getattr(module, name))
            command = typer.main.get_command(single)
        command.name = cmd_name
        return command


def _missing(name: str, error: ModuleNotFoundError) -> Any:
    """Returns a placeholder for a command whose package is not installed.

    The help lists the placeholder, and running it raises `error`.
    """
    extra = extra_of(error)
    if extra is None:
        raise error

    def fail() -> Never:
        raise error

    return typer.core.TyperCommand(
        name,
        callback=fail,
        help=escape(f"Not installed: pip install 'waybill[{extra}]'"),
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


app = typer.Typer(
    name="waybill",
    cls=_Commands,
    help="Send messages over several GMPs, retry them without executing them twice, relay them, and verify what arrived.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  # typer calls it so
    if wanted:
        print(version("waybill"))
        raise typer.Exit


@app.callback()
def _options(
    *,
    show_version: Annotated[  # noqa: ARG001  # its callback prints
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    network: Annotated[
        str, typer.Option(envvar="WAYBILL_NETWORK", help="Network: the name of its file in deployments/.")
    ] = DEVNET,
    config: Annotated[
        Path | None,
        typer.Option(
            envvar="WAYBILL_CONFIG",
            help="Settings file. By default waybill.toml in WAYBILL_HOME, if it exists.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: answers, errors and log lines.")] = False,
    signer: Annotated[
        str | None,
        typer.Option(help="Sign as this account of the settings' table `accounts`.", metavar="NAME"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="WAYBILL_KEY",
            help="Sign with this private key. On the devnet, a well-known test key by default.",
            show_default=False,
        ),
    ] = None,
    safe: Annotated[
        str | None,
        typer.Option(
            help="Sign nothing, and write batches for the Safe at this address, to be imported in its app.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None,
) -> None:
    """See the command's help."""
    use(RootOptions(network=network, config=config, as_json=as_json, signer=signer, key=key, safe=safe))


def main() -> Never:
    """Runs the command. Every exit status is a member of `ExitCode`."""
    arguments = hoisted(sys.argv[1:])
    as_json = "--json" in arguments
    use(RootOptions(as_json=as_json))
    configure_logging(as_json=as_json, level=logging.WARNING)
    try:
        code = app(args=arguments, standalone_mode=False)
    except NoArgsIsHelpError:
        raise SystemExit(2) from None  # its text is the help, and is printed
    except ModuleNotFoundError:
        raise  # `explained` reports the extra that installs it
    except Exception as error:
        _end(error)
        raise
    raise SystemExit(code if isinstance(code, int) else 0)


def _end(error: Exception) -> None:
    """Exits with a one-line message for an expected error. Unexpected errors are bugs and keep their tracebacks."""
    from bridge.cli.errors import as_cli_error
    from bridge.cli.output import ExitCode, fail

    foreseen = as_cli_error(error)
    if foreseen is not None:
        fail(foreseen)
    if not current().as_json:
        return
    message = f"unexpected {type(error).__name__}: {error}"
    document = {"code": "UNEXPECTED", "message": message, "traceback": traceback.format_exception(error)}
    sys.stderr.write(json.dumps({"error": {**document, "next": "report it as a defect of Waybill"}}) + "\n")
    raise SystemExit(ExitCode.FAILED)
