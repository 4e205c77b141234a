"""decides what a run, or time alone, means for an alert and its health (pure)"""

from holdtrue.alerting.acknowledging import acknowledge, unacknowledge
from holdtrue.alerting.budget import OverBudget, first_day, least_budget, over_budget
from holdtrue.alerting.decision import decide
from holdtrue.alerting.proving import CanaryState, Proven, Turn, Turned, WhyProven, WhyTurn, last_proven, turn
from holdtrue.alerting.reach import unreachable
from holdtrue.alerting.redefinition import wants_former
from holdtrue.alerting.review import review, withdraw
from holdtrue.alerting.routing import Routed, WhyTold, labels_for, recipients, routed, routed_by
from holdtrue.alerting.silencing import (
    Lifted,
    end_of,
    is_in_force,
    labels_of,
    lift,
    parse_matchers,
    require_sound,
    silence_of,
    silenced_by,
)
from holdtrue.alerting.total import Shard, Total, sum_up
from holdtrue.alerting.verdict import verdict
from holdtrue.model import matches

__all__ = [
    "CanaryState",
    "Lifted",
    "OverBudget",
    "Proven",
    "Routed",
    "Shard",
    "Total",
    "Turn",
    "Turned",
    "WhyProven",
    "WhyTold",
    "WhyTurn",
    "acknowledge",
    "decide",
    "end_of",
    "first_day",
    "is_in_force",
    "labels_for",
    "labels_of",
    "last_proven",
    "least_budget",
    "lift",
    "matches",
    "over_budget",
    "parse_matchers",
    "recipients",
    "require_sound",
    "review",
    "routed",
    "routed_by",
    "silence_of",
    "silenced_by",
    "sum_up",
    "turn",
    "unacknowledge",
    "unreachable",
    "verdict",
    "wants_former",
    "withdraw",
]
