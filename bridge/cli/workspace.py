"""A network's files: the deployments file, the settings, and the stores of relayer and index, which are read while both run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridge.cli.output import CliError, UsageError
from bridge.cli.root import DEVNET, current
from bridge.cli.settings import WaybillSettings
from bridge.devnet.accounts import RELAYER_KEY, TRIPWIRE_KEY
from bridge.gmps.registry import check_sections
from bridge.protocol.deployment import Deployment
from bridge.protocol.errors import StoreBusyError
from bridge.records.streams import IndexSource
from bridge.service.settings import Settings, check_chains
from bridge.settings import ANY, FILE_NAME
from indexer.model.settings import IndexFolder
from indexer.model.storage_location import StorageLocation

if TYPE_CHECKING:
    from bridge.service.relayer_service import RelayerService
    from bridge.store import Store
    from bridge.store.dead_letters import DeadLetterLog
    from indexer.store.browser import IndexBrowser

_SQLITE: Final = "sqlite:///"

# Its chains are on this machine, its keys are public, and its money is free: only a storm comes near these bounds.
_DEVNET_SETTINGS = {
    "relayer_key": RELAYER_KEY,
    "poll_interval": 0.25,
    "index": {"poll_interval": 0.05},
    "retry_for": [ANY],
    "actions": {"advance": True, "poll_interval": 0.5},
    "tripwire": {"key": TRIPWIRE_KEY, "max_clock_skew": 1},
    "spending": {"sender_per_day": "1000 ether", "lane_per_day": "1000 ether", "chain_per_day": "5000 ether"},
}


@dataclass(frozen=True, slots=True)
class Workspace:
    """One network's files below the current folder, and its settings: the same for whatever a command asks of it.

    Attributes:
        network: its name.
        root: where the files are.
        config: the settings file that a flag names; None is the usual one.
        arguments: what flags say of settings; None counts as not given.
    """

    network: str
    root: Path
    config: Path | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, network: str, config: Path | None = None, **arguments: Any) -> Workspace:
        """The network's files below the current folder, or below ``WAYBILL_HOME``.

        Raises:
            UsageError: ``WAYBILL_HOME`` is a file.
        """
        root = Path(os.environ.get("WAYBILL_HOME", "."))
        if root.exists() and not root.is_dir():
            raise UsageError(f"WAYBILL_HOME {root} is not a folder")
        return cls(network, root, config, arguments)

    @classmethod
    def current(cls, **arguments: Any) -> Workspace:
        """The workspace of the network and settings file that the root's options name.

        Raises:
            UsageError: see `of`.
        """
        return cls.of(current().network or DEVNET, current().config, **arguments)

    @property
    def deployments_file(self) -> Path:
        """Written by `waybill deploy`, read by everything else."""
        return self.root / "deployments" / f"{self.network}.json"

    @property
    def plan_file(self) -> Path:
        """Where the network's plan usually is; nothing needs it to be there."""
        return self.root / "networks" / f"{self.network}.json"

    @property
    def state(self) -> Path:
        """The files of relayer and indexer; losing them costs time, not messages."""
        return self.root / ".waybill" / self.network

    @property
    def bridge_store(self) -> Path:
        """The relayer's store, unless the settings name another one."""
        return self.state / "bridge.db"

    @property
    def index_store(self) -> Path:
        """The index's store, unless the settings name another one (`index_folder`)."""
        return self.state / "index.db"

    @property
    def index_folder(self) -> IndexFolder:
        """Where the index keeps what it keeps, as the settings say."""
        settings = self.settings()
        lake = StorageLocation.of(settings.index_lake) if settings.index_lake else None
        return IndexFolder(path=self.state, store=settings.index_store, shared_lake=lake)

    @property
    def index_url(self) -> str:
        """The index's store."""
        return self.index_folder.store_url

    @property
    def lake(self) -> StorageLocation:
        """The Delta lake with finalised events."""
        return self.index_folder.lake

    def deployment(self) -> Deployment:
        """Reads the deployments file.

        Raises:
            CliError: there is none.
            DeploymentError: it can't be used.
        """
        try:
            text = self.deployments_file.read_text()
        except FileNotFoundError:
            how = "waybill devnet up" if self.network == DEVNET else "waybill deploy"
            raise CliError(
                f"network {self.network!r} is not deployed: there is no {self.deployments_file}", next_step=how
            ) from None
        deployment = Deployment.from_json(text, str(self.deployments_file))
        check_sections(deployment, str(self.deployments_file))
        return deployment

    @property
    def settings_file(self) -> Path | None:
        """The file that a flag or ``WAYBILL_CONFIG`` names, else ``waybill.toml`` next to the deployments folder, if it is there."""
        usual, variable = self.root / FILE_NAME, os.environ.get("WAYBILL_CONFIG")
        return self.config or (Path(variable) if variable else usual if usual.exists() else None)

    def settings(self) -> WaybillSettings:
        """The relayer's settings on this network.

        Raises:
            SettingsError: they can't be used.
        """
        defaults = {
            "store": f"sqlite:///{self.bridge_store}",
            "index_store": f"sqlite:///{self.index_store}",
            **(_DEVNET_SETTINGS if self.network == DEVNET else {}),
        }
        return WaybillSettings.load(self.settings_file, defaults, **self.arguments)

    @property
    def store(self) -> str:
        """The URL of the relayer's store. One that is named has to be there.

        The store in the usual place is made when it is first needed. A name is more likely mistyped: a relayer with an empty
        store would start to deliver what another one has delivered, and a list would say that there is nothing.

        Raises:
            CliError: the settings name a store that is not there, or a database without tables.
            StoreError: they name something else.
            SettingsError: the settings can't be used.
        """
        url = self.settings().store
        if url == f"sqlite:///{self.bridge_store}":
            return url
        # A small installation has no stores: they are loaded where one is named.
        from sqlalchemy import make_url

        from bridge.store import is_store

        try:
            is_there = is_store(url)
        except StoreBusyError:
            is_there = True  # opening it says so, or waits
        if not is_there:
            shown = make_url(url).render_as_string(hide_password=True)
            raise CliError(
                f"there is no store in {shown}: nothing is there, or an empty database; check the URL",
                next_step=f"for a new store: waybill relayer run --new-store --store {shown}",
            )
        return url

    def working_settings(self) -> WaybillSettings:
        """The settings for a command that works on the store; makes the folder of the usual one.

        Raises:
            CliError: see `store`.
            SettingsError: the settings can't be used, or name chains that the network does not have.
        """
        settings = self.settings().model_copy(update={"store": self.store})
        check_chains(settings, self.deployment())
        self.state.mkdir(parents=True, exist_ok=True)
        return settings

    def check_relayer(self, settings: Settings) -> None:
        """Makes sure that `waybill relayer run` can start with those settings; see `check_relayer`. Connects to nothing.

        Raises:
            CliError: the network is not deployed, or the store in a file that the settings name is not there.
            SettingsError: they lack something.
        """
        from bridge.service.startup_checks import check_relayer

        check_relayer(settings, self.deployment(), has_attesters=self.network == DEVNET)
        if settings.store.startswith("sqlite:"):
            _ = self.store

    @asynccontextmanager
    async def open_relayer(self, settings: Settings, index: IndexSource | None = None) -> AsyncIterator[RelayerService]:
        """A relayer of the network; see `open_relayer`. A devnet brings the attesters of its GMPs itself."""
        from bridge.devnet.gmps import devnet_attesters
        from bridge.service.relayer_service import open_relayer

        attesters = devnet_attesters if self.network == DEVNET else None
        async with open_relayer(self.deployment(), settings, attesters, index) as bridge:
            yield bridge

    @contextmanager
    def index(self) -> Iterator[IndexBrowser]:
        """Opens the index.

        Raises:
            CliError: no index has run yet.
        """
        with self.index_if_any() as index:
            if index is None:
                raise CliError(f"network {self.network!r} has no index yet", next_step="waybill index run")
            yield index

    @contextmanager
    def index_if_any(self) -> Iterator[IndexBrowser | None]:
        """Opens the index; None if no index has run yet."""
        if _is_missing_file(self.index_url):
            yield None
            return
        from indexer.model.errors import NoIndexError
        from indexer.store.browser import IndexBrowser
        from indexer.store.engine import may_exist

        with ExitStack() as stack:
            index = None
            if may_exist(self.index_url):
                with suppress(NoIndexError):
                    index = stack.enter_context(IndexBrowser(self.index_url))
            yield index

    @contextmanager
    def relayer_store(self) -> Iterator[Store | None]:
        """Opens the relayer's store; None if no relayer has run yet.

        Raises:
            CliError: the settings name a store that is not there.
        """
        url = self.store
        if _is_missing_file(url):
            yield None
            return
        from bridge.store import is_store, open_store

        with closing(open_store(url)) if is_store(url) else nullcontext() as store:
            yield store

    @contextmanager
    def letters(self) -> Iterator[DeadLetterLog | None]:
        """Opens the dead letters, which may be in a database of their own; None if no relayer has run yet."""
        url = self.settings().dlq.url or self.store
        if _is_missing_file(url):
            yield None
            return
        from bridge.store import is_store, open_dead_letters
        from bridge.store.dead_letters import dead_letter_log

        with closing(open_dead_letters(url)) if is_store(url, table=dead_letter_log) else nullcontext() as log:
            yield log


def _is_missing_file(url: str) -> bool:
    """Whether a URL names a SQLite file that does not exist. Needs no database library, which a small installation lacks."""
    return url.startswith(_SQLITE) and not Path(url.removeprefix(_SQLITE).partition("?")[0]).exists()
