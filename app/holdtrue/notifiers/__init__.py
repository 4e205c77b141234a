"""the Notifier protocol and its kinds, one module each"""

from holdtrue.notifiers.alertmanager import Alertmanager, Member, Problem
from holdtrue.notifiers.alertmanager_alerts import Labels, StateAlert, bodies, of_database, of_episode
from holdtrue.notifiers.alertmanager_silences import LabelMatch, SilenceAnswer, expire, silence
from holdtrue.notifiers.kinds import KINDS, STATE_KEEPERS, build_notifier, build_state_keeper
from holdtrue.notifiers.limits import limits_of
from holdtrue.notifiers.notifier import MAY_HAVE_ARRIVED, Gathering, Notifier, OutageTeller
from holdtrue.notifiers.outages import Outage
from holdtrue.notifiers.readiness import ready
from holdtrue.notifiers.trial import Trial, try_cluster, try_notifier
from holdtrue.notifiers.webhook_body import body_schema

__all__ = [
    "KINDS",
    "MAY_HAVE_ARRIVED",
    "STATE_KEEPERS",
    "Alertmanager",
    "Gathering",
    "LabelMatch",
    "Labels",
    "Member",
    "Notifier",
    "Outage",
    "OutageTeller",
    "Problem",
    "SilenceAnswer",
    "StateAlert",
    "Trial",
    "bodies",
    "body_schema",
    "build_notifier",
    "build_state_keeper",
    "expire",
    "limits_of",
    "of_database",
    "of_episode",
    "ready",
    "silence",
    "try_cluster",
    "try_notifier",
]
