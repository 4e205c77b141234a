"""performs one Run: query, compare with the ledger, decide, save everything together"""

from holdtrue.monitoring.clock import StoreClock
from holdtrue.monitoring.former import FormerDefinitions
from holdtrue.monitoring.monitor import Monitor, RunObserver, decide
from holdtrue.monitoring.recorder import Recorder

__all__ = ["FormerDefinitions", "Monitor", "Recorder", "RunObserver", "StoreClock", "decide"]
