"""the kit for users' own tests: race, order, chaos, soak, pytest plugin; knows catalog, model, errors only"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from holdtrue.testing.checkpoints import checkpoint

if TYPE_CHECKING:
    from holdtrue.testing.async_races import AsyncRace, arace
    from holdtrue.testing.barrier_databases import BarrierDatabase
    from holdtrue.testing.costs import Cost, Costs
    from holdtrue.testing.django_schema import schema_from_django
    from holdtrue.testing.forced import ForcedOrder, force_order
    from holdtrue.testing.incidents import FrozenIncident, load_incident
    from holdtrue.testing.judgements import RaceReport
    from holdtrue.testing.late_effects import LateEffect, late_effect
    from holdtrue.testing.making import race
    from holdtrue.testing.played import Limits
    from holdtrue.testing.policies import after_read, at_checkpoint, before_commit, before_write, step
    from holdtrue.testing.races import Race
    from holdtrue.testing.schemas import schema_from_alembic, schema_from_sql_file
    from holdtrue.testing.verdicts import BadSeed, BarrierFailed, LeftOpen, NotWired, Verdict, WrongDatabase

# A service that has a checkpoint in it loads that, and the rest of the kit only where a test asks.
_HOMES = {
    "async_races": "AsyncRace arace",
    "barrier_databases": "BarrierDatabase",
    "costs": "Cost Costs",
    "django_schema": "schema_from_django",
    "forced": "ForcedOrder force_order",
    "incidents": "FrozenIncident load_incident",
    "judgements": "RaceReport",
    "late_effects": "LateEffect late_effect",
    "making": "race",
    "played": "Limits",
    "policies": "after_read at_checkpoint before_commit before_write step",
    "races": "Race",
    "schemas": "schema_from_alembic schema_from_sql_file",
    "verdicts": "BadSeed BarrierFailed LeftOpen NotWired Verdict WrongDatabase",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

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


def __getattr__(name: str) -> object:
    """Load what a test asks for.

    Raises:
        AttributeError: the kit has no such name.
    """
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
