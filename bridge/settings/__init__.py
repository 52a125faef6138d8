"""Settings of the relayer: flags, else the environment (``WAYBILL_…``), else ``waybill.toml``, else a profile, else the defaults."""

from __future__ import annotations

from bridge.settings.model import Settings, check_chains
from bridge.settings.problems import SettingsError
from bridge.settings.sections import ANY, ChainSettings, PolicyOverride, SignerSource, SpendLimit
from bridge.settings.sources import FILE_NAME, PROFILES, Origin

__all__ = [
    "ANY",
    "FILE_NAME",
    "PROFILES",
    "ChainSettings",
    "Origin",
    "PolicyOverride",
    "Settings",
    "SettingsError",
    "SignerSource",
    "SpendLimit",
    "check_chains",
]
