"""Settings with constants that operators cannot change."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

_Settings = TypeVar("_Settings", bound=BaseModel)


def tuned(settings: _Settings, **constants: Any) -> _Settings:
    """The settings with other constants, such as `RESERVATION`, or other values, which are not validated."""
    return settings.model_copy(update=constants)
