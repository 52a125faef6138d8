"""Keys that this process holds, from wherever they are kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

from eth_account import Account

from bridge.sending import InvalidKeyError, LocalSigner


def environment_signer(variable: str) -> LocalSigner:
    """The key in an environment variable.

    Raises:
        InvalidKeyError: the variable is not set, or holds no key.
    """
    key = os.environ.get(variable)
    if not key:
        raise InvalidKeyError(f"variable {variable} is to hold a signer's private key, and is not set")
    try:
        return LocalSigner.from_key(key)
    except InvalidKeyError as error:
        raise InvalidKeyError(f"variable {variable}: {error}") from None


def keystore_signer(keystore: Path, password_file: Path) -> LocalSigner:
    """The key in a version 3 keystore file, as geth, Foundry and eth-account write it. Opening it takes about a second.

    Raises:
        InvalidKeyError: a file can't be read, the keystore is none, or the password is not its own.
    """
    try:
        document = json.loads(keystore.read_text(encoding="utf-8"))
        password = password_file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise InvalidKeyError(f"keystore {keystore} with password file {password_file}: {error}") from None
    try:
        return LocalSigner(Account.from_key(Account.decrypt(document, password)))
    except Exception as error:  # noqa: BLE001  # eth_account raises many kinds; a wrong password is a ValueError
        raise InvalidKeyError(f"keystore {keystore} can't be opened: {error}") from None
