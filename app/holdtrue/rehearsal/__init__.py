"""proves on a scratch database that an invariant can fail (test), and reads the schema for one (pull-schema)"""

from holdtrue.rehearsal.proofs import Kind, Proof, Proven, Result, Trial
from holdtrue.rehearsal.pulling import Pulled, pull_schema, tables_in_use
from holdtrue.rehearsal.rehearsing import rehearse
from holdtrue.rehearsal.servers import URL_VARIABLE

__all__ = [
    "URL_VARIABLE",
    "Kind",
    "Proof",
    "Proven",
    "Pulled",
    "Result",
    "Trial",
    "pull_schema",
    "rehearse",
    "tables_in_use",
]
