"""the table of kinds, and how a notifier is made from its configuration"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdtrue.errors import SettingsRefused
from holdtrue.model import NotifierConfig
from holdtrue.notifiers.alertmanager import Alertmanager, build_alertmanager
from holdtrue.notifiers.email import build_email
from holdtrue.notifiers.notifier import Notifier
from holdtrue.notifiers.pagerduty import build_pagerduty
from holdtrue.notifiers.slack import build_slack
from holdtrue.notifiers.webhook import build_webhook

KINDS: Mapping[str, Callable[[NotifierConfig, Mapping[str, str]], Notifier]] = {
    "slack": build_slack,
    "webhook": build_webhook,
    "pagerduty": build_pagerduty,
    "email": build_email,
}
"""Every kind with what builds it; a new kind is a module and a line here."""

STATE_KEEPERS: Mapping[str, Callable[[NotifierConfig, Mapping[str, str]], Alertmanager]] = {
    "alertmanager": build_alertmanager
}
"""The kinds that are told what fires, and are owed no messages (semantics 7.6)."""


def build_state_keeper(config: NotifierConfig, environ: Mapping[str, str]) -> Alertmanager:
    """Make the cluster that ``config`` describes; see `build_notifier`.

    Raises:
        SettingsRefused: a secret or a file cannot be read.
    """
    return STATE_KEEPERS[config.kind](config, environ)


def build_notifier(config: NotifierConfig, environ: Mapping[str, str]) -> Notifier:
    """Make the notifier that ``config`` describes; its secrets are read from ``environ`` now, and again at each use.

    Raises:
        SettingsRefused: the kind is unknown, an option is missing, or a secret cannot be read.
    """
    build = KINDS.get(config.kind)
    if build is None:
        raise SettingsRefused(
            f"notifier {config.name!r} is of the unknown kind {config.kind!r}", remedy=f"kinds are {', '.join(KINDS)}"
        )
    return build(config, environ)
