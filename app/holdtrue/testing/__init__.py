"""the kit for users' own tests: race, order, chaos, soak, pytest plugin; knows catalog, model, errors only"""

from holdtrue.testing.async_races import AsyncRace, arace
from holdtrue.testing.barrier_databases import BarrierDatabase
from holdtrue.testing.checkpoints import checkpoint
from holdtrue.testing.costs import Cost, Costs
from holdtrue.testing.django_schema import schema_from_django
from holdtrue.testing.forced import ForcedOrder, force_order
from holdtrue.testing.incidents import FrozenIncident, load_incident
from holdtrue.testing.judgements import RaceReport
from holdtrue.testing.late_effects import LateEffect, late_effect
from holdtrue.testing.played import Limits
from holdtrue.testing.policies import after_read, at_checkpoint, before_commit, before_write, step
from holdtrue.testing.races import Race, race
from holdtrue.testing.schemas import schema_from_alembic, schema_from_sql_file
from holdtrue.testing.verdicts import BadSeed, BarrierFailed, LeftOpen, NotWired, Verdict, WrongDatabase

__all__ = [
    "AsyncRace",
    "BadSeed",
    "BarrierDatabase",
    "BarrierFailed",
    "Cost",
    "Costs",
    "ForcedOrder",
    "FrozenIncident",
    "LateEffect",
    "LeftOpen",
    "Limits",
    "NotWired",
    "Race",
    "RaceReport",
    "Verdict",
    "WrongDatabase",
    "after_read",
    "arace",
    "at_checkpoint",
    "before_commit",
    "before_write",
    "checkpoint",
    "force_order",
    "late_effect",
    "load_incident",
    "race",
    "schema_from_alembic",
    "schema_from_django",
    "schema_from_sql_file",
    "step",
]
