"""reads a notifier's options: secrets now, to refuse what cannot be read, and again at each message"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdtrue.catalog import resolve_secret
from holdtrue.errors import SettingsRefused
from holdtrue.model import NotifierConfig, Secret


def secret_of(config: NotifierConfig, key: str, environ: Mapping[str, str]) -> Callable[[], str] | None:
    """What gives the option's value; None if it is not set. Secrets are read anew each time: they rotate (semantics 1.7).

    Raises:
        SettingsRefused: it cannot be read now; what is given may raise it later.
    """
    option = config.option(key)
    if option is None or option == "":
        return None
    if not isinstance(option, Secret):
        return lambda: str(option)
    resolve_secret(option, environ)
    return lambda: resolve_secret(option, environ)


def wanted_secret(config: NotifierConfig, key: str, environ: Mapping[str, str]) -> Callable[[], str]:
    """The same, of an option without which the kind cannot work.

    Raises:
        SettingsRefused: it is not set, or cannot be read.
    """
    found = secret_of(config, key, environ)
    if found is None:
        raise SettingsRefused(
            f"notifier {config.name!r} has no `{key}`", remedy=f"a notifier of kind {config.kind} needs it"
        )
    return found


def text_of(config: NotifierConfig, key: str, default: str = "") -> str:
    """The option as text."""
    option = config.option(key)
    return default if option is None else str(option)
