"""the Notifier protocol and its kinds, one module each"""

from holdtrue.notifiers.kinds import KINDS, build_notifier
from holdtrue.notifiers.notifier import Notifier

__all__ = ["KINDS", "Notifier", "build_notifier"]
