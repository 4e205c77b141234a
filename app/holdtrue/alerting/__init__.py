"""decides what a run, or time alone, means for an alert and its health (pure)"""

from holdtrue.alerting.decision import decide
from holdtrue.alerting.review import review, withdraw
from holdtrue.alerting.verdict import verdict

__all__ = ["decide", "review", "verdict", "withdraw"]
