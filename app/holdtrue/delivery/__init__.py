"""claims owed notifications, sends them in order, retries"""

from holdtrue.delivery.retries import (
    FIRST_WAIT,
    LOGIN_MENDED_WITHIN,
    LONGEST_PAUSE,
    LONGEST_WAIT,
    SHORTEST_WAIT,
    Retry,
    decide_retry,
)
from holdtrue.delivery.sending import LEASE, Delivery, as_a_proof

__all__ = [
    "FIRST_WAIT",
    "LEASE",
    "LOGIN_MENDED_WITHIN",
    "LONGEST_PAUSE",
    "LONGEST_WAIT",
    "SHORTEST_WAIT",
    "Delivery",
    "Retry",
    "as_a_proof",
    "decide_retry",
]
