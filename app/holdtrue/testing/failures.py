"""how an error of a party is told: its kind, the server's code, where it was raised; never its text, which may carry values"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from holdtrue.testing import whereabouts


def refusal_code(error: BaseException) -> str:
    """The server's code of a refusal, as its driver tells it: an SQLSTATE, MariaDB's number, SQLite's name; else empty."""
    for name in ("sqlstate", "pgcode", "sqlite_errorname"):
        code = getattr(error, name, None)
        if isinstance(code, str):
            return code
    number = error.args[0] if error.args else None
    return str(number) if type(error).__module__.startswith(("pymysql", "MySQLdb")) and isinstance(number, int) else ""


def kind_of(error: BaseException) -> str:
    """``IntegrityError (23505)``."""
    code = next((found for one in _under(error) if (found := refusal_code(one))), "")
    return type(error).__name__ + (f" ({code})" if code else "")


def told(error: BaseException) -> str:
    """``IntegrityError (23505), at refunds.py:33 in issue_refund``."""
    where = whereabouts.raised_in(error)
    return kind_of(error) + (f", at {where}" if where else "")


def all_told(errors: Mapping[str, BaseException]) -> str:
    """Of each party its own."""
    return "; ".join(f"{name} with {told(error)}" for name, error in errors.items())


def cause_of(errors: Collection[BaseException]) -> BaseException | None:
    """What a failure is chained to, so that whoever looks at it sees the errors with their texts."""
    found = list(errors)
    return found[0] if len(found) == 1 else BaseExceptionGroup("what the parties raised", found) if found else None


def _under(error: BaseException) -> Iterator[BaseException]:
    """It, and the driver's own error below one of SQLAlchemy or Django."""
    found: object = error
    while isinstance(found, BaseException):
        yield found
        found = getattr(found, "orig", None) or found.__cause__
