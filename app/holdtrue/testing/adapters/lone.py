"""what is known of a statement that is a transaction of its own: whether it writes, and so has a COMMIT to be held at"""

from __future__ import annotations

from holdtrue.testing.hooks import Hooks
from holdtrue.testing.statements import Statement
from holdtrue.testing.verdicts import Verdict

_WRITES = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE", "MERGE", "WITH"})
_ALWAYS = frozenset({"CALL", "DO", "EXECUTE"})
_BY_CALLS = frozenset({"SELECT", "WITH", "VALUES"})
# Words before a parenthesis that write nothing, most of them no functions; a sequence that moves on is nobody's row.
_HARMLESS = """
abs all and any array array_agg as avg between bool_and bool_or by case cast ceil char char_length coalesce count
current_setting currval date date_part date_trunc decimal distinct else exists extract filter floor from greatest
having in join json_agg json_build_object jsonb_agg jsonb_build_object least length like lower max md5 min nextval not
now nullif numeric on or over partition pg_advisory_lock pg_advisory_unlock pg_backend_pid pg_sleep
pg_try_advisory_lock position random replace round row row_number rows select set setval some string_agg substring sum
then to_char to_date trim union unnest upper using values varchar when where with within
"""
_ENDS_ITSELF = "2D000"
BY_THE_SERVER = 'hold="server" can: there the server holds a party before it writes'


def writes_alone(statement: Statement) -> bool:
    """Whether the COMMIT of this statement can be put off where it is a transaction of its own."""
    return bool(statement.writes) and statement.verb in _WRITES


def may_hide_a_write(statement: Statement) -> bool:
    """Whether a function, a procedure or a block that it names may write; only the server knows, and only afterwards."""
    if writes_alone(statement):
        return False
    return statement.verb in _ALWAYS or (
        statement.verb in _BY_CALLS and not statement.calls.issubset(_HARMLESS.split())
    )


def says_it_commits(hooks: Hooks, statement: Statement, code: str) -> None:
    """Note that a procedure or a block ends transactions itself, which it cannot inside one that was begun for it."""
    if code == _ENDS_ITSELF and statement.verb in _ALWAYS:
        hooks.scheduler.complain(
            Verdict.NOT_REACHED,
            f"{statement.verb} ends transactions itself, so it cannot be held at their COMMIT: nothing was tested "
            f"({BY_THE_SERVER})",
        )


def says_it_is_in_a_pipeline(hooks: Hooks, statement: Statement) -> None:
    """Note that a statement commits when its pipeline is synchronised, where nobody can be held."""
    if writes_alone(statement) or may_hide_a_write(statement):
        hooks.scheduler.complain(
            Verdict.NOT_REACHED,
            f"{statement} is a transaction of its own inside a pipeline, so it cannot be held at its COMMIT: nothing was "
            f"tested (begin a transaction around it, if production does; {BY_THE_SERVER})",
        )
