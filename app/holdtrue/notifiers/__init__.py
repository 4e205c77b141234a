"""the Notifier protocol and its kinds, one module each"""

from holdtrue.notifiers.kinds import KINDS, build_notifier
from holdtrue.notifiers.notifier import MAY_HAVE_ARRIVED, Notifier

__all__ = ["KINDS", "MAY_HAVE_ARRIVED", "Notifier", "build_notifier"]
