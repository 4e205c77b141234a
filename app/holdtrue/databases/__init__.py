"""runs one statement on the right replica within its limits; one module per dialect"""

from holdtrue.databases.describing import Described, Describes
from holdtrue.databases.examination import EVIDENCE_LIMIT, evidence_mask, examine_invariant
from holdtrue.databases.facts import Clocks, Count, Facts, Link, MysqlFacts, PostgresFacts, SqliteFacts, Told
from holdtrue.databases.freshness import USUAL_SILENCE
from holdtrue.databases.looks import Answer, Examined, Limits, Look, Mask, ReplicaState, Streamed
from holdtrue.databases.planning import Aliases, Explains, Plan, PlanStep, TableSize
from holdtrue.databases.replicas import Databases

__all__ = [
    "EVIDENCE_LIMIT",
    "USUAL_SILENCE",
    "Aliases",
    "Answer",
    "Clocks",
    "Count",
    "Databases",
    "Described",
    "Describes",
    "Examined",
    "Explains",
    "Facts",
    "Limits",
    "Link",
    "Look",
    "Mask",
    "MysqlFacts",
    "Plan",
    "PlanStep",
    "PostgresFacts",
    "ReplicaState",
    "SqliteFacts",
    "Streamed",
    "TableSize",
    "Told",
    "evidence_mask",
    "examine_invariant",
]
