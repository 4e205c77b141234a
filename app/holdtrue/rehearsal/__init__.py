"""proves on a scratch database that an invariant can fail (test) and that rows break it (promote), and reads schemas"""

from holdtrue.rehearsal.incidents import IncidentRehearsal, Rehearse, Rehearsed
from holdtrue.rehearsal.proofs import Kind, Proof, Proven, Result, Trial
from holdtrue.rehearsal.pulling import Pulled, pull_schema, tables_in_use
from holdtrue.rehearsal.rehearsing import rehearse
from holdtrue.rehearsal.servers import URL_VARIABLE

__all__ = [
    "URL_VARIABLE",
    "IncidentRehearsal",
    "Kind",
    "Proof",
    "Proven",
    "Pulled",
    "Rehearse",
    "Rehearsed",
    "Result",
    "Trial",
    "pull_schema",
    "rehearse",
    "tables_in_use",
]
