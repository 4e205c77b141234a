"""what each kind cannot do, in a sentence for people (pure)"""

from __future__ import annotations

from typing import Final

from holdtrue.model import NotifierConfig

SLACK_WEBHOOK: Final = (
    "an incoming webhook adds a new message for every event; it cannot edit the former ones or use a thread"
)
WEBHOOK: Final = "a webhook is told each event by itself, and maybe twice: it has to tell repeats by their key"
GROUPED_WEBHOOK: Final = (
    "a webhook may be told an event twice: it has to tell repeats by the key of each alert in a body"
)
PAGERDUTY: Final = (
    "PagerDuty pages once for an incident: worsened and reminder are noted in one that is open, and page nobody; "
    "an alert that has ended before PagerDuty heard of it pages nobody; where a database is down, whoever joins its incident "
    "is noted there, and pages nobody"
)
EMAIL: Final = (
    "e-mail adds a message for every event to the alert's thread, and cannot edit the former ones; "
    "sent means that the mail server took it, not that anybody read it"
)
ALERTMANAGER: Final = (
    "an Alertmanager is told what fires, again and again, and each end: no reminders and no acknowledgements, and no "
    "message is owed to it, so that none is listed here"
)


def limits_of(config: NotifierConfig) -> str:
    """What a notifier that is configured so cannot do; empty if nothing. No secret is read for it."""
    if config.kind == "slack":
        return "" if config.option("token") is not None else SLACK_WEBHOOK
    if config.kind == "webhook":
        return GROUPED_WEBHOOK if config.option("group") is True else WEBHOOK
    return {"pagerduty": PAGERDUTY, "email": EMAIL, "alertmanager": ALERTMANAGER}.get(config.kind, "")
