"""decides what a run, or time alone, means for an alert and its health (pure)"""

from holdtrue.alerting.budget import OverBudget, first_day, least_budget, over_budget
from holdtrue.alerting.decision import decide
from holdtrue.alerting.reach import unreachable
from holdtrue.alerting.redefinition import wants_former
from holdtrue.alerting.review import review, withdraw
from holdtrue.alerting.total import Shard, Total, sum_up
from holdtrue.alerting.verdict import verdict

__all__ = [
    "OverBudget",
    "Shard",
    "Total",
    "decide",
    "first_day",
    "least_budget",
    "over_budget",
    "review",
    "sum_up",
    "unreachable",
    "verdict",
    "wants_former",
    "withdraw",
]
