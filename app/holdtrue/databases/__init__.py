"""runs one statement on the right replica within its limits; one module per dialect"""

from holdtrue.databases.describing import Described, Describes
from holdtrue.databases.examination import EVIDENCE_LIMIT, evidence_mask, examine_invariant
from holdtrue.databases.looks import Answer, Examined, Limits, Look, Mask, ReplicaState, Streamed
from holdtrue.databases.replicas import Databases

__all__ = [
    "EVIDENCE_LIMIT",
    "Answer",
    "Databases",
    "Described",
    "Describes",
    "Examined",
    "Limits",
    "Look",
    "Mask",
    "ReplicaState",
    "Streamed",
    "evidence_mask",
    "examine_invariant",
]
