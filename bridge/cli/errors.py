"""Maps every kind of error to an exit code and a next step."""

from __future__ import annotations

from typing import Final

from typer.exceptions import TyperException

from bridge.cli.output import CliError, ExitCode
from bridge.client import NotIncludedError, RefusedError, UnknownMessageError
from bridge.dead_letters.decisions import DecisionError
from bridge.deploy.addresses import UnknownChainError
from bridge.deploy.plan import PlanError
from bridge.deploy.transactions import DeployError
from bridge.devnet import DevnetError, PortTakenError
from bridge.evm.rpc_answers import RpcError
from bridge.evm.signing import InvalidKeyError
from bridge.protocol.addresses import AddressError
from bridge.protocol.deployment import DeploymentError, NoSuchChainError
from bridge.protocol.errors import StoreError
from bridge.protocol.gmps import UnknownGmpError
from bridge.protocol.ports import CallRevertedError, TerminalError, TransientError
from bridge.queries.lanes import LaneHaltedError
from bridge.records.dead_letters import BrokenLogError
from bridge.relayer.delivery_commits import CommitsHaltedError
from bridge.service.listening import ListeningError
from bridge.settings import SettingsError
from indexer.model.errors import IndexerError, QueryError

_READ_HELP: Final = "--help shows the command's options"
_AGAIN: Final = "fix the cause and run the same command again: it continues"
_MEND_PLAN: Final = "correct the network file, or the variables it names, and run the same command again"

# The first matching class decides, so subclasses come before their bases.
_ENDS: Final[tuple[tuple[type[Exception], ExitCode, str | None], ...]] = (
    (UnknownMessageError, ExitCode.UNKNOWN_ID, "waybill message list"),
    (AddressError, ExitCode.USAGE, _READ_HELP),
    (NoSuchChainError, ExitCode.USAGE, _READ_HELP),
    (UnknownGmpError, ExitCode.USAGE, _READ_HELP),
    (InvalidKeyError, ExitCode.USAGE, _READ_HELP),
    (SettingsError, ExitCode.USAGE, "waybill doctor --offline"),
    (ListeningError, ExitCode.USAGE, _READ_HELP),
    (UnknownChainError, ExitCode.USAGE, "waybill network create"),
    (PlanError, ExitCode.USAGE, _MEND_PLAN),
    (PortTakenError, ExitCode.FAILED, "waybill devnet status"),
    (RpcError, ExitCode.FAILED, "waybill doctor"),
    (TransientError, ExitCode.FAILED, "waybill status"),
    (CallRevertedError, ExitCode.FAILED, "waybill doctor"),
    (DeploymentError, ExitCode.FAILED, "waybill doctor"),
    (DeployError, ExitCode.FAILED, _AGAIN),
    (DevnetError, ExitCode.FAILED, "waybill devnet status"),
    (QueryError, ExitCode.FAILED, "waybill index sql --help"),
    (IndexerError, ExitCode.FAILED, "waybill doctor"),
    (NotIncludedError, ExitCode.FAILED, "waybill status"),
    (RefusedError, ExitCode.FAILED, None),
    (StoreError, ExitCode.FAILED, "waybill doctor"),
    (LaneHaltedError, ExitCode.FAILED, "waybill lane list"),
    (CommitsHaltedError, ExitCode.FAILED, "waybill relayer run"),
    (DecisionError, ExitCode.FAILED, "waybill dlq list"),
    (BrokenLogError, ExitCode.FAILED, "waybill dlq verify"),
    (TerminalError, ExitCode.FAILED, "waybill doctor"),
)


def as_cli_error(error: Exception) -> CliError | None:
    """Returns the error to print, or None for an unexpected error, which keeps its traceback."""
    if isinstance(error, CliError):
        return error
    if isinstance(error, TyperException):
        return CliError(error.format_message(), code=ExitCode.USAGE, next_step=_READ_HELP)
    if isinstance(error, ExceptionGroup):
        return _first(error)
    if isinstance(error, OSError) and error.filename is not None:
        return CliError(f"{error.filename}: {error.strerror}", next_step="check the path and its permissions")
    for kind, code, next_step in _ENDS:
        if isinstance(error, kind):
            # A text that names a command has its own next step.
            return CliError(str(error), code=code, next_step=None if "waybill " in str(error) else next_step)
    return None


def _first(group: ExceptionGroup[Exception]) -> CliError | None:
    """Returns the first of several concurrent errors, if all of them are expected errors."""
    known = [found for found in map(as_cli_error, group.exceptions) if found]
    return known[0] if len(known) == len(group.exceptions) else None
