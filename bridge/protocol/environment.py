"""Placeholders in files, which are filled from the environment, and the cache folder for downloads.

`${NAME}` stands for an environment variable, so that a file can be published without secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def unset_placeholders(value: Any, path: str = "") -> Iterator[str]:
    """Yields the path and the variable of each placeholder in a JSON document whose variable is not set."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from unset_placeholders(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            name = item.get("name", index) if isinstance(item, dict) else index
            yield from unset_placeholders(item, f"{path}.{name}")
    elif isinstance(value, str):
        yield from (f"{path}: ${{{name}}}" for name in _PLACEHOLDER.findall(value) if not os.environ.get(name))


def expanded(value: Any) -> Any:
    """Returns the JSON document with placeholders replaced by their variables' values.

    Placeholders without a value stay.
    """
    if isinstance(value, dict):
        return {key: expanded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [expanded(item) for item in value]
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: os.environ.get(found[1]) or found[0], value)
    return value


def cache_folder() -> Path:
    """Returns the download folder of an installed package: ``waybill`` in XDG_CACHE_HOME, otherwise in ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "waybill"
