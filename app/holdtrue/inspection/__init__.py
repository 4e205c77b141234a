"""asks a replica for a person, outside the schedule, and saves nothing (run, diff, explain, doctor)"""

from holdtrue.inspection.asking import RAW_ROWS, Asked, RawRows, ask_now
from holdtrue.inspection.choosing import SELECTORS, choose
from holdtrue.inspection.connecting import connected
from holdtrue.inspection.diagnosis import Diagnosis, diagnose
from holdtrue.inspection.differences import Answered, Changed, Difference, OnlyKey, Side, changes, difference
from holdtrue.inspection.diffing import Compared, Pair, databases_of, diff_now, pair_of
from holdtrue.inspection.explaining import Explained, explain_now
from holdtrue.inspection.findings import Finding, Weight
from holdtrue.inspection.former import Former, read_former
from holdtrue.inspection.plans import (
    BIG_TABLE,
    ROWS_PER_SECOND,
    PlanFinding,
    PlanFindingKind,
    PlanReach,
    plan_findings,
    plan_reach,
    said_reach,
)

__all__ = [
    "BIG_TABLE",
    "RAW_ROWS",
    "ROWS_PER_SECOND",
    "SELECTORS",
    "Answered",
    "Asked",
    "Changed",
    "Compared",
    "Diagnosis",
    "Difference",
    "Explained",
    "Finding",
    "Former",
    "OnlyKey",
    "Pair",
    "PlanFinding",
    "PlanFindingKind",
    "PlanReach",
    "RawRows",
    "Side",
    "Weight",
    "ask_now",
    "changes",
    "choose",
    "connected",
    "databases_of",
    "diagnose",
    "diff_now",
    "difference",
    "explain_now",
    "pair_of",
    "plan_findings",
    "plan_reach",
    "read_former",
    "said_reach",
]
