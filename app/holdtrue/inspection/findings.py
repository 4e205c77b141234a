"""decides what is to be said of a replica and its login: severity, sentence and remedy (pure)"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from holdtrue.databases import Clocks, Count, Link, Told
from holdtrue.model import DatabaseConfig, Failure, FailureReason, Freshness, show_duration

_CLOCKS_APART = timedelta(seconds=1)


class Weight(StrEnum):
    """How much a finding matters: a ``problem`` means that runs cannot be made there now."""

    FINE = "fine"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is known. ``name`` is stable, for programs; ``remedy`` is empty where there is nothing to do."""

    weight: Weight
    name: str
    sentence: str
    remedy: str = ""


def fine(name: str, sentence: str, remedy: str = "") -> Finding:
    """As it should be, or good to know."""
    return Finding(Weight.FINE, name, sentence, remedy)


def warning(name: str, sentence: str, remedy: str) -> Finding:
    """Runs are made, and something about them is weaker than it could be."""
    return Finding(Weight.WARNING, name, sentence, remedy)


def problem(name: str, sentence: str, remedy: str) -> Finding:
    """Runs cannot be made there now."""
    return Finding(Weight.PROBLEM, name, sentence, remedy)


_REMEDIES = {
    FailureReason.IS_PRIMARY: "point the URL at a read replica, or write allow_primary: true for this database",
    FailureReason.CUT_OFF: "bring the replica's link back; where the server does not stream, use freshness: heartbeat",
    FailureReason.LAGGING: "look at the replica's load and network; or raise max_lag",
    FailureReason.REPLAY_PAUSED: "SELECT pg_wal_replay_resume() on the replica, if nobody paused it on purpose",
    FailureReason.NO_HEARTBEAT: "let a job write the heartbeat on the primary, and this login read it here",
    FailureReason.LOST: "look at the server's log, and try again",
    FailureReason.CONFLICT: "try again",
    FailureReason.FORBIDDEN: "grant the login what it may not read",
}
_REFUSALS = (
    ("wrong user or password", "look at the user of the URL, and at password or password_command"),
    ("wants a password", "give password or password_command"),
    ("no such database", "look at the database's name in the URL"),
    ("nobody listens", "look at host and port of the URL, and whether the server runs"),
    ("host name is unknown", "look at the host of the URL"),
    ("no answer in time", "look at the network and its firewalls between here and the server"),
    (
        "certificate",
        "look at the authority that the URL names (sslrootcert, ssl_ca) and at the certificate's own name",
    ),
    ("encrypted connection", "let the server offer TLS, or say in the URL that there is none (sslmode, ssl_mode)"),
    ("statement mode", "give Holdtrue a pool in transaction mode"),
    ("parameter of this url", "take options and other settings out of the URL"),
    ("url of this replica cannot be read", "write it as docs/databases.md says; a password in it is percent-encoded"),
    ("password_command", "run the command by hand, as the same user"),
    ("sqlite", "look at the path: a relative one begins at holdtrue.yaml"),
    ("not allowed", "let the login in: pg_hba.conf, or the account's host"),
    ("not installed", "install what is missing"),
)


def of_reach(told: Told, config: DatabaseConfig) -> list[Finding]:
    """Whether a run would be made there now, and how old its answer would be."""
    if told.refused is not None:
        name = "would_not_be_asked" if told.reached else "unreachable"
        said = "a run would not be made here now: " if told.reached else ""
        return [problem(name, said + told.refused.sentence, _remedy(told.refused))]
    position = told.position
    if position is None:
        return []
    lag = f", lag {show_duration(position.lag)}" if position.lag is not None else ""
    found = [fine("asked", f"runs are made here: {position.role}{lag}")]
    if position.role == "primary":
        found.append(
            warning(
                "primary",
                "this is a primary: what a text locks or writes past its transaction, it does to production",
                "point the URL at a read replica, and take allow_primary away",
            )
        )
    if config.freshness is Freshness.NONE and position.role == "standby":
        found.append(
            warning(
                "freshness_not_proven",
                "freshness: none: how old the data here is is not known, and every answer says so",
                "use freshness: streaming where the replica streams from the primary itself, heartbeat elsewhere",
            )
        )
    return found


def _remedy(failure: Failure) -> str:
    text = failure.sentence.lower()
    for words, remedy in _REFUSALS:
        if words in text:
            return remedy
    return _REMEDIES.get(failure.reason, "look at the server's log, and try again")


def of_clocks(clocks: Clocks) -> list[Finding]:
    """Whether the database's clock and this machine's agree, as far as the way between them lets it be told."""
    ahead = clocks.ahead
    if abs(ahead) < _CLOCKS_APART:
        return [fine("clock", "the database's clock agrees with this machine's")]
    side = "ahead of" if ahead > timedelta(0) else "behind"
    return [
        warning(
            "clock",
            f"the database's clock is {show_duration(abs(ahead))} {side} this machine's",
            "let both follow the same time servers: ages, settle and schedules compare the two",
        )
    ]


def of_link(link: Link, unencrypted: str, unverified: str) -> list[Finding]:
    """Encryption and what stands in between; the remedies are the dialect's."""
    found = []
    beyond = " as far as the pooler" if link.pooled else ""
    if link.encryption and (link.verified or link.local):
        found.append(fine("encrypted", f"encrypted{beyond}: {link.encryption}"))
    elif link.encryption:
        sentence = f"encrypted{beyond} ({link.encryption}), but nobody checks that the server is the right one"
        found.append(warning("certificate_not_checked", sentence, unverified))
    elif link.local:
        found.append(fine("encrypted", "not encrypted; the way does not leave this machine"))
    else:
        found.append(warning("not_encrypted", f"not encrypted{beyond}: rows and password travel readable", unencrypted))
    if link.pooled:
        found.append(
            fine(
                "pooler",
                "a pooler or proxy stands in between: another process answers than the one that was told at connecting",
            )
        )
    return found


def of_untold(told: Told, missing: Sequence[str]) -> list[Finding]:
    """What could not be asked: not knowing is never fine."""
    said = []
    if told.untold is not None:
        said.append(f"what the server and the login are could not be asked: {told.untold.sentence}")
    if missing:
        said.append(f"could not be told: {', '.join(missing)}")
    return [warning("not_told", one, "look as a login that may, or at the server's log") for one in said]


def of_lower_level(told: Told) -> list[Finding]:
    """A database that is asked through its SQLAlchemy driver tells nothing of itself or of the login."""
    if not told.reached or told.untold is not None:
        return []
    return [
        warning(
            "lower_level",
            "this kind of database is asked at a lower level of protection, and what its login may do was not looked at",
            "give Holdtrue a login that can do nothing but SELECT (docs/databases.md, Any other database)",
        )
    ]


def some(count: Count, noun: str) -> str:
    """``3 tables (a, b, c)``, ``12 tables (a, b, c …)``."""
    plural = noun if count.number == 1 else f"{noun}s"
    more = " …" if count.number > len(count.names) else ""
    return f"{count.number} {plural} ({', '.join(count.names)}{more})"


def heaviest(findings: Iterable[Finding]) -> Weight:
    """The weight of the one that matters most; fine if there is none."""
    return max((one.weight for one in findings), key=list(Weight).index, default=Weight.FINE)
