"""How every kind of error ends: its exit code, and the next thing to type."""

from __future__ import annotations

from typing import Final

from typer.exceptions import TyperException

from bridge.api import ListeningError
from bridge.chains import WrongChainIdError
from bridge.cli.output import CliError, ExitCode
from bridge.client import NotIncludedError, RefusedError, UnknownMessageError
from bridge.deploying import DeployError, PlanError
from bridge.devnet import DevnetError, PortTakenError
from bridge.dlq.decisions import DecisionError
from bridge.ports import TerminalError, TransientError
from bridge.protocol.addresses import AddressError
from bridge.protocol.deployment import DeploymentError
from bridge.protocol.gmps import UnknownGmpError
from bridge.records.dead_letters import BrokenLogError
from bridge.records.errors import StoreError
from bridge.relay import CommitsHaltedError
from bridge.sending import InvalidKeyError
from bridge.settings import SettingsError
from indexer.errors import IndexerError

# The first class that fits decides, so subclasses stand before their bases.
_ENDS: Final[tuple[tuple[type[Exception], ExitCode, str | None], ...]] = (
    (UnknownMessageError, ExitCode.UNKNOWN_ID, "waybill message list"),
    (AddressError, ExitCode.USAGE, None),
    (UnknownGmpError, ExitCode.USAGE, None),
    (InvalidKeyError, ExitCode.USAGE, None),
    (SettingsError, ExitCode.USAGE, None),
    (ListeningError, ExitCode.USAGE, None),
    (PlanError, ExitCode.USAGE, None),
    (PortTakenError, ExitCode.FAILED, None),
    (WrongChainIdError, ExitCode.FAILED, None),
    (TransientError, ExitCode.FAILED, "waybill status"),
    (DeploymentError, ExitCode.FAILED, None),
    (DeployError, ExitCode.FAILED, None),
    (DevnetError, ExitCode.FAILED, None),
    (IndexerError, ExitCode.FAILED, None),
    (NotIncludedError, ExitCode.FAILED, None),
    (RefusedError, ExitCode.FAILED, None),
    (StoreError, ExitCode.FAILED, None),
    (CommitsHaltedError, ExitCode.FAILED, "waybill relayer run"),
    (DecisionError, ExitCode.FAILED, None),
    (BrokenLogError, ExitCode.FAILED, "waybill dlq verify"),
    (TerminalError, ExitCode.FAILED, None),
)


def as_cli_error(error: Exception) -> CliError | None:
    """The error as the command ends with it, or None if nobody foresaw it: then its traceback is what helps."""
    if isinstance(error, CliError):
        return error
    if isinstance(error, TyperException):
        return CliError(
            error.format_message(), code=ExitCode.USAGE, next_step="add --help to see what the command takes"
        )
    if isinstance(error, ExceptionGroup):
        return _first(error)
    for kind, code, next_step in _ENDS:
        if isinstance(error, kind):
            return CliError(str(error), code=code, next_step=next_step)
    return None


def _first(group: ExceptionGroup[Exception]) -> CliError | None:
    """Tasks that fail together end as a group; one reason is enough if it is foreseen."""
    known = [found for found in map(as_cli_error, group.exceptions) if found]
    return known[0] if len(known) == len(group.exceptions) else None
