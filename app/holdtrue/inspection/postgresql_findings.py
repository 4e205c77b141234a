"""decides what is to be said of a PostgreSQL replica and what its login may do (pure)"""

from __future__ import annotations

from collections.abc import Mapping

from holdtrue.databases import USUAL_SILENCE, PostgresFacts, Told
from holdtrue.inspection.findings import Finding, fine, of_clocks, of_link, of_untold, some, warning
from holdtrue.model import DatabaseConfig, Freshness, show_duration

_OWN_LOGIN = (
    "give Holdtrue a login of its own that has SELECT and pg_monitor and nothing else (docs/databases.md, The login)"
)
_HARMLESS = frozenset(
    {"pg_monitor", "pg_read_all_settings", "pg_read_all_stats", "pg_stat_scan_tables", "pg_read_all_data"}
)
_UNENCRYPTED = "write sslmode=verify-full and sslrootcert=… in the URL, and let the server offer TLS"
_UNVERIFIED = "write sslmode=verify-full and sslrootcert=… in the URL"


def of_postgresql(
    told: Told, facts: PostgresFacts, config: DatabaseConfig, neighbours: Mapping[str, str]
) -> list[Finding]:
    """Versions, rights, freshness's blind spots, clock and link. ``neighbours``: which standby has which address."""
    return [
        fine("versions", f"PostgreSQL {facts.version} through {facts.link.driver}: offered (13 and newer)"),
        *_of_freshness(told, facts, config, neighbours),
        *_of_rights(facts),
        *of_clocks(facts.clocks),
        *of_link(facts.link, _UNENCRYPTED, _UNVERIFIED),
        *_of_settings(told, facts),
        *of_untold(told, facts.missing),
    ]


def _of_freshness(
    told: Told, facts: PostgresFacts, config: DatabaseConfig, neighbours: Mapping[str, str]
) -> list[Finding]:
    if told.position is None or told.position.role != "standby" or config.freshness is not Freshness.STREAMING:
        return []
    if not facts.receiver_visible:
        return [
            warning(
                "no_pg_monitor",
                "the login may not see the replica's WAL receiver: a cut link cannot be noticed, and answers say"
                " `freshness not proven`",
                f"on the primary: GRANT pg_monitor TO {facts.login}",
            )
        ]
    slow = []
    if facts.silence > max(USUAL_SILENCE, config.max_lag):
        said = f"a link that died silently is noticed after {show_duration(facts.silence)} only (wal_receiver_timeout)"
        slow.append(warning("slow_to_notice", said, "wal_receiver_timeout = 60s on the replica"))
    if facts.sender is None:
        return slow
    upstream = neighbours.get(facts.sender)
    if upstream is not None and upstream != told.replica:
        return [
            *slow,
            warning(
                "cascaded",
                f"this replica follows another one ({upstream}): were that one's own link cut, this one would look fresh",
                "follow the primary itself, or use freshness: heartbeat",
            ),
        ]
    return [
        *slow,
        fine(
            "sender",
            f"what is proven is the link to its sender, {facts.sender}: were that no primary but another standby that is cut"
            f" off, nothing would show it here; a link that falls silent shows after {show_duration(facts.silence)}",
        ),
    ]


def _of_rights(facts: PostgresFacts) -> list[Finding]:
    if "superuser" in facts.attributes:
        said = "the login is a superuser: a text could end sessions, read and write files, promote the standby"
        return [warning("superuser", said, _OWN_LOGIN)]
    found = []
    if facts.attributes:
        said = f"the login has {', '.join(sorted(facts.attributes))}"
        found.append(
            warning(
                "attributes",
                said,
                f"ALTER ROLE {facts.login} NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS",
            )
        )
    strong = sorted(facts.roles - _HARMLESS)
    if strong:
        found.append(
            warning(
                "powerful_roles",
                f"the login is a member of {', '.join(strong)}",
                f"REVOKE {', '.join(strong)} FROM {facts.login}",
            )
        )
    if facts.owned.number:
        said = f"the login owns {some(facts.owned, 'object')}: an owner may do everything with them"
        found.append(warning("owns", said, _OWN_LOGIN))
    if facts.writable.number:
        said = f"the login may write {some(facts.writable, 'object')}; only the read-only transaction and the standby stop it"
        found.append(warning("can_write", said, f"revoke all but SELECT from {facts.login} and from PUBLIC"))
    if facts.creates_in.number or facts.creates_schemas:
        where = [some(facts.creates_in, "schema")] if facts.creates_in.number else []
        where += ["the database itself"] if facts.creates_schemas else []
        said = f"the login may create in {' and '.join(where)}"
        found.append(
            warning("can_create", said, f"REVOKE CREATE ON SCHEMA … FROM {facts.login}, PUBLIC (and ON DATABASE)")
        )
    if facts.functions.number:
        said = (
            f"the login may call {some(facts.functions, 'function')} that do more than read, whatever the transaction"
        )
        found.append(warning("dangerous_functions", said, f"REVOKE EXECUTE ON FUNCTION … FROM {facts.login}, PUBLIC"))
    if facts.definers.number:
        said = f"the login may call {some(facts.definers, 'SECURITY DEFINER function')}: they do what their owner may"
        found.append(warning("definers", said, f"REVOKE EXECUTE ON FUNCTION … FROM {facts.login}, PUBLIC"))
    if not facts.readable and not facts.missing:
        said = "the login may read no table of this database"
        found.append(
            warning(
                "reads_nothing", said, f"GRANT USAGE ON SCHEMA … TO {facts.login}; GRANT SELECT ON … TO {facts.login}"
            )
        )
    if not found and not facts.missing:
        found.append(fine("reads_only", f"the login {facts.login} can only read: {facts.readable} tables and views"))
    return found


def _of_settings(told: Told, facts: PostgresFacts) -> list[Finding]:
    found = []
    if not facts.commit_times:
        found.append(
            fine(
                "no_commit_times",
                "commit times are not kept: tickets name transactions without their time",
                "track_commit_timestamp = on, on the primary",
            )
        )
    if told.position is not None and told.position.role == "standby":
        said = f"a text that is in the way of replay is cancelled after {facts.conflict_delay} (max_standby_streaming_delay)"
        found.append(fine("conflicts", said))
    return found
