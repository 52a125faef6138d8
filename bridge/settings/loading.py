"""Loads settings from all sources, and reports all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bridge.settings.problems import SettingsError, explain
from bridge.settings.sources import PREFIX, Origin, merged, origin_name, origins

Check = tuple[frozenset[str], Callable[[Any], Iterator[str]]]
"""Names of settings, and a function that yields a line for each contradiction between their values."""


class LoadedSettings(BaseSettings):
    """Base class for a program's settings, which combine the models of the program's components."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    PROFILES: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named sets of values, weaker than the file."""

    CHECKS: ClassVar[tuple[Check, ...]] = ()
    """Constraints between values that are valid individually."""

    SECRET: ClassVar[frozenset[str]] = frozenset()
    """Settings whose values may hold keys or passwords, and are never quoted."""

    _origins: list[Origin] = PrivateAttr(default=[])

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  # pydantic-settings' own signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  pydantic's signature
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Uses only the values from `load`, which reads the sources itself to know where each value comes from."""
        return (init_settings,)

    @classmethod
    def load(cls, file: Path | None = None, defaults: Mapping[str, Any] | None = None, /, **arguments: Any) -> Self:
        """Loads the settings from all sources.

        Args:
            file: a TOML file, or None.
            defaults: values that override only the models' own defaults.
            arguments: values that override everything else. A value of None is ignored.

        Raises:
            SettingsError: names or values are invalid. The message lists all of them.
        """
        sources = origins(cls, arguments, file, defaults or {}, cls.PROFILES)
        values, problems, invalid = merged(sources), list[str](), set[str]()
        try:
            settings = cls(**values)
        except ValidationError as error:
            problems = explain(error, cls.model_fields, lambda name: origin_name(sources, name), cls.SECRET)
            invalid = {str(item["loc"][0]) for item in error.errors()}
            settings = cls(**{name: value for name, value in values.items() if name not in invalid})
        for names, check in cls.CHECKS:  # even if other values are invalid, so that one error lists every problem
            problems += check(settings) if not names & invalid else ()
        if problems:
            raise SettingsError("\n  ".join(["invalid settings:", *problems]))
        settings._origins.extend(sources)
        return settings

    def origin(self, setting: str) -> str:
        """Returns the source of a setting."""
        return origin_name(self._origins, setting)
