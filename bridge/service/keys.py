"""Opens the keys in the settings, for paying for deliveries, pausing GMPs and sealing dead letters."""

from __future__ import annotations

from eth_account.signers.local import LocalAccount

from bridge.dead_letters.signing import KeySealer
from bridge.evm.settings import SignerSource
from bridge.evm.signing import LocalSigner, RemoteSigner, Signer, environment_signer, keystore_signer
from bridge.protocol.deployment import Deployment
from bridge.service.settings import Settings
from bridge.settings import SettingsError

_NOBODY_SEALS = (
    "no key to seal dead letters with: set `key` in [dlq], or name a signer with an environment variable or a keystore"
    " (a remote signer signs transactions only)"
)
_NOBODY_PAUSES = "no key for the tripwire: set `key`, or `account` to the name of one in [accounts], in [tripwire]"


def paying_signers(settings: Settings, deployment: Deployment) -> dict[int, list[Signer]]:
    """Returns the signers that pay for deliveries, by chain.

    Raises:
        SettingsError: chains have no paying signer. The message lists them.
        InvalidKeyError: a key is invalid or can't be opened.
    """
    sources = [settings.account(name) for name in settings.signers]
    problems = [
        f"no key pays for deliveries to {deployed.name}: set WAYBILL_RELAYER_KEY, or name an account of [accounts] in signers"
        for deployed in deployment.chains
        if settings.relayer_key is None
        and not any(not source.chains or deployed.name in source.chains for source in sources)
    ]
    if problems:
        raise SettingsError("\n".join(problems))
    named: list[tuple[Signer, frozenset[str]]] = [(opened(source), source.chains) for source in sources]
    if settings.relayer_key is not None:
        named.insert(0, (LocalSigner.from_key(settings.relayer_key.get_secret_value()), frozenset()))
    return {
        deployed.chain_id: [signer for signer, chains in named if not chains or deployed.name in chains]
        for deployed in deployment.chains
    }


def tripwire_signer(settings: Settings) -> Signer:
    """Returns the account that pauses GMPs.

    Raises:
        SettingsError: no key or account is configured, or no account has that name.
        InvalidKeyError: the key is invalid or can't be opened.
    """
    table = settings.tripwire
    if table.key is not None:
        return LocalSigner.from_key(table.key.get_secret_value())
    if table.account is None:
        raise SettingsError(_NOBODY_PAUSES)
    return opened(settings.account(table.account))


def open_sealer(settings: Settings) -> KeySealer:
    """Returns the sealer of dead letters.

    It uses its own key, the relayer's key, or the first local signer's, in this order.

    Raises:
        SettingsError: no such key is configured.
        InvalidKeyError: the key is invalid or can't be opened.
    """
    key = settings.dlq.key or settings.relayer_key
    if key is not None:
        return KeySealer(LocalSigner.from_key(key.get_secret_value()).account)
    for source in map(settings.account, settings.signers):
        if source.remote is None:
            return KeySealer(local_account(source))
    raise SettingsError(_NOBODY_SEALS)


def opened(source: SignerSource) -> Signer:
    """Opens the signer of a source.

    Raises:
        InvalidKeyError: the key is invalid or can't be opened.
    """
    if source.remote is not None and source.address is not None:
        return RemoteSigner(source.remote, source.address, certificate=source.certificate, authority=source.authority)
    return LocalSigner(local_account(source))


def local_account(source: SignerSource) -> LocalAccount:
    """Opens the account of a local key."""
    if source.environment is not None:
        return environment_signer(source.environment).account
    assert source.keystore is not None
    assert source.password_file is not None
    return keystore_signer(source.keystore, source.password_file).account
