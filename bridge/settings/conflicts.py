"""Settings that are right by themselves and contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from bridge.policies import PolicyError, reliable
from bridge.relay import CommitStrategy

if TYPE_CHECKING:
    from bridge.settings.model import Settings


def conflicts(settings: Settings, wrong: frozenset[str] = frozenset()) -> list[str]:
    """What contradicts what, among the settings that can be used by themselves.

    Args:
        settings: all of them.
        wrong: names of those whose values can't be used; nothing is said about what depends on one of them.
    """
    return [problem for names, check in _CHECKS if not names & wrong for problem in check(settings)]


def _chains(settings: Settings) -> Iterator[str]:
    if both := settings.allow_chains & settings.deny_chains:
        yield f"chains: {', '.join(sorted(both))} is allowed and denied"


def _senders(settings: Settings) -> Iterator[str]:
    if both := settings.allow_senders & settings.deny_senders:
        yield f"senders: {', '.join(sorted(both))} is allowed and denied"


def _lease(settings: Settings) -> Iterator[str]:
    if settings.lease < 2 * settings.poll:
        yield f"lease is {settings.lease:g} s, less than two polls of {settings.poll:g} s: raise it"


def _commit(settings: Settings) -> Iterator[str]:
    if settings.commit is CommitStrategy.AUTO and not settings.unsafe:
        yield "commit is 'auto', which may lose and repeat messages: add unsafe = true if that is meant"


def _breaker(settings: Settings) -> Iterator[str]:
    if settings.breaker_cooldown > settings.breaker_cooldown_cap:
        yield (
            f"breaker_cooldown is {settings.breaker_cooldown:g} s, more than breaker_cooldown_cap"
            f" of {settings.breaker_cooldown_cap:g} s"
        )


def _reliability(settings: Settings) -> Iterator[str]:
    try:
        reliable(settings.reliability.values(settings.retry_policies(), settings.retention))
    except PolicyError as error:
        yield str(error)


_CHECKS: Final[tuple[tuple[frozenset[str], Callable[[Settings], Iterator[str]]], ...]] = (
    (frozenset({"allow_chains", "deny_chains"}), _chains),
    (frozenset({"allow_senders", "deny_senders"}), _senders),
    (frozenset({"lease", "poll"}), _lease),
    (frozenset({"commit", "unsafe"}), _commit),
    (frozenset({"breaker_cooldown", "breaker_cooldown_cap"}), _breaker),
    (frozenset({"reliability", "policies", "retention"}), _reliability),
)
