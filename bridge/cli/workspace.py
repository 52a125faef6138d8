"""Locates a network's deployments file, settings and stores.

Opens the stores even while relayer and index are running.
"""

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
from bridge.protocol.indexed import IndexSource
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

# A devnet's keys are public and its ether is free, so its spending bounds are high.
_DEVNET_SETTINGS = {
    "relayer_key": RELAYER_KEY,
    "poll_interval": 0.25,
    "index": {"poll_interval": 0.05},
    "retry_for": [ANY],
    "actions": {"advance": True},
    "tripwire": {"key": TRIPWIRE_KEY, "max_clock_skew": 1},
    "spending": {"sender_per_day": "1000 ether", "lane_per_day": "1000 ether", "chain_per_day": "5000 ether"},
}


@dataclass(frozen=True, slots=True)
class Workspace:
    """The files and settings of one network.

    Attributes:
        network: the network's name.
        root: the folder of the files.
        config: the settings file given by the global option; None means the default.
        arguments: settings given as flags; a flag that is not given is None.
    """

    network: str
    root: Path
    config: Path | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def current(cls, network: str | None = None, **arguments: Any) -> Workspace:
        """Returns the workspace that the global options select, in the current folder or in ``WAYBILL_HOME``.

        Args:
            network: the network; None uses the option's.
            arguments: see the attribute.

        Raises:
            UsageError: ``WAYBILL_HOME`` is a file.
        """
        root = Path(os.environ.get("WAYBILL_HOME", "."))
        if root.exists() and not root.is_dir():
            raise UsageError(f"WAYBILL_HOME {root} is not a folder")
        return cls(network or current().network or DEVNET, root, current().config, arguments)

    @property
    def deployments_file(self) -> Path:
        """Returns the path of the file that `waybill deploy` writes and every other command reads."""
        return self.root / "deployments" / f"{self.network}.json"

    @property
    def plan_file(self) -> Path:
        """Returns the default path of the network file, which may not exist."""
        return self.root / "networks" / f"{self.network}.json"

    @property
    def state(self) -> Path:
        """Returns the folder of the default stores."""
        return self.root / ".waybill" / self.network

    @property
    def bridge_store(self) -> Path:
        """Returns the default path of the relayer's store."""
        return self.state / "bridge.db"

    @property
    def index_store(self) -> Path:
        """Returns the default path of the index's store."""
        return self.state / "index.db"

    @property
    def index_folder(self) -> IndexFolder:
        """Returns the configured locations of the index's store and lake."""
        settings = self.settings()
        lake = StorageLocation.of(settings.index_lake) if settings.index_lake else None
        return IndexFolder(path=self.state, store=settings.index_store, shared_lake=lake)

    @property
    def index_url(self) -> str:
        """Returns the URL of the index's store."""
        return self.index_folder.store_url

    @property
    def lake(self) -> StorageLocation:
        """Returns the location of the Delta lake."""
        return self.index_folder.lake

    def deployment(self) -> Deployment:
        """Reads the deployments file.

        Raises:
            CliError: the file does not exist.
            DeploymentError: the file is invalid.
        """
        try:
            text = self.deployments_file.read_text()
        except FileNotFoundError:
            how = "waybill devnet up" if self.network == DEVNET else "waybill deploy"
            raise CliError(
                f"network {self.network!r} is not deployed: {self.deployments_file} does not exist", next_step=how
            ) from None
        deployment = Deployment.from_json(text, str(self.deployments_file))
        check_sections(deployment, str(self.deployments_file))
        return deployment

    @property
    def settings_file(self) -> Path | None:
        """Returns the file given by the global option, or ``waybill.toml`` beside the deployments folder if it exists."""
        usual = self.root / FILE_NAME
        return self.config or (usual if usual.exists() else None)

    def settings(self) -> WaybillSettings:
        """Loads the network's settings.

        Raises:
            SettingsError: the settings are invalid.
        """
        defaults = {
            "store": f"sqlite:///{self.bridge_store}",
            "index_store": f"sqlite:///{self.index_store}",
            **(_DEVNET_SETTINGS if self.network == DEVNET else {}),
        }
        return WaybillSettings.load(self.settings_file, defaults, **self.arguments)

    @property
    def store(self) -> str:
        """Returns the URL of the relayer's store. A store that is configured must exist.

        The default store is created on first use. If a configured store is missing, the setting probably has a
        typo: a relayer with an empty store would repeat another relayer's deliveries, and lists would be empty.

        Raises:
            CliError: the configured store does not exist, or is a database without tables.
            StoreError: there is no store at the URL.
            SettingsError: the settings are invalid.
        """
        url = self.settings().store
        if url == f"sqlite:///{self.bridge_store}":
            return url
        # Imported here, because an installation without extras lacks SQLAlchemy.
        from sqlalchemy import make_url

        from bridge.store import is_store

        try:
            is_there = is_store(url)
        except StoreBusyError:
            is_there = True  # opening it waits, or reports the error
        if not is_there:
            shown = make_url(url).render_as_string(hide_password=True)
            raise CliError(
                f"no store at {shown}: the database does not exist or is empty; check the URL",
                next_step=f"for a new store: waybill relayer run --new-store --store {shown}",
            )
        return url

    def working_settings(self) -> WaybillSettings:
        """Loads the settings of a command that writes to the store, and creates the folder of the default store.

        Raises:
            CliError: see `store`.
            SettingsError: the settings are invalid, or mention chains that are not part of the network.
        """
        settings = self.settings().model_copy(update={"store": self.store})
        check_chains(settings, self.deployment())
        self.state.mkdir(parents=True, exist_ok=True)
        return settings

    @asynccontextmanager
    async def open_relayer(self, settings: Settings, index: IndexSource | None = None) -> AsyncIterator[RelayerService]:
        """Opens the network's relayer; see `relayer_service.open_relayer`. A devnet provides its own attesters."""
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
        """Opens the index. Yields None if no index has run yet."""
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
        """Opens the relayer's store. Yields None if no relayer has run yet.

        Raises:
            CliError: the configured store does not exist.
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
        """Opens the dead letters, which may be in a separate database. Yields None if no relayer has run yet."""
        url = self.settings().dlq.url or self.store
        if _is_missing_file(url):
            yield None
            return
        from bridge.store import is_store, open_dead_letters
        from bridge.store.dead_letters import dead_letter_log

        with closing(open_dead_letters(url)) if is_store(url, table=dead_letter_log) else nullcontext() as log:
            yield log


def _is_missing_file(url: str) -> bool:
    """Whether a URL refers to a SQLite file that does not exist. Needs no database library, since that is optional."""
    return url.startswith(_SQLITE) and not Path(url.removeprefix(_SQLITE).partition("?")[0]).exists()
