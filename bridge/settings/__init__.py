"""Reads a program's settings.

In order of precedence: flags, the environment (``WAYBILL_…``), ``waybill.toml``, a profile, defaults.
Components declare their settings in models derived from `Section`. This package knows none of them.
"""

from __future__ import annotations

from bridge.settings.loading import Check, LoadedSettings
from bridge.settings.problems import SettingsError
from bridge.settings.sources import FILE_NAME, Origin, unknown_variables
from bridge.settings.values import (
    ANY,
    Address,
    Addresses,
    AddressesOrAny,
    Gmps,
    Keys,
    LaneRule,
    Names,
    OrderedNames,
    Section,
    Wei,
)

__all__ = [
    "ANY",
    "FILE_NAME",
    "Address",
    "Addresses",
    "AddressesOrAny",
    "Check",
    "Gmps",
    "Keys",
    "LaneRule",
    "LoadedSettings",
    "Names",
    "OrderedNames",
    "Origin",
    "Section",
    "SettingsError",
    "Wei",
    "unknown_variables",
]
