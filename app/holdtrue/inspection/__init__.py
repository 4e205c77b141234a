"""asks a replica for a person, outside the schedule, and saves nothing (run, diff, explain, doctor)"""

from holdtrue.inspection.asking import RAW_ROWS, Asked, RawRows, ask_now
from holdtrue.inspection.choosing import SELECTORS, choose
from holdtrue.inspection.connecting import connected
from holdtrue.inspection.diagnosis import Diagnosis, diagnose
from holdtrue.inspection.findings import Finding, Weight

__all__ = [
    "RAW_ROWS",
    "SELECTORS",
    "Asked",
    "Diagnosis",
    "Finding",
    "RawRows",
    "Weight",
    "ask_now",
    "choose",
    "connected",
    "diagnose",
]
